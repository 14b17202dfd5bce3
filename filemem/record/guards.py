"""Guards of a decision: text or dependencies that code must or must not contain.

A guard is a literal text of one line, matched as whole words, or the name of a dependency. `breaks`
finds the places that break it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

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
    """One rule; exactly one of `forbid`, `require` and `dependency` is stated."""

    forbid: str = ""  # no line may contain it
    require: str = ""  # each file must contain it
    dependency: str = ""  # no manifest may list it
    stated_globs: tuple[str, ...] = ()  # of the key `in`; `!` excludes files

    @property
    def globs(self) -> tuple[str, ...]:
        """The globs of the files to check; without one, those of all manifests."""
        for glob in self.stated_globs:
            if not glob.startswith("!"):
                return self.stated_globs
        return _MANIFEST_GLOBS + self.stated_globs

    @property
    def mapping(self) -> dict[str, object]:
        """The guard as a header states it."""
        mapping: dict[str, object] = {}
        for name in RULES:
            text = getattr(self, name)
            if text:
                mapping[name] = text
        if self.stated_globs:
            mapping["in"] = list(self.stated_globs)
        return mapping

    @property
    def sentence(self) -> str:
        """The rule and its files, for messages."""
        if not self.stated_globs:
            return str(self)
        globs = ", ".join(self.stated_globs)
        return f"{self} in {globs}"

    def __str__(self) -> str:
        if self.dependency:
            return f"forbids the dependency {self.dependency}"
        if self.forbid:
            return f'forbids "{self.forbid}"'
        return f'requires "{self.require}"'


def parse_guards(value: object) -> tuple[Guard, ...]:
    """Read a list of guards. Raises ValueError with a message if one is invalid."""
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
    rule = _require_rule(item, label)
    text = _validate_rule(rule, item[rule], label)
    globs = _validate_globs(item.get("in", ()), label)
    if rule != "dependency" and all(glob.startswith("!") for glob in globs):
        raise ValueError(f"{label}: `in` must name the files, such as src/**")
    return Guard(stated_globs=globs, **{rule: text})


def _require_rule(item: Mapping[Any, Any], label: str) -> str:
    """Return the one rule that a guard states. Raises ValueError."""
    all_rules = ", ".join(RULES)
    for key in item:
        if key not in _KEYS:
            raise ValueError(f"{label}: {key} is unknown; the keys are {all_rules}, in")
    rules = [name for name in RULES if name in item]
    if len(rules) != 1:
        raise ValueError(f"{label}: state one of {all_rules}")
    return rules[0]


def _validate_rule(rule: str, value: object, label: str) -> str:
    text = _validate_line(value, f"{label}: {rule}")
    if rule == "dependency" and not _PACKAGE.fullmatch(text):
        raise ValueError(
            f"{label}: no package is named {text}; write one name alone, as a manifest lists it, "
            "without version, extras or registry"
        )
    return text


def _validate_line(value: object, label: str) -> str:
    text = value.strip() if isinstance(value, str) else ""
    is_one_line = len(text.splitlines()) == 1
    if not is_one_line or len(text) > MAX_LENGTH:
        raise ValueError(f"{label} must be text of one line, up to {MAX_LENGTH} characters")
    return text


def _validate_globs(value: object, label: str) -> tuple[str, ...]:
    items = value if isinstance(value, list | tuple) else [value]
    if len(items) > MAX_GUARDS:
        raise ValueError(f"{label}: `in` must have at most {MAX_GUARDS} globs")
    glob_label = f"{label}: in"
    return tuple(_validate_line(item, glob_label) for item in items)
