"""Guards of a decision: what code must or must not hold. Data only; `breaks` matches them.

Rule: a guard is a literal text of one line, matched as whole words, or the name of a dependency.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

MANIFESTS = (  # `record/manifest` reads them
    "package.json",
    "pyproject.toml",
    "requirements*.txt",
    "go.mod",
    "Cargo.toml",
    "Gemfile",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
)
RULES = ("forbid", "require", "dependency")
_KEYS = frozenset((*RULES, "in"))
MOST = 50  # guards of a decision
LONGEST = 300  # characters of a text, a name or a glob
# A name as manifests write it: `left-pad`, `@acme/ui`, `example.com/cache/v2`, `group:artifact`.
_PART = r"[\w.~+\-]+"
_PACKAGE = re.compile(rf"(?!(?:npm|pypi|gem|cargo|pkg):)@?{_PART}(?:/{_PART})*+(?::{_PART})?")
_EVERY_MANIFEST = tuple(f"**/{name}" for name in MANIFESTS)


class Guard(NamedTuple):
    """One rule; exactly one of `forbid`, `require` and `dependency` is stated.

    `within` are the globs of the key `in`; one that begins with `!` leaves files out.
    """

    forbid: str = ""  # no line holds it
    require: str = ""  # each file holds it
    dependency: str = ""  # no manifest lists it
    within: tuple[str, ...] = ()

    @property
    def globs(self) -> tuple[str, ...]:
        """The globs of all files that it looks into, and those that it leaves out."""
        named = any(not glob.startswith("!") for glob in self.within)
        return self.within if named else (*_EVERY_MANIFEST, *self.within)

    @property
    def plain(self) -> dict[str, object]:
        """It as a mapping, as a header states it."""
        stated = {name: getattr(self, name) for name in RULES if getattr(self, name)}
        return {**stated, **({"in": list(self.within)} if self.within else {})}

    @property
    def sentence(self) -> str:
        """What it says, and where."""
        return f"{self} in {', '.join(self.within)}" if self.within else str(self)

    def __str__(self) -> str:
        if self.dependency:
            return f"forbids the dependency {self.dependency}"
        if self.forbid:
            return f'forbids "{self.forbid}"'
        return f'requires "{self.require}"'


def read_guards(value: object) -> tuple[Guard, ...]:
    """Read a list of guards. Raises ValueError, which says what is wrong."""
    if not isinstance(value, list | tuple):
        raise ValueError("begin each guard with `- `")
    if len(value) > MOST:
        raise ValueError(f"at most {MOST} guards, not {len(value)}")
    return tuple(_guard(item, number) for number, item in enumerate(value, 1))


def _guard(item: object, number: int) -> Guard:
    place = f"guard {number}"
    if isinstance(item, Guard):
        return item
    if not isinstance(item, Mapping):
        raise ValueError(f"{place}: write `forbid: TEXT`, `require: TEXT` or `dependency: NAME`")
    unknown = [str(key) for key in item if key not in _KEYS]
    if unknown:
        raise ValueError(f"{place}: {unknown[0]} is unknown; the keys are {', '.join(RULES)}, in")
    stated = [name for name in RULES if name in item]
    if len(stated) != 1:
        raise ValueError(f"{place}: state one of {', '.join(RULES)}")
    [rule] = stated
    text = _stated(rule, item[rule], place)
    within = _globs(item.get("in", ()), place)
    if rule != "dependency" and all(glob.startswith("!") for glob in within):
        raise ValueError(f"{place}: `in` must name the files, such as src/**")
    return Guard(within=within, **{rule: text})


def _stated(rule: str, value: object, place: str) -> str:
    text = _line(value, f"{place}: {rule}")
    if rule == "dependency" and not _PACKAGE.fullmatch(text):
        raise ValueError(
            f"{place}: no package is named {text}; write one name alone, as a manifest lists it, "
            "without version, extras or registry"
        )
    return text


def _line(value: object, place: str) -> str:
    text = str(value).strip() if isinstance(value, str) else ""
    if not text or len(text) > LONGEST or len(text.splitlines()) > 1:
        raise ValueError(f"{place} must be text of one line, up to {LONGEST} characters")
    return text


def _globs(value: object, place: str) -> tuple[str, ...]:
    items = value if isinstance(value, list | tuple) else [value]
    if len(items) > MOST:
        raise ValueError(f"{place}: `in` must have at most {MOST} globs")
    return tuple(_line(item, f"{place}: in") for item in items)
