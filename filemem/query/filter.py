"""Restrictions on a search: exact terms, a time span, a path. A restriction only ever narrows.

Several values of one field are alternatives; different fields must all hold. Values are compared
whole, after `fold`; topics are topic keys (`filemem.record.topic_key`). Nothing here grows faster
than its input.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

from filemem.chain import Node
from filemem.record import DECISION, OUTCOMES, STATUSES, TYPES, build_topic_key, parse_outcome
from filemem.record.visibility import Reader as Reader

NO_MATCH = ("",)  # no record has an empty term, so this restriction lets nothing through

# field of Filter -> key in a document's terms
TERM_BY_FIELD: Mapping[str, str] = {
    "types": "type",
    "topics": "topic",
    "tags": "tag",
    "outcomes": "outcome",
    "statuses": "status",
    "agents": "agent",
    "branches": "branch",
    "users": "user",
    "runs": "run",
    "sessions": "session",
    "projects": "project",
}


FIELD_BY_TERM: Mapping[str, str] = {term: field for field, term in TERM_BY_FIELD.items()}


def fold_value(value: str) -> str:
    """Return the form in which names such as tags are compared: NFC, case folded, trimmed."""
    return unicodedata.normalize("NFC", value.strip()).casefold()


class TermFormat(NamedTuple):
    """How a value of a term is read, and the words that it may be; without any, all are."""

    parser: Callable[[str], str] = fold_value
    choices: tuple[str, ...] = ()


# Terms that are not read as `Reading()`.
TERM_FORMATS: Mapping[str, TermFormat] = {
    "type": TermFormat(choices=TYPES),
    "status": TermFormat(choices=STATUSES),
    "outcome": TermFormat(lambda word: parse_outcome(word) or word, OUTCOMES),
    "topic": TermFormat(build_topic_key),
    **dict.fromkeys(("branch", "user", "run"), TermFormat(str.strip)),
}


class Filter(NamedTuple):
    """What a hit must satisfy; an empty field restricts nothing."""

    types: tuple[str, ...] = ()  # as written, as most are; tags, agents, sessions, projects: folded
    topics: tuple[str, ...] = ()  # topic keys
    tags: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    since: int | None = None  # epoch milliseconds, as `until`; both inclusive
    until: int | None = None
    path: str = ""  # a path or glob that the record's `affects` must touch
    live: bool = False  # only records that nothing supersedes
    reader: Reader | None = None  # only records that this one may see

    @property
    def exact_terms(self) -> dict[str, tuple[str, ...]]:
        """The values of each exact field of the index, of which a record must have one."""
        terms = ((name, getattr(self, field)) for field, name in TERM_BY_FIELD.items())
        return {name: values for name, values in terms if values}


def merge_filters(a: Filter, b: Filter) -> Filter:
    """Return the filter that passes what both pass; of two paths the later one counts."""
    values = {name: _intersect_values(getattr(a, name), getattr(b, name)) for name in TERM_BY_FIELD}
    return a._replace(
        **values,
        since=max((time for time in (a.since, b.since) if time is not None), default=None),
        until=min((time for time in (a.until, b.until) if time is not None), default=None),
        path=b.path or a.path,
        live=a.live or b.live,
        reader=a.reader or b.reader,
    )


def _intersect_values(values: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values that two restrictions allow; one without values allows all."""
    if not values or not others:
        return values or others
    return tuple(value for value in values if value in others) or NO_MATCH


def is_match(restriction: Filter, node: Node, *, is_live: bool) -> bool:
    """Return whether a record passes, by its node: what no node says lets nothing through."""
    if restriction.live and not is_live:
        return False
    if restriction.reader is not None and not restriction.reader.can_see(node.audience):
        return False
    if restriction.path and not any(has_overlap(path, restriction.path) for path in node.affects):
        return False
    if not _is_between(node.created, restriction.since, restriction.until):
        return False
    return all(_get_term(node, name) in values for name, values in restriction.exact_terms.items())


def _is_between(time: int, since: int | None, until: int | None) -> bool:
    return (since is None or since <= time) and (until is None or time <= until)


def _get_term(node: Node, name: str) -> str | None:
    if name == "topic":
        return build_topic_key(node.topic)
    if name == "status" and node.type != DECISION:
        return None
    return getattr(node, name) if name in ("type", "status", "outcome") else None


def has_overlap(affected: str, path: str) -> bool:
    """Return whether a stated `affects` and a path meet.

    Either may be a glob or a folder of the other.
    """
    if not split_segments(path):  # the top folder
        return is_inside_repository(affected)
    return is_covered(affected, path) or is_covered(path, affected)


def is_inside_repository(path: str) -> bool:
    """Whether a path or glob can be one of this repository: relative, not leading out of it."""
    is_outside = path.startswith(("/", "~")) or "://" in path or (len(path) > 1 and path[1] == ":")
    return bool(path.strip()) and not is_outside and ".." not in split_segments(path)


def is_covered(pattern: str, path: str) -> bool:
    """Return whether `pattern` covers `path`: the same path, a folder above it, or a glob.

    `*` and `?` stay within one folder, `**` crosses folders, and a pattern also covers all that is
    below what it matches. Time is at most the product of both lengths.
    """
    parts = split_segments(pattern)
    names = split_segments(path)
    if not parts or not names:
        return False
    # reached: how many names the pattern read so far may have consumed
    positions = {0}
    for part in parts:
        if part == "**":
            positions = set(range(min(positions), len(names) + 1))
        else:
            glob = part.replace("[", "[[]")  # a bracket is one in a path
            positions = {
                at + 1 for at in positions if at < len(names) and fnmatchcase(names[at], glob)
            }
        if not positions:
            return False
    return True


@lru_cache(maxsize=65_536)
def is_included(globs: tuple[str, ...], path: str) -> bool:
    """Return whether one of some globs covers a path, and none that begins with `!` does."""
    is_inside = any(_is_covered_quickly(glob, path) for glob in globs if not glob.startswith("!"))
    return is_inside and not any(
        _is_covered_quickly(glob[1:], path) for glob in globs if glob.startswith("!")
    )


def _is_covered_quickly(glob: str, path: str) -> bool:
    """Return what `affects_match` does, sooner: a path holds all that a glob spells out."""
    start, pieces = _split_literals(glob)
    can_match = path.startswith(start) and all(piece in path for piece in pieces)
    return can_match and is_covered(glob, path)


@lru_cache(maxsize=1024)
def _split_literals(glob: str) -> tuple[str, tuple[str, ...]]:
    """Return what a path must begin with, and what it must hold."""
    return get_literal_prefix(glob), tuple(re.split(r"[*?/]+", "/".join(split_segments(glob))))


def get_literal_prefix(pattern: str) -> str:
    """The part of a path or glob before its first wildcard: what holds all that it can match."""
    parts = split_segments(pattern)
    literal_count = next(
        (at for at, part in enumerate(parts) if "*" in part or "?" in part), len(parts)
    )
    return "/".join(parts[:literal_count])


def split_segments(path: str) -> list[str]:
    """The parts of a path or glob that say something: `src/../x` is `x`.

    A `..` stays if it takes back nothing known.
    """
    parts: list[str] = []
    for name in path.strip().replace("\\", "/").split("/"):
        if name == ".." and parts and parts[-1] != ".." and not {"*", "?"} & set(parts[-1]):
            parts.pop()
        elif name not in ("", "."):
            parts.append(name)
    return parts
