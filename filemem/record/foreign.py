"""Records of other makers (MADR, Nygard, FIP and their kin): status words, dates and links, mapped onto ours.

What is stated is read; links stay as written, because only the whole store knows which record they mean.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from filemem.record.body import Outline
from filemem.record.model import STATUSES, Edge
from filemem.record.times import first_date

_STATUS_WORDS: Mapping[str, str] = {
    **{word: word for word in STATUSES},
    # `Last Call`, `Under review`
    **dict.fromkeys(
        ("draft", "pending", "open", "proposal", "review", "rfc", "wip", "last", "under"),
        "proposed",
    ),
    **dict.fromkeys(
        ("deferred", "experimental", "trial", "in-progress", "progress", "discussion"), "proposed"
    ),
    **dict.fromkeys(
        ("accept", "approved", "approve", "final", "active", "adopted", "agreed"), "accepted"
    ),
    **dict.fromkeys(("decided", "implemented", "done", "living", "amended", "current"), "accepted"),
    **dict.fromkeys(
        ("declined", "withdrawn", "abandoned", "cancelled", "canceled", "stagnant", "reject"),
        "rejected",
    ),
    **dict.fromkeys(
        ("superseded", "superceded", "replaced", "obsolete", "retired", "deprecate", "archived"),
        "deprecated",
    ),
}
_WORD = r"[^\W\d_]+(?:-[^\W\d_]+)?"
_LINKS = r"\[[^\]\n]{0,200}\]\([^)\n]{0,300}\)"
# Texts, which `re` compiles at first use and keeps: most stores hold no record of another maker.
_PARTLY = r"(?i)\b(?:partly|partially|in part)\b"
_OLD = r"\b(?:superseded|superceded|replaced)\b(?:[ \t]+(?:by|with)\b)?"
_NEW = r"\b(?:supersedes|supercedes|replaces)\b"
_OLD_SIDE, _NEW_SIDE = f"(?i){_OLD}", f"(?i){_NEW}"
_STOP = rf"(?i)\.(?:\s|$)|;|{_OLD}|{_NEW}"
_REFERENCE = (
    r"\[\[([^\]\n]{1,200})\]\]"
    r"|\[([^\]\n]{0,200})\]\(\s{0,3}<?([^()<>\s]{1,300})>?[^)\n]{0,100}\)"
    r"|(https?://[^\s<>()]{1,300})"
    r"|(?<![\w./-])([\w./-]{1,200}\.md)\b"
    r"|\b(decision_[a-z0-9_]{1,200}|file_[0-9a-z]{16})\b"
    r"|(?<![\w-])([A-Za-z]{2,8}-[0-9O]{1,5}|(?:ADR|MADR|RFC|No\.?|Nr\.?) ?[0-9O]{1,5}|#?[0-9]{1,5})(?![\w-])"
)
_NOTHING = frozenset(
    ("", "-", "–", "—", "n/a", "na", "none", "null", "~", "tbd", "no", "nil", "nothing")
)
_MARKS = r"[ \t]{0,3}(?:[>|*+_-][ \t]*+)*+"  # of quotes, tables, lists and bold type
FIELD = (
    rf"(?i){_MARKS}(status|date|created|supersedes|supercedes|replaces|superseded[ -]by|replaced[ -]by)"
    r"[*_]*[ \t]*[:|][ \t*_]*(.*)$"
)
_SENTENCE = rf"(?i)\W{{0,12}}(?:this (?:adr|decision|record) )?(?:is )?(?:{_OLD}|{_NEW})"
_BESIDE = r"(?<![ \t])[ \t]++[·•|][ \t]++"  # between two fields on one line
# A link whose address is no file, by its text: `ADR 32`; an issue or a pull request is no record.
_SERIES = r"(?i)(?!(?:pr|pull|mr|issue|gh)\b)[a-z]{2,8}[-_ ]?#?[0-9]{1,5}\b"
_PREAMBLE_LINES = 60
_STATUS_LINES = 20
_LONGEST_LINE = 2000  # characters of it count
_NEW_NAMES, _OLD_NAMES = ("supersedes", "supercedes", "replaces"), ("superseded by", "replaced by")
_LOGS = (
    "changelog",
    "change log",
    "change history",
    "revision history",
    "version history",
    "document history",
)
_AMENDS = r"(?i)\W{0,12}(?:this (?:adr|decision|record) )?(?:amends|(amended by))\b(.*)$"
_SECTIONS = ("status", "date", *_NEW_NAMES, *_OLD_NAMES)


class Standing(NamedTuple):
    """What a status text says: our status word or None, and the links of both sides of a supersession."""

    status: str | None = None
    superseded_by: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()


def read_status(text: str) -> Standing:
    """Read a status as other makers write it: `✅ Accepted`, `Superseded by [ADR-12](0012-x.md)`, `Final`.

    A superseded record without a link is `deprecated`; a partly superseded one still holds.
    """
    if text in STATUSES:
        return Standing(text)
    text = text[:2000]
    words = re.findall(_WORD, _without_links(text).casefold())
    status = next((_STATUS_WORDS[word] for word in words if word in _STATUS_WORDS), None)
    if re.search(_PARTLY, text):
        return Standing("accepted" if status == "deprecated" else status)
    old, new = _after(_OLD_SIDE, text), _after(_NEW_SIDE, text)
    return Standing("accepted" if status is None and new else status, old, new)


def _without_links(text: str) -> str:
    """Return a text of the same length whose links say nothing."""
    return re.sub(_LINKS, lambda link: " " * len(link[0]), text)


def _after(pattern: str, text: str) -> tuple[str, ...]:
    found: list[str] = []
    for line in text.split("\n"):
        if match := re.search(pattern, line):
            rest = line[match.end() :]
            stop = re.search(_STOP, _without_links(rest))  # a link may hold a full stop
            found += references_in(rest[: stop.start()] if stop else rest, bare=False)
    return tuple(dict.fromkeys(found))


def references_in(text: str, *, bare: bool = True) -> tuple[str, ...]:
    """The links, file names, ids and numbers, all with `bare`, that the first 5,000 characters of a text name."""
    text = text[:5000]
    found: list[str] = []
    for match in re.finditer(_REFERENCE, text):
        shown, target = match[2], match[3]
        reference = next(group for at, group in enumerate(match.groups(), 1) if group and at != 2)
        file = reference.partition("#")[0].partition("?")[0].casefold()
        if ("://" in reference and not file.endswith(".md")) or (target and target.startswith("#")):
            if not shown or not (named := re.match(_SERIES, shown.strip())):
                continue
            reference = named[0]
        if bare or target or not reference.isdigit() or not text[: match.start()].strip(" \t:*_"):
            found.append(reference.partition("|")[0])
    return tuple(dict.fromkeys(found))


def stated_references(value: str) -> tuple[str, ...]:
    """Return the references of one front matter scalar, such as `FIP-0003, FIP-0005` or `N/A`."""
    if value.strip(" \t[]{}\"'").casefold() in _NOTHING:
        return ()
    value = value.strip()
    found = references_in(value) if any(sign in value for sign in ",[(: ") else ()
    return found or (value,)


class Preamble(NamedTuple):
    """What the body says where the header does not, and where; `logged` is the earliest day of its changelog."""

    status: str = ""
    status_line: int = 0
    date: str = ""
    date_line: int = 0
    supersedes: tuple[str, ...] = ()
    superseded_by: tuple[str, ...] = ()
    logged: int | None = None
    amends: tuple[Edge, ...] = ()  # on both sides: `builds_on`, and `built_on_by` for "Amended by"


def read_preamble(lines: Sequence[str], parts: Outline) -> Preamble:
    """Read what lines and rows above the first section, sections such as `## Status`, and a changelog state."""
    named = [name for name in (*_SECTIONS, *_LOGS) if name in parts.other]
    sections = {
        name: [at for at in range(*parts.other[name]) if lines[at].strip()] for name in named
    }
    found: dict[str, tuple[str, int]] = {}
    old: list[str] = []
    new: list[str] = []
    amends: list[Edge] = []
    for number in (*_above(lines, parts), *sections.get("status", [])[:_STATUS_LINES]):
        line = lines[number][:_LONGEST_LINE]
        for name, value in _fields_of(line):
            found.setdefault(name, (value, number))
        if re.match(_SENTENCE, line) and not re.search(_PARTLY, line):
            old += _after(_OLD_SIDE, line)
            new += _after(_NEW_SIDE, line)
        if said := re.match(_AMENDS, line):
            kind = "built_on_by" if said[1] else "builds_on"
            amends += [Edge(kind, one, line.strip()) for one in references_in(said[2], bare=False)]
    for name in (name for name in _SECTIONS if name not in found and sections.get(name)):
        first, stop = sections[name][0], parts.other[name][1]
        found[name] = "\n".join(lines[first : min(stop, first + _STATUS_LINES)]).strip(), first
    status, status_line = found.get("status", ("", 0))
    date, date_line = found.get("date") or found.get("created") or ("", 0)
    for name, (value, _) in found.items():
        if name in _NEW_NAMES:
            new += stated_references(value)
        elif name in _OLD_NAMES:
            old += stated_references(value)
    days = [first_date(lines[at][:80]) for name in _LOGS for at in sections.get(name, ())]
    logged = min((day for day in days if day is not None), default=None)
    return Preamble(
        status, status_line, date, date_line, tuple(new), tuple(old), logged, tuple(amends)
    )


def _above(lines: Sequence[str], parts: Outline) -> Iterator[int]:
    """Yield the lines of text above the first section."""
    for start, stop in parts.text[:2]:
        for number in range(start, min(stop, start + _PREAMBLE_LINES)):
            if lines[number].startswith("## "):
                break
            yield number


def _fields_of(line: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values that a line states; a row of a table only if it has two cells."""
    if ":" not in line and "|" not in line:
        return
    row = line.lstrip(" \t>").startswith("|")
    for part in [line] if row else re.split(_BESIDE, line):
        if (match := re.match(FIELD, part)) and not (row and "|" in match[2].rstrip(" \t|")):
            yield match[1].casefold().replace("-", " "), match[2].rstrip(" \t|")
