"""Measure the product: `python -m tools.measure [ROOT]` prints its size and structure.

Everything is read from the syntax tree and the tokens; nothing of the product is run.
"""

from __future__ import annotations

import ast
import io
import statistics
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "filemem"
NOUNS = frozenset({"string", "thing"})  # end in -ing and are no gerunds
COUNTED = frozenset({tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING})

Graph = Mapping[str, frozenset[str]]


class Import(NamedTuple):
    """One import of a module of our own. `late`: inside a function; `typed`: only for mypy."""

    source: str
    target: str
    late: bool
    typed: bool


class Module(NamedTuple):
    """One file of the product."""

    name: str
    path: str
    text: str
    tree: ast.Module

    @property
    def lines(self) -> list[str]:
        """Its lines, without their ends."""
        return self.text.splitlines()

    @property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Its functions and methods, nested ones too."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return [node for node in ast.walk(self.tree) if isinstance(node, kinds)]

    @property
    def tokens(self) -> int:
        """Names, operators, numbers and strings; docstrings are not counted."""
        source = io.StringIO(self.text).readline
        total = sum(token.type in COUNTED for token in tokenize.generate_tokens(source))
        return total - docstrings(self.tree)


def modules(root: Path = ROOT) -> list[Module]:
    """Read the product below a checkout, in the order of paths."""
    return [_module(path, root) for path in sorted((root / PACKAGE).rglob("*.py"))]


def _module(path: Path, root: Path) -> Module:
    relative = path.relative_to(root)
    name = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
    text = path.read_text(encoding="utf-8")
    return Module(name, relative.as_posix(), text, ast.parse(text))


def docstrings(tree: ast.AST) -> int:
    """Count the docstrings below a node."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    holders = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return sum(ast.get_docstring(node, clean=False) is not None for node in holders)


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function, its signature and docstring included."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def complexity(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Ways through a function, as McCabe counts them, conditions inside expressions included."""
    kinds = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.IfExp, ast.Assert)
    count = 1
    for node in ast.walk(function):
        if isinstance(node, (*kinds, ast.comprehension)):
            count += 1
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
    return count


def imports_of(product: Sequence[Module]) -> list[Import]:
    """Imports between the product's own modules, the late and the typed ones included."""
    names = {module.name for module in product}
    rows: list[Import] = []
    for module in product:
        rows.extend(_imports(module, module.tree, names, late=False, typed=False))
    return rows


def _imports(
    module: Module, node: ast.AST, names: set[str], *, late: bool, typed: bool
) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        inside = late or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        checked = typed or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test))
        for target in _targets(child):
            own = _own_module(target, names)
            if own and own != module.name:
                yield Import(module.name, own, inside, checked)
        yield from _imports(module, child, names, late=inside, typed=checked)


def _targets(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _own_module(target: str, names: set[str]) -> str:
    """The product's module that an import leads to; "" for any other."""
    while target and target not in names:
        target = target.rpartition(".")[0]
    return target


def circles(product: Sequence[Module]) -> list[tuple[str, ...]]:
    """Groups of modules that reach each other, through late and typed imports too."""
    targets: dict[str, set[str]] = {module.name: set() for module in product}
    for row in imports_of(product):
        targets[row.source].add(row.target)
    graph = {name: frozenset(group) for name, group in targets.items()}
    reach = {name: _reached(graph, name) for name in graph}
    groups = {
        tuple(sorted(other for other in reach[name] if name in reach[other])) for name in graph
    }
    return sorted(group for group in groups if len(group) > 1)


def _reached(graph: Graph, start: str) -> frozenset[str]:
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph[name]
    return frozenset(seen)


def gerunds(product: Sequence[Module]) -> list[str]:
    """Modules that are named by a gerund."""
    last = {module.name: module.name.rpartition(".")[2] for module in product}
    return [name for name, part in last.items() if part.endswith("ing") and part not in NOUNS]


def tokens_by_package(product: Sequence[Module]) -> dict[str, int]:
    """Tokens of each package; the modules at the top count as one, named `top`."""
    packages = {module.name for module in product if module.path.endswith("__init__.py")}
    sizes: dict[str, int] = defaultdict(int)
    for module in product:
        package = ".".join(module.name.split(".")[:2])
        is_package = package in packages and package != PACKAGE
        sizes[package.partition(".")[2] if is_package else "top"] += module.tokens
    return dict(sorted(sizes.items()))


def _spread(values: Sequence[int]) -> str:
    ordered = sorted(values)
    ninth = ordered[int(len(ordered) * 0.9)]
    return f"{statistics.median(ordered):.0f} / {ninth} / {ordered[-1]}"


def main() -> None:
    """Print the figures."""
    product = modules(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT)
    functions = [function for module in product for function in module.functions]
    imports = imports_of(product)
    sizes = tokens_by_package(product)
    print(f"{sum(sizes.values()):,} tokens in {len(product)} modules")
    for package, tokens in sizes.items():
        print(f"  {package:<10} {tokens:>7,}")
    print(f"module, median / p90 / max lines     {_spread([len(m.lines) for m in product])}")
    print(f"function, median / p90 / max lines   {_spread([length(f) for f in functions])}")
    print(f"functions above complexity 10        {sum(complexity(f) > 10 for f in functions)}")
    print(f"late imports                         {sum(row.late for row in imports)}")
    print(f"circles, types counted               {[len(group) for group in circles(product)]}")
    print(f"modules named by a gerund            {len(gerunds(product))}")


if __name__ == "__main__":
    main()
