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


def dependencies(path: str, text: str) -> tuple[Dependency, ...]:
    """Return the dependencies that a manifest lists, in order; none for other files."""
    name = path.rpartition("/")[2]
    kind = "requirements*.txt" if _REQUIREMENTS.fullmatch(name) else name
    reader = _READERS.get(kind)
    if reader is None:
        return ()
    try:
        return tuple(sorted(set(reader(text)), key=lambda item: (item.line, item.name)))
    except (ValueError, RecursionError):
        return ()


def same(wanted: str, name: str) -> bool:
    """Return whether a dependency is the wanted one.

    Letter case, and `_`, `.` or `-`, make no difference. Of a Maven name `group:artifact` either
    half is enough; the version at the end of a Go module's path does not count.
    """
    plain = _folded(wanted)
    return plain == _folded(name) or plain in map(_folded, name.split(":"))


def _folded(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.sub(r"/v\d+$", "", name.strip()).casefold())


# -- by kind --------------------------------------------------------------------------------------

_REQUIREMENTS = re.compile(r"requirements.*\.txt")
_PYTHON_NAME = re.compile(r"\s*([A-Za-z0-9][\w.\-]*)")
_EGG = re.compile(r"#egg=([\w.\-]+)")
_GO_ROW = re.compile(r"\s*(?:require\s+)?([^\s()]+)\s+v\S+")
_GEM = re.compile(r"""\s*gem[\s(]+["']([^"']+)["']""")
_JSON_TEXT = re.compile(r'"((?:[^"\\]|\\.)*+)"')  # none begins within another
# tomllib takes the square of the parts of a key.
_ENDLESS_KEY = re.compile(r"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){64}""")
_TOML_KEY = re.compile(r"""(?m)^[ \t]*+(?:\[(?:[^\]\n]*\.)?)?["']?([\w@/\-]++)["']?[ \t]*+[.=\]]""")
_TOML_TEXT = re.compile(r""""([^"\n]*+)"|'([^'\n]*+)'""")
_GRADLE = re.compile(
    r"""^\s*\w*(?:api|implementation|only|compile|runtime|processor|kapt|classpath)\b"""
    r"""[\s(]*(?:platform\s*\()?(?:["']([^"':\s]+:[^"':\s]+)|group\s*[:=]\s*["']([^"']+)["']\s*,"""
    r"""\s*name\s*[:=]\s*["']([^"']+))""",
    re.IGNORECASE,
)
_OF_NPM = ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies")
_OF_CARGO = ("dependencies", "dev-dependencies", "build-dependencies")


def _npm(text: str) -> Iterator[Dependency]:
    manifest = _table(json.loads(text))
    for section in _OF_NPM:
        names = _table(manifest.get(section))
        lines = _lines(_JSON_TEXT, text, text.find(f'"{section}"')) if names else {}
        for name in names:
            yield Dependency(name, lines.get(name, 1))


def _pyproject(text: str) -> Iterator[Dependency]:
    tables = _toml(text)
    project = _table(tables.get("project"))
    lists = [project.get("dependencies"), _table(tables.get("build-system")).get("requires")]
    lists += _table(project.get("optional-dependencies")).values()
    lists += _table(tables.get("dependency-groups")).values()
    lines = _lines(_TOML_TEXT, text)
    for requirement in (item for items in lists if isinstance(items, list) for item in items):
        name = _PYTHON_NAME.match(requirement) if isinstance(requirement, str) else None
        if name:
            yield Dependency(name[1], lines.get(requirement, 1))
    poetry = _table(_table(tables.get("tool")).get("poetry"))
    groups = [poetry, *map(_table, _table(poetry.get("group")).values())]
    keys = _lines(_TOML_KEY, text)
    for key in _names(groups, ("dependencies", "dev-dependencies")):
        if key != "python":
            yield Dependency(key, keys.get(key, 1))


def _cargo(text: str) -> Iterator[Dependency]:
    tables = _toml(text)
    owners = [tables, _table(tables.get("workspace"))]
    owners += map(_table, _table(tables.get("target")).values())
    lines = _lines(_TOML_KEY, text)
    for key, value in _names(owners, _OF_CARGO).items():
        renamed = _table(value).get("package")
        yield Dependency(renamed if isinstance(renamed, str) else key, lines.get(key, 1))


def _toml(text: str) -> dict[str, Any]:
    """Read TOML. Raises ValueError: it is none, or a key has more parts than any real one."""
    if _ENDLESS_KEY.search(text):
        raise ValueError("a key has too many parts")
    return tomllib.loads(text)


def _names(tables: Iterable[Mapping[str, Any]], sections: Iterable[str]) -> dict[str, Any]:
    """Return the keys of some sections of some tables, with their values."""
    names: dict[str, Any] = {}
    for table, section in product(tables, sections):
        names.update(_table(table.get(section)))
    return names


def _requirements(text: str) -> Iterator[Dependency]:
    for line, row in enumerate(text.split("\n"), 1):
        egg = _EGG.search(row)
        name = _PYTHON_NAME.match(row)
        if egg:
            yield Dependency(egg[1], line)
        elif name and not re.match(r"\S*:/", row[name.end() :]):  # no address
            yield Dependency(name[1], line)


def _go(text: str) -> Iterator[Dependency]:
    for line, row in enumerate(text.split("\n"), 1):
        module = _GO_ROW.match(row.partition("//")[0])
        if module and module[1] not in ("go", "toolchain", "replace", "exclude", "retract"):
            yield Dependency(module[1], line)


def _rows(pattern: re.Pattern[str]) -> Callable[[str], Iterator[Dependency]]:
    """Return the reader of a manifest with one dependency a row; the groups are its name."""

    def read(text: str) -> Iterator[Dependency]:
        for line, row in enumerate(text.split("\n"), 1):
            place = pattern.match(row)
            if place:
                yield Dependency(":".join(filter(None, place.groups())), line)

    return read


def _maven(text: str) -> Iterator[Dependency]:
    """Read `<dependency>` elements by their look: no XML parser, so no entities, no other files."""
    plain = _uncommented(text)
    end = 0
    line = 1
    for element in plain.split("<dependency>"):
        body = element.partition("</dependency>")[0]
        parts = [_element(tag, body) for tag in ("groupId", "artifactId")] if end else []
        name = ":".join(part[1] for part in parts if part)
        if name:
            yield Dependency(name, line + body.count("\n", 0, max(p.start() for p in parts if p)))
        line += element.count("\n")
        end = 1


def _element(tag: str, text: str) -> re.Match[str] | None:
    return re.search(rf"<{tag}>\s*+([^<\s]++)\s*+</{tag}>", text)


def _uncommented(text: str) -> str:
    """Return XML without its comments; lines stay what they are."""
    head, *comments = text.split("<!--")
    kept = [head]
    for comment in comments:
        hidden, _, rest = comment.partition("-->")
        kept += ["\n" * hidden.count("\n"), rest]
    return "".join(kept)


def _lines(pattern: re.Pattern[str], text: str, start: int = 0) -> dict[str, int]:
    """Return the first line on which each name stands, from a position on."""
    start = max(0, start)
    line = text.count("\n", 0, start) + 1
    lines: dict[str, int] = {}
    for place in pattern.finditer(text, start):
        group = place.lastindex or 0
        line += text.count("\n", start, place.start(group))
        start = place.start(group)
        lines.setdefault(place[group], line)
    return lines


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


_READERS: Mapping[str, Callable[[str], Iterator[Dependency]]] = {
    "package.json": _npm,
    "pyproject.toml": _pyproject,
    "requirements*.txt": _requirements,
    "go.mod": _go,
    "Cargo.toml": _cargo,
    "Gemfile": _rows(_GEM),
    "pom.xml": _maven,
    "build.gradle": _rows(_GRADLE),
    "build.gradle.kts": _rows(_GRADLE),
}
