"""Restrictions on a search: exact terms, a time span, a path.

Several values of one field are alternatives; different fields must all match. Values are compared
whole, after `fold_value`; topics are topic keys (`filemem.record.build_topic_key`).
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

NO_MATCH = ("",)  # no record has an empty term, so nothing matches

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


def _parse_outcome_word(word: str) -> str:
    return parse_outcome(word) or word


class TermFormat(NamedTuple):
    """How to read a value of a term, and the allowed words; without any, all are allowed."""

    parser: Callable[[str], str] = fold_value
    choices: tuple[str, ...] = ()


# Terms that are not read as `TermFormat()`.
TERM_FORMATS: Mapping[str, TermFormat] = {
    "type": TermFormat(choices=TYPES),
    "status": TermFormat(choices=STATUSES),
    "outcome": TermFormat(_parse_outcome_word, OUTCOMES),
    "topic": TermFormat(build_topic_key),
    **dict.fromkeys(("branch", "user", "run"), TermFormat(str.strip)),
}


class Filter(NamedTuple):
    """What a hit must satisfy; an empty field restricts nothing."""

    types: tuple[str, ...] = ()  # as written; tags, agents, sessions and projects are folded
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
    since: int | None = None  # epoch milliseconds, inclusive
    until: int | None = None  # epoch milliseconds, inclusive
    path: str = ""  # a path or glob that the record's `affects` must touch
    live: bool = False  # only records that nothing supersedes
    reader: Reader | None = None  # only records that this reader may see

    @property
    def exact_terms(self) -> dict[str, tuple[str, ...]]:
        """The values of each exact field of the index, one of which a record must have."""
        terms: dict[str, tuple[str, ...]] = {}
        for field, name in TERM_BY_FIELD.items():
            values = getattr(self, field)
            if values:
                terms[name] = values
        return terms


def merge_filters(a: Filter, b: Filter) -> Filter:
    """Return the filter for records that pass both; of two paths the later one counts."""
    values: dict[str, tuple[str, ...]] = {}
    for name in TERM_BY_FIELD:
        values[name] = _intersect_values(getattr(a, name), getattr(b, name))
    return a._replace(
        **values,
        since=_select_time(max, a.since, b.since),
        until=_select_time(min, a.until, b.until),
        path=b.path or a.path,
        live=a.live or b.live,
        reader=a.reader or b.reader,
    )


def _select_time(
    select: Callable[[int, int], int], time: int | None, other: int | None
) -> int | None:
    """Select the stricter of two times; None restricts nothing."""
    if time is None:
        return other
    if other is None:
        return time
    return select(time, other)


def _intersect_values(values: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values that two restrictions allow; one without values allows all."""
    if not values:
        return others
    if not others:
        return values
    common_values = [value for value in values if value in others]
    return tuple(common_values) or NO_MATCH


def is_match(restriction: Filter, node: Node, *, is_live: bool) -> bool:
    """Return whether a record passes by its node; fields that no node has let nothing through."""
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
    """Return the value of an exact field; None if nodes of this type do not have it."""
    if name == "topic":
        return build_topic_key(node.topic)
    if name == "type":
        return node.type
    if name == "outcome":
        return node.outcome
    if name == "status" and node.type == DECISION:
        return node.status
    return None


def has_overlap(affected: str, path: str) -> bool:
    """Return whether a stated `affects` and a path overlap.

    Either may be a glob or a folder of the other.
    """
    if not split_segments(path):  # the top folder
        return is_inside_repository(affected)
    return is_covered(affected, path) or is_covered(path, affected)


def is_inside_repository(path: str) -> bool:
    """Return whether a path or glob is relative and does not lead out of the repository."""
    if not path.strip() or path.startswith(("/", "~")):
        return False
    has_drive = path[1:2] == ":"
    return not has_drive and "://" not in path and ".." not in split_segments(path)


def is_covered(pattern: str, path: str) -> bool:
    """Return whether `pattern` covers `path`: the same path, a folder above it, or a glob.

    `*` and `?` stay within one folder, `**` crosses folders, and a pattern also covers everything
    below what it matches. Time is at most the product of both lengths.
    """
    parts = split_segments(pattern)
    names = split_segments(path)
    if not parts or not names:
        return False
    counts = {0}  # how many names the parts so far may match
    for part in parts:
        if part == "**":
            counts = set(range(min(counts), len(names) + 1))
            continue
        glob = part.replace("[", "[[]")  # a bracket is a plain character
        next_counts = set[int]()
        for count in counts:
            if count < len(names) and fnmatchcase(names[count], glob):
                next_counts.add(count + 1)
        if not next_counts:
            return False
        counts = next_counts
    return True


@lru_cache(maxsize=65_536)
def is_included(globs: tuple[str, ...], path: str) -> bool:
    """Return whether a path is covered by one of some globs, and by none that begins with `!`."""
    is_inside = False
    for glob in globs:
        if glob.startswith("!"):
            if _is_covered_quickly(glob[1:], path):
                return False
        elif not is_inside:
            is_inside = _is_covered_quickly(glob, path)
    return is_inside


def _is_covered_quickly(glob: str, path: str) -> bool:
    """Answer `is_covered` faster: first look for the literal parts of the glob in the path."""
    start, pieces = _split_literals(glob)
    if not path.startswith(start) or not all(piece in path for piece in pieces):
        return False
    return is_covered(glob, path)


@lru_cache(maxsize=1024)
def _split_literals(glob: str) -> tuple[str, tuple[str, ...]]:
    """Return what a path must begin with, and the parts that it must contain."""
    pieces = re.split(r"[*?/]+", "/".join(split_segments(glob)))
    return get_literal_prefix(glob), tuple(pieces)


def get_literal_prefix(pattern: str) -> str:
    """Return a path or glob up to its first segment with a wildcard."""
    literal_parts: list[str] = []
    for part in split_segments(pattern):
        if "*" in part or "?" in part:
            break
        literal_parts.append(part)
    return "/".join(literal_parts)


def split_segments(path: str) -> list[str]:
    """Split a path or glob and normalize it: `src/../x` is `x`.

    A `..` stays if the segment before it is unknown.
    """
    parts: list[str] = []
    for name in path.strip().replace("\\", "/").split("/"):
        if name in ("", "."):
            continue
        if name == ".." and parts and _is_literal_name(parts[-1]):
            parts.pop()
        else:
            parts.append(name)
    return parts


def _is_literal_name(part: str) -> bool:
    return part != ".." and "*" not in part and "?" not in part
