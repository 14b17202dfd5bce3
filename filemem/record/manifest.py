"""The names of dependencies in manifests of eight kinds, with their lines. Nothing is resolved.

A manifest that cannot be read, half written perhaps, names nothing.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple


class Dependency(NamedTuple):
    """A name that a manifest lists, as written there, and its line."""

    name: str
    line: int


def parse_dependencies(path: str, text: str) -> tuple[Dependency, ...]:
    """Return the dependencies that a manifest lists, in order; none for other files."""
    name = path.rpartition("/")[2]
    kind = "requirements*.txt" if _REQUIREMENTS.fullmatch(name) else name
    parser = _PARSERS.get(kind)
    if parser is None:
        return ()
    try:
        return tuple(sorted(set(parser(text)), key=lambda item: (item.line, item.name)))
    except (ValueError, RecursionError):
        return ()


def is_same_dependency(expected: str, name: str) -> bool:
    """Return whether a dependency is the wanted one.

    Letter case, and `_`, `.` or `-`, make no difference. Of a Maven name `group:artifact` either
    half is enough; the version at the end of a Go module's path does not count.
    """
    normalized = _normalize_name(expected)
    return normalized == _normalize_name(name) or normalized in map(
        _normalize_name, name.split(":")
    )


def _normalize_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.sub(r"/v\d+$", "", name.strip()).casefold())


# -- by kind --------------------------------------------------------------------------------------

_REQUIREMENTS = re.compile(r"requirements.*\.txt")
_PYTHON_NAME = re.compile(r"\s*([A-Za-z0-9][\w.\-]*)")
_EGG = re.compile(r"#egg=([\w.\-]+)")
_GO_ROW = re.compile(r"\s*(?:require\s+)?([^\s()]+)\s+v\S+")
_GEM = re.compile(r"""\s*gem[\s(]+["']([^"']+)["']""")
_JSON_TEXT = re.compile(r'"((?:[^"\\]|\\.)*+)"')  # none begins within another
# tomllib takes the square of the parts of a key.
_LONG_KEY = re.compile(r"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){64}""")
_TOML_KEY = re.compile(r"""(?m)^[ \t]*+(?:\[(?:[^\]\n]*\.)?)?["']?([\w@/\-]++)["']?[ \t]*+[.=\]]""")
_TOML_TEXT = re.compile(r""""([^"\n]*+)"|'([^'\n]*+)'""")
_GRADLE = re.compile(
    r"""^\s*\w*(?:api|implementation|only|compile|runtime|processor|kapt|classpath)\b"""
    r"""[\s(]*(?:platform\s*\()?(?:["']([^"':\s]+:[^"':\s]+)|group\s*[:=]\s*["']([^"']+)["']\s*,"""
    r"""\s*name\s*[:=]\s*["']([^"']+))""",
    re.IGNORECASE,
)
_NPM_SECTIONS = ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies")
_CARGO_SECTIONS = ("dependencies", "dev-dependencies", "build-dependencies")


def _parse_npm(text: str) -> Iterator[Dependency]:
    manifest = _as_table(json.loads(text))
    for section in _NPM_SECTIONS:
        names = _as_table(manifest.get(section))
        lines = _index_lines(_JSON_TEXT, text, text.find(f'"{section}"')) if names else {}
        for name in names:
            yield Dependency(name, lines.get(name, 1))


def _parse_pyproject(text: str) -> Iterator[Dependency]:
    tables = _parse_toml(text)
    project = _as_table(tables.get("project"))
    lists = [project.get("dependencies"), _as_table(tables.get("build-system")).get("requires")]
    lists += _as_table(project.get("optional-dependencies")).values()
    lists += _as_table(tables.get("dependency-groups")).values()
    lines = _index_lines(_TOML_TEXT, text)
    for requirement in (item for items in lists if isinstance(items, list) for item in items):
        name = _PYTHON_NAME.match(requirement) if isinstance(requirement, str) else None
        if name:
            yield Dependency(name[1], lines.get(requirement, 1))
    poetry = _as_table(_as_table(tables.get("tool")).get("poetry"))
    groups = [poetry, *map(_as_table, _as_table(poetry.get("group")).values())]
    keys = _index_lines(_TOML_KEY, text)
    for key in _merge_sections(groups, ("dependencies", "dev-dependencies")):
        if key != "python":
            yield Dependency(key, keys.get(key, 1))


def _parse_cargo(text: str) -> Iterator[Dependency]:
    tables = _parse_toml(text)
    parent_tables = [tables, _as_table(tables.get("workspace"))]
    parent_tables += map(_as_table, _as_table(tables.get("target")).values())
    lines = _index_lines(_TOML_KEY, text)
    for key, value in _merge_sections(parent_tables, _CARGO_SECTIONS).items():
        package = _as_table(value).get("package")
        yield Dependency(package if isinstance(package, str) else key, lines.get(key, 1))


def _parse_toml(text: str) -> dict[str, Any]:
    """Read TOML. Raises ValueError: it is none, or a key has more parts than any real one."""
    if _LONG_KEY.search(text):
        raise ValueError("a key has too many parts")
    return tomllib.loads(text)


def _merge_sections(tables: Iterable[Mapping[str, Any]], sections: Iterable[str]) -> dict[str, Any]:
    """Return the keys of some sections of some tables, with their values."""
    names: dict[str, Any] = {}
    for table, section in product(tables, sections):
        names.update(_as_table(table.get(section)))
    return names


def _parse_requirements(text: str) -> Iterator[Dependency]:
    for line, row in enumerate(text.split("\n"), 1):
        egg = _EGG.search(row)
        name = _PYTHON_NAME.match(row)
        if egg:
            yield Dependency(egg[1], line)
        elif name and not re.match(r"\S*:/", row[name.end() :]):  # no address
            yield Dependency(name[1], line)


def _parse_go(text: str) -> Iterator[Dependency]:
    for line, row in enumerate(text.split("\n"), 1):
        module = _GO_ROW.match(row.partition("//")[0])
        if module and module[1] not in ("go", "toolchain", "replace", "exclude", "retract"):
            yield Dependency(module[1], line)


def _build_row_parser(pattern: re.Pattern[str]) -> Callable[[str], Iterator[Dependency]]:
    """Return the reader of a manifest with one dependency a row; the groups are its name."""

    def parse_rows(text: str) -> Iterator[Dependency]:
        for line, row in enumerate(text.split("\n"), 1):
            match = pattern.match(row)
            if match:
                yield Dependency(":".join(filter(None, match.groups())), line)

    return parse_rows


def _parse_maven(text: str) -> Iterator[Dependency]:
    """Read `<dependency>` elements by their look: no XML parser, so no entities, no other files."""
    stripped = _strip_comments(text)
    end = 0
    line = 1
    for element in stripped.split("<dependency>"):
        body = element.partition("</dependency>")[0]
        parts = [_find_element(tag, body) for tag in ("groupId", "artifactId")] if end else []
        name = ":".join(part[1] for part in parts if part)
        if name:
            yield Dependency(name, line + body.count("\n", 0, max(p.start() for p in parts if p)))
        line += element.count("\n")
        end = 1


def _find_element(tag: str, text: str) -> re.Match[str] | None:
    return re.search(rf"<{tag}>\s*+([^<\s]++)\s*+</{tag}>", text)


def _strip_comments(text: str) -> str:
    """Return XML without its comments; lines stay what they are."""
    head, *comments = text.split("<!--")
    parts = [head]
    for comment in comments:
        comment_text, _, following_text = comment.partition("-->")
        parts += ["\n" * comment_text.count("\n"), following_text]
    return "".join(parts)


def _index_lines(pattern: re.Pattern[str], text: str, start: int = 0) -> dict[str, int]:
    """Return the first line on which each name stands, from a position on."""
    start = max(0, start)
    line = text.count("\n", 0, start) + 1
    lines: dict[str, int] = {}
    for match in pattern.finditer(text, start):
        group = match.lastindex or 0
        line += text.count("\n", start, match.start(group))
        start = match.start(group)
        lines.setdefault(match[group], line)
    return lines


def _as_table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


_PARSERS: Mapping[str, Callable[[str], Iterator[Dependency]]] = {
    "package.json": _parse_npm,
    "pyproject.toml": _parse_pyproject,
    "requirements*.txt": _parse_requirements,
    "go.mod": _parse_go,
    "Cargo.toml": _parse_cargo,
    "Gemfile": _build_row_parser(_GEM),
    "pom.xml": _parse_maven,
    "build.gradle": _build_row_parser(_GRADLE),
    "build.gradle.kts": _build_row_parser(_GRADLE),
}
