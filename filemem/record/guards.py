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
MAX_GUARDS = 50  # guards of a decision
MAX_LENGTH = 300  # characters of a text, a name or a glob
# A name as manifests write it: `left-pad`, `@acme/ui`, `example.com/cache/v2`, `group:artifact`.
_PART = r"[\w.~+\-]+"
_PACKAGE = re.compile(rf"(?!(?:npm|pypi|gem|cargo|pkg):)@?{_PART}(?:/{_PART})*+(?::{_PART})?")
_MANIFEST_GLOBS = tuple(f"**/{name}" for name in MANIFESTS)


class Guard(NamedTuple):
    """One rule; exactly one of `forbid`, `require` and `dependency` is stated.

    `within` are the globs of the key `in`; one that begins with `!` leaves files out.
    """

    forbid: str = ""  # no line holds it
    require: str = ""  # each file holds it
    dependency: str = ""  # no manifest lists it
    stated_globs: tuple[str, ...] = ()

    @property
    def globs(self) -> tuple[str, ...]:
        """The globs of all files that it looks into, and those that it leaves out."""
        has_included = any(not glob.startswith("!") for glob in self.stated_globs)
        return self.stated_globs if has_included else (*_MANIFEST_GLOBS, *self.stated_globs)

    @property
    def mapping(self) -> dict[str, object]:
        """It as a mapping, as a header states it."""
        rules = {name: getattr(self, name) for name in RULES if getattr(self, name)}
        return {**rules, **({"in": list(self.stated_globs)} if self.stated_globs else {})}

    @property
    def sentence(self) -> str:
        """What it says, and where."""
        return f"{self} in {', '.join(self.stated_globs)}" if self.stated_globs else str(self)

    def __str__(self) -> str:
        if self.dependency:
            return f"forbids the dependency {self.dependency}"
        if self.forbid:
            return f'forbids "{self.forbid}"'
        return f'requires "{self.require}"'


def parse_guards(value: object) -> tuple[Guard, ...]:
    """Read a list of guards. Raises ValueError, which says what is wrong."""
    if not isinstance(value, list | tuple):
        raise ValueError("begin each guard with `- `")
    if len(value) > MAX_GUARDS:
        raise ValueError(f"at most {MAX_GUARDS} guards, not {len(value)}")
    return tuple(_parse_guard(item, number) for number, item in enumerate(value, 1))


def _parse_guard(item: object, number: int) -> Guard:
    label = f"guard {number}"
    if isinstance(item, Guard):
        return item
    if not isinstance(item, Mapping):
        raise ValueError(f"{label}: write `forbid: TEXT`, `require: TEXT` or `dependency: NAME`")
    unknown_keys = [str(key) for key in item if key not in _KEYS]
    if unknown_keys:
        raise ValueError(
            f"{label}: {unknown_keys[0]} is unknown; the keys are {', '.join(RULES)}, in"
        )
    rules = [name for name in RULES if name in item]
    if len(rules) != 1:
        raise ValueError(f"{label}: state one of {', '.join(RULES)}")
    [rule] = rules
    text = _validate_rule(rule, item[rule], label)
    stated_globs = _validate_globs(item.get("in", ()), label)
    if rule != "dependency" and all(glob.startswith("!") for glob in stated_globs):
        raise ValueError(f"{label}: `in` must name the files, such as src/**")
    return Guard(stated_globs=stated_globs, **{rule: text})


def _validate_rule(rule: str, value: object, label: str) -> str:
    text = _validate_line(value, f"{label}: {rule}")
    if rule == "dependency" and not _PACKAGE.fullmatch(text):
        raise ValueError(
            f"{label}: no package is named {text}; write one name alone, as a manifest lists it, "
            "without version, extras or registry"
        )
    return text


def _validate_line(value: object, label: str) -> str:
    text = str(value).strip() if isinstance(value, str) else ""
    if not text or len(text) > MAX_LENGTH or len(text.splitlines()) > 1:
        raise ValueError(f"{label} must be text of one line, up to {MAX_LENGTH} characters")
    return text


def _validate_globs(value: object, label: str) -> tuple[str, ...]:
    items = value if isinstance(value, list | tuple) else [value]
    if len(items) > MAX_GUARDS:
        raise ValueError(f"{label}: `in` must have at most {MAX_GUARDS} globs")
    return tuple(_validate_line(item, f"{label}: in") for item in items)
