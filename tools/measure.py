"""How big the product is and how its modules hang together: `python -m tools.measure` prints it.

Lines, modules, functions and imports are read from the syntax tree alone; nothing of the product is run.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "filemem"
NOUNS = frozenset({"string", "thing"})  # end in -ing and are no gerunds

Graph = Mapping[str, frozenset[str]]


class Import(NamedTuple):
    """One import of a module of our own. `late`: inside a function; `typed`: only for the type checker."""

    source: str
    target: str
    late: bool
    typed: bool


class Figures(NamedTuple):
    """What was measured; `circles` lists groups of modules that import each other, late imports counted."""

    lines: Mapping[str, int]
    functions: tuple[int, ...]
    branches: tuple[int, ...]
    imports: tuple[Import, ...]
    circles: tuple[tuple[str, ...], ...]
    gerunds: tuple[str, ...]

    @property
    def late(self) -> int:
        """How many imports stand inside functions."""
        return sum(one.late for one in self.imports)


def measured(root: Path = ROOT) -> Figures:
    """Measure the product below a checkout."""
    files = {_name(path, root): path for path in sorted((root / PACKAGE).rglob("*.py"))}
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    imports = tuple(found for name, tree in trees.items() for found in _imports(name, tree, files))
    functions = [
        node
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    ]
    last = {name: name.rpartition(".")[2] for name in files}
    return Figures(
        lines={name: text.count("\n") for name, text in texts.items()},
        functions=tuple((node.end_lineno or node.lineno) - node.lineno + 1 for node in functions),
        branches=tuple(map(_branches, functions)),
        imports=imports,
        circles=tuple(_circles(_graph(imports, files))),
        gerunds=tuple(
            name for name, part in last.items() if part.endswith("ing") and part not in NOUNS
        ),
    )


def packages(figures: Figures) -> dict[str, tuple[int, int]]:
    """Lines and modules of each package; what stands at the top counts as one."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for name, count in figures.lines.items():
        parts = name.split(".")
        package = parts[1] if len(parts) > 2 or (ROOT / PACKAGE / parts[-1]).is_dir() else "."
        lines, modules = found[package]
        found[package] = lines + count, modules + 1
    return dict(sorted(found.items()))


def _name(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _imports(name: str, tree: ast.Module, names: Mapping[str, Path]) -> Iterator[Import]:
    def visit(node: ast.AST, late: bool, typed: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            inside = late or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            checked = typed or (
                isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
            )
            for target in _targets(child):
                if (known := _known(target, names)) and known != name:
                    yield Import(name, known, inside, checked)
            yield from visit(child, inside, checked)

    return visit(tree, False, False)


def _targets(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _known(target: str, names: Mapping[str, Path]) -> str:
    """The module of ours that an import leads to; "" if it is none of ours."""
    while target and target not in names:
        target = target.rpartition(".")[0]
    return target


def _graph(imports: Sequence[Import], names: Mapping[str, Path]) -> Graph:
    found: dict[str, set[str]] = {name: set() for name in names}
    for one in imports:
        if not one.typed:
            found[one.source].add(one.target)
    return {name: frozenset(targets) for name, targets in found.items()}


def _circles(graph: Graph) -> Iterator[tuple[str, ...]]:
    """Groups of modules that reach each other. A package that imports its own modules is no circle by itself."""
    reach = {name: _reached(graph, name) for name in graph}
    seen: set[str] = set()
    for name in graph:
        group = tuple(sorted(other for other in reach[name] if name in reach[other]))
        if len(group) > 1 and name not in seen:
            seen.update(group)
            yield group


def _reached(graph: Graph, start: str) -> frozenset[str]:
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        if (name := waiting.pop()) not in seen:
            seen.add(name)
            waiting += graph[name]
    return frozenset(seen)


def _branches(function: ast.FunctionDef) -> int:
    """Ways through a function, as McCabe counts them."""
    kinds = (
        ast.If,
        ast.For,
        ast.While,
        ast.ExceptHandler,
        ast.IfExp,
        ast.Assert,
        ast.comprehension,
    )
    count = 1
    for node in ast.walk(function):
        count += isinstance(node, kinds)
        count += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
    return count


def _spread(values: Sequence[int]) -> str:
    ordered = sorted(values)
    return f"{statistics.median(ordered):.0f} / {ordered[int(len(ordered) * 0.9)]} / {ordered[-1]}"


def main() -> None:
    """Print the figures."""
    found = measured(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT)
    out = {
        target: len({one.target for one in found.imports if one.source == target})
        for target in found.lines
    }
    print(f"{sum(found.lines.values()):,} lines in {len(found.lines)} modules")
    for package, (lines, modules) in packages(found).items():
        print(f"  {package:<10} {lines:>6,} in {modules}")
    print(f"module, median / p90 / max lines     {_spread([*filter(None, found.lines.values())])}")
    print(
        f"function, median / p90 / max lines   {_spread(found.functions)} of {len(found.functions):,}"
    )
    print(f"functions with over 10 branches      {sum(count > 10 for count in found.branches)}")
    print(f"own imports, median / p90 / max      {_spread(list(out.values()))}")
    print(f"late imports                         {found.late}")
    print(f"circles, late imports counted        {[len(group) for group in found.circles]}")
    print(f"modules named by a gerund            {len(found.gerunds)}")


if __name__ == "__main__":
    main()
