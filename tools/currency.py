"""Refuse what makes code hard to read: `make lint` fails on more of it than tools/left.toml lists.

The rules and their reasons stand in docs/architecture.md. tools/left.toml holds, for each rule and
module, how many places were there when the rule came. A count may only fall, and the list falls
with it: `python -m tools.currency --write` lowers it. Tokens are printed and never refused.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tools import measure
from tools.measure import Module

LEFT = Path(__file__).with_name("left.toml")
COLUMNS = 100
COMPLEXITY = 10
FUNCTION_LINES = 60
MODULE_LINES = 500
OWN_IMPORTS = 12
EMPTY_NAMES = frozenset(
    {"one", "found", "told", "said", "each", "asked", "known", "shown", "given", "meant"}
)
# The first words that a function may have; `is_`, `has_`, `can_` ... ask a question.
VERBS = frozenset(Path(__file__).with_name("verbs.txt").read_text(encoding="utf-8").split())
# Functions that are called by another name than a verb: by Python, by a library, by a term of the
# field, or by the methods and tools that docs/python.md and docs/mcp.md name.
NOUNS = frozenset(
    {
        *("main", "isatty", "shell_complete", "exists", "bm25", "clock", "digest", "perform"),
        *("at", "brief", "diff", "history", "important", "latest_checkpoint", "memory_summary"),
        *(
            "purge_command",
            "records",
            "revisions",
            "seen_by",
            "status",
            "timeline",
            "topics",
            "why",
        ),
        *("tool_command", "repeatable_option", "text_option", "word_list_option"),  # decorators
    }
)
_NOUN_DECORATORS = frozenset(
    {
        *("property", "cached_property", "setter", "contextmanager", "asynccontextmanager"),
        *("command", "group", "tool", "tool_command"),
    }
)

Counts = Mapping[str, Mapping[str, int]]  # rule -> path of a module -> number of places


class Place(NamedTuple):
    """One place that a rule refuses."""

    rule: str
    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.what}"


def places(product: Sequence[Module]) -> list[Place]:
    """Every place in the product that a rule refuses."""
    rows = [place for module in product for place in _places_in(module)]
    return rows + list(_imports(product))


def _places_in(module: Module) -> Iterator[Place]:
    yield from _sizes(module)
    for node in ast.walk(module.tree):
        line = getattr(node, "lineno", 0)
        for rule, what in _refused(node):
            yield Place(rule, module.path, line, what)


def _sizes(module: Module) -> Iterator[Place]:
    if len(module.lines) > MODULE_LINES:
        yield Place("long_module", module.path, 1, f"{len(module.lines)} lines")
    for number, line in enumerate(module.lines, 1):
        if len(line) > COLUMNS:
            yield Place("columns", module.path, number, f"{len(line)} columns")
    for function in module.functions:
        score = measure.complexity(function)
        lines = measure.length(function)
        if score > COMPLEXITY:
            yield Place("complexity", module.path, function.lineno, f"{function.name}: {score}")
        if lines > FUNCTION_LINES:
            what = f"{function.name}: {lines} lines"
            yield Place("long_function", module.path, function.lineno, what)


def _refused(node: ast.AST) -> Iterator[tuple[str, str]]:
    """What the rules for single nodes say of one: (rule, what)."""
    name = _bound_name(node)
    if name in EMPTY_NAMES:
        yield "empty_name", name
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _begins_with_verb(node):
        yield "function_name", node.name
    if isinstance(node, ast.Assign) and _packs(node):
        yield "packed_assignment", ast.unparse(node)[:60]
    if isinstance(node, _COMPREHENSIONS) and _nests(node):
        yield "nested_comprehension", ast.unparse(node)[:60]
    for walrus in _buried(node):
        yield "buried_assignment", ast.unparse(walrus)[:60]


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _bound_name(node: ast.AST) -> str:
    """The name that a node binds: a variable, a parameter, an attribute or a function."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            return name
        case ast.Attribute(attr=name, ctx=ast.Store()):
            return name
        case ast.arg(arg=name):
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name
    return ""


def _begins_with_verb(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Check that a name says what the function does.

    A property, a context manager and the function of a command are called by a noun.
    """
    if function.name.startswith("__") or function.name in NOUNS:
        return True
    decorators = {_last_word(decorator) for decorator in function.decorator_list}
    if decorators & _NOUN_DECORATORS:
        return True
    return function.name.strip("_").split("_")[0] in VERBS


def _last_word(decorator: ast.expr) -> str:
    """Return the last name of a decorator: `command` for `@click.command("why")`."""
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(target).rpartition(".")[2]


def _packs(node: ast.Assign) -> bool:
    """True for `a, b = x, y`, but not for a swap."""
    target = node.targets[0]
    if not (isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)):
        return False
    names = sorted(ast.unparse(part) for part in target.elts)
    return names != sorted(ast.unparse(part) for part in node.value.elts)


def _nests(node: ast.AST) -> bool:
    inner = (child for child in ast.walk(node) if child is not node)
    return any(isinstance(child, _COMPREHENSIONS) for child in inner)


def _buried(node: ast.AST) -> Iterator[ast.NamedExpr]:
    """Assignments inside the condition of an `if` or `while` that do not stand there alone."""
    if isinstance(node, ast.If | ast.While | ast.IfExp | ast.comprehension):
        tests = node.ifs if isinstance(node, ast.comprehension) else [node.test]
        for test in tests:
            inner = (child for child in ast.walk(test) if isinstance(child, ast.NamedExpr))
            yield from (child for child in inner if not _stands_alone(test, child))


def _stands_alone(test: ast.expr, walrus: ast.NamedExpr) -> bool:
    """True where the condition is the assignment itself, its negation, or one comparison of it."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return operand is walrus
        case ast.Compare(left=left, comparators=[_]):
            return left is walrus
    return test is walrus


def _imports(product: Sequence[Module]) -> Iterator[Place]:
    paths = {module.name: module.path for module in product}
    targets: dict[str, set[str]] = {module.name: set() for module in product}
    for row in measure.imports_of(product):
        targets[row.source].add(row.target)
        if row.late:
            yield Place("late_import", paths[row.source], 1, row.target)
    for name, group in targets.items():
        if len(group) > OWN_IMPORTS:
            yield Place("own_imports", paths[name], 1, f"{len(group)} modules")
    for circle in measure.circles(product):
        for name in circle:
            yield Place("circle", paths[name], 1, " ".join(circle))
    for name in measure.gerunds(product):
        yield Place("gerund", paths[name], 1, name)


def counted(rows: Sequence[Place]) -> Counts:
    """Numbers of places by rule and module, as tools/left.toml holds them."""
    by_rule: dict[str, Counter[str]] = {}
    for place in rows:
        by_rule.setdefault(place.rule, Counter())[place.path] += 1
    return by_rule


def problems(rows: Sequence[Place], left: Counts) -> list[str]:
    """What `make lint` refuses: more places than the list allows, and a list that allows more."""
    now = counted(rows)
    lines: list[str] = []
    for rule in sorted({*now, *left}):
        for path in sorted({*now.get(rule, {}), *left.get(rule, {})}):
            count = now.get(rule, {}).get(path, 0)
            allowed = left.get(rule, {}).get(path, 0)
            if count > allowed:
                here = [str(row) for row in rows if (row.rule, row.path) == (rule, path)]
                lines += [f"{path}: {count} x {rule}, {allowed} allowed:", *here]
            elif count < allowed:
                lines.append(
                    f"{path}: {count} x {rule} and {allowed} listed; "
                    "lower the list: python -m tools.currency --write"
                )
    return lines


def written(now: Counts, left: Counts) -> str:
    """tools/left.toml with every count that fell; a rule that it does not have yet comes in whole."""
    text = "# What is left of each rule, by module (tools/currency.py). A count may only fall.\n"
    for rule in sorted(now):
        limits = left.get(rule)
        text += f"\n[{rule}]\n"
        for path, count in sorted(now[rule].items()):
            allowed = count if limits is None else min(count, limits.get(path, 0))
            if allowed:
                text += f'"{path}" = {allowed}\n'
    return text


def main() -> int:
    """Print tokens by package, then compare with the list, or lower it (`--write`)."""
    product = measure.modules()
    rows = places(product)
    left = tomllib.loads(LEFT.read_text(encoding="utf-8")) if LEFT.exists() else {}
    if "--write" in sys.argv:
        LEFT.write_text(written(counted(rows), left), encoding="utf-8")
        return 0
    sizes = measure.tokens_by_package(product)
    packages = ", ".join(f"{name} {tokens:,}" for name, tokens in sizes.items())
    print(f"{sum(sizes.values()):,} tokens: {packages}")
    lines = problems(rows, left)
    for line in lines:
        print(line, file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
