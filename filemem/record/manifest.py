"""List the dependencies in manifests of eight kinds, with their lines. Nothing is resolved.

An invalid manifest, such as one that is being edited, has no dependencies.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple


class Dependency(NamedTuple):
    """A dependency as a manifest names it, and its line."""

    name: str
    line: int


def parse_dependencies(path: str, text: str) -> tuple[Dependency, ...]:
    """Return the dependencies that a manifest lists, in order; none for other files."""
    name = path.rpartition("/")[2]
    if _REQUIREMENTS.fullmatch(name):
        name = "requirements*.txt"
    parser = _PARSERS.get(name)
    if parser is None:
        return ()
    try:
        dependencies = set(parser(text))
    except (ValueError, RecursionError):
        return ()
    return tuple(sorted(dependencies, key=attrgetter("line", "name")))


def is_same_dependency(expected: str, name: str) -> bool:
    """Whether a dependency is the expected one.

    Letter case, and `_`, `.` or `-`, make no difference. Of a Maven name `group:artifact` either
    half is enough; the version at the end of a Go module's path does not count.
    """
    normalized = _normalize_name(expected)
    if normalized == _normalize_name(name):
        return True
    return any(normalized == _normalize_name(part) for part in name.split(":"))


def _normalize_name(name: str) -> str:
    unversioned_name = re.sub(r"/v\d+$", "", name.strip())
    return re.sub(r"[-_.]+", "-", unversioned_name.casefold())


# -- by kind --------------------------------------------------------------------------------------

_REQUIREMENTS = re.compile(r"requirements.*\.txt")
_PYTHON_NAME = re.compile(r"\s*([A-Za-z0-9][\w.\-]*)")
_URL_REST = re.compile(r"\S*:/")  # after a name: that was the scheme of a URL
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
        if not names:
            continue
        section_start = text.find(f'"{section}"')
        lines = _index_lines(_JSON_TEXT, text, section_start)
        for name in names:
            yield Dependency(name, lines.get(name, 1))


def _parse_pyproject(text: str) -> Iterator[Dependency]:
    tables = _parse_toml(text)
    lines = _index_lines(_TOML_TEXT, text)
    for requirement in _iter_requirements(tables):
        name = _PYTHON_NAME.match(requirement)
        if name:
            yield Dependency(name[1], lines.get(requirement, 1))
    poetry = _as_table(_as_table(tables.get("tool")).get("poetry"))
    groups = [poetry, *_list_tables(poetry.get("group"))]
    keys = _index_lines(_TOML_KEY, text)
    for key in _merge_sections(groups, ("dependencies", "dev-dependencies")):
        if key != "python":
            yield Dependency(key, keys.get(key, 1))


def _iter_requirements(tables: Mapping[str, Any]) -> Iterator[str]:
    """Yield the requirements in the lists of a pyproject.toml."""
    project = _as_table(tables.get("project"))
    build_system = _as_table(tables.get("build-system"))
    lists = [project.get("dependencies"), build_system.get("requires")]
    lists += _as_table(project.get("optional-dependencies")).values()
    lists += _as_table(tables.get("dependency-groups")).values()
    for items in lists:
        if not isinstance(items, list):
            continue
        for item in items:
            if isinstance(item, str):
                yield item


def _parse_cargo(text: str) -> Iterator[Dependency]:
    tables = _parse_toml(text)
    parents = [tables, _as_table(tables.get("workspace"))]
    parents += _list_tables(tables.get("target"))
    lines = _index_lines(_TOML_KEY, text)
    for key, value in _merge_sections(parents, _CARGO_SECTIONS).items():
        package = _as_table(value).get("package")
        name = package if isinstance(package, str) else key
        yield Dependency(name, lines.get(key, 1))


def _parse_toml(text: str) -> dict[str, Any]:
    """Read TOML. Raises ValueError if it is invalid, or if a key has too many parts."""
    if _LONG_KEY.search(text):
        raise ValueError("a key has too many parts")
    return tomllib.loads(text)


def _merge_sections(tables: Iterable[Mapping[str, Any]], sections: Iterable[str]) -> dict[str, Any]:
    """Return the keys of some sections of some tables, with their values."""
    values: dict[str, Any] = {}
    for table in tables:
        for section in sections:
            values.update(_as_table(table.get(section)))
    return values


def _parse_requirements(text: str) -> Iterator[Dependency]:
    for line, row in enumerate(text.split("\n"), 1):
        egg = _EGG.search(row)
        if egg:
            yield Dependency(egg[1], line)
            continue
        name = _PYTHON_NAME.match(row)
        if name and not _URL_REST.match(row, name.end()):
            yield Dependency(name[1], line)


def _parse_go(text: str) -> Iterator[Dependency]:
    for line, row in enumerate(text.split("\n"), 1):
        code = row.partition("//")[0]
        module = _GO_ROW.match(code)
        if module and module[1] not in ("go", "toolchain", "replace", "exclude", "retract"):
            yield Dependency(module[1], line)


def _build_row_parser(pattern: re.Pattern[str]) -> Callable[[str], Iterator[Dependency]]:
    """Return a parser of manifests with one dependency on a row; the groups are its name."""

    def parse_rows(text: str) -> Iterator[Dependency]:
        for line, row in enumerate(text.split("\n"), 1):
            match = pattern.match(row)
            if match:
                parts = [group for group in match.groups() if group]
                yield Dependency(":".join(parts), line)

    return parse_rows


def _parse_maven(text: str) -> Iterator[Dependency]:
    """Find `<dependency>` elements without an XML parser, so that no entity or file is loaded."""
    top, *elements = _strip_comments(text).split("<dependency>")
    line = 1 + top.count("\n")
    for element in elements:
        body = element.partition("</dependency>")[0]
        names = []
        name_start = 0
        for tag in ("groupId", "artifactId"):
            match = _find_element(tag, body)
            if match:
                names.append(match[1])
                name_start = max(name_start, match.start())
        if names:
            name_line = line + body.count("\n", 0, name_start)
            yield Dependency(":".join(names), name_line)
        line += element.count("\n")


def _find_element(tag: str, text: str) -> re.Match[str] | None:
    return re.search(rf"<{tag}>\s*+([^<\s]++)\s*+</{tag}>", text)


def _strip_comments(text: str) -> str:
    """Return XML without its comments; lines keep their numbers."""
    first_part, *comments = text.split("<!--")
    parts = [first_part]
    for comment in comments:
        comment_text, _, following_text = comment.partition("-->")
        parts.append("\n" * comment_text.count("\n"))
        parts.append(following_text)
    return "".join(parts)


def _index_lines(pattern: re.Pattern[str], text: str, start: int = 0) -> dict[str, int]:
    """Return the first line of each name after a position."""
    position = max(0, start)
    line = text.count("\n", 0, position) + 1
    lines: dict[str, int] = {}
    for match in pattern.finditer(text, position):
        group = match.lastindex or 0
        name_start = match.start(group)
        line += text.count("\n", position, name_start)
        position = name_start
        lines.setdefault(match[group], line)
    return lines


def _as_table(value: Any) -> Mapping[str, Any]:
    """Return a mapping; an empty one for a missing or invalid value."""
    if isinstance(value, Mapping):
        return value
    return {}


def _list_tables(value: Any) -> list[Mapping[str, Any]]:
    return [_as_table(item) for item in _as_table(value).values()]


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
