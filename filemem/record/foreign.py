"""Records of other makers (MADR, Nygard, FIP and their kin): status words, dates and links, mapped onto ours.

What is stated is read; links stay as written, because only the whole store knows which record they mean.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from filemem.record.body import Outline
from filemem.record.lines import fenced
from filemem.record.model import STATUSES

_STATUS_WORDS: Mapping[str, str] = {
    **{word: word for word in STATUSES},
    # `Last Call`, `Under review`
    **dict.fromkeys(("draft", "pending", "open", "proposal", "review", "rfc", "wip", "last", "under"), "proposed"),
    **dict.fromkeys(("deferred", "experimental", "trial", "in-progress", "progress", "discussion"), "proposed"),
    **dict.fromkeys(("accept", "approved", "approve", "final", "active", "adopted", "agreed"), "accepted"),
    **dict.fromkeys(("decided", "implemented", "done", "living", "amended", "current"), "accepted"),
    **dict.fromkeys(("declined", "withdrawn", "abandoned", "cancelled", "canceled", "stagnant", "reject"), "rejected"),
    **dict.fromkeys(
        ("superseded", "superceded", "replaced", "obsolete", "retired", "deprecate", "archived"), "deprecated"
    ),
}
_TURNED = {"no longer": "deprecated", "not yet": "proposed", "to be": "proposed", "not": "rejected"}  # accepted
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
    r"|\[[^\]\n]{0,200}\]\(\s{0,3}<?([^()<>\s]{1,300})>?[^)\n]{0,100}\)"
    r"|(https?://[^\s<>()]{1,300})"
    r"|(?<![\w./-])([\w./-]{1,200}\.md)\b"
    r"|\b(decision_[a-z0-9_]{1,200}|file_[0-9a-z]{16})\b"
    r"|(?<![\w-])([A-Za-z]{2,8}-[0-9O]{1,5}|(?:ADR|MADR|RFC|No\.?|Nr\.?) ?[0-9O]{1,5}|#?[0-9]{1,5})(?![\w-])"
)
_NOTHING = frozenset(("", "-", "–", "—", "n/a", "na", "none", "null", "~", "tbd", "no", "nil"))
_FIELD = (
    r"(?i)[ \t]{0,3}(?:[-*+][ \t]+)?\**(status|date|created|supersedes|supercedes|replaces|superseded[ -]by)"
    r"\**[ \t]*:[ \t]*\**[ \t]*(.*)$"
)
_PREAMBLE_LINES = 60
_STATUS_LINES = 20


_HEADING = r"#{1,6}[ \t]+(.*?)[ \t#:]*$"
_SECTION = r"##?[ \t]+(.*?)[ \t]*$"
_USUAL = frozenset(  # headings of every record of a kind: they say nothing about this one
    (
        *("context", "context and problem statement", "problem", "problem statement", "decision", "decision outcome"),
        *("status", "summary", "simple summary", "abstract", "background", "motivation", "table of contents"),
    )
)


_TARGET = r"(?:\([^)\n]{0,500}\)|\[[^\]\n]{0,100}\])"
_IMAGE = rf"\[!\[[^\]\n]{{0,300}}\]{_TARGET}\]{_TARGET}|!\[[^\]\n]{{0,300}}\]{_TARGET}|<img\b[^>\n]{{0,500}}>"


def prose(text: str) -> str:
    """Return what of a text is worth quoting: without status, date and the headings that every record has.

    Comments and images, badges among them, are left out too. The whole text where nothing else is in it.
    """
    kept: list[str] = []
    in_status = False
    readable = _readable(text)
    for line in readable.split("\n"):
        if heading := re.match(_HEADING, line):
            name = heading[1].casefold()
            in_status = name == "status"
            if name not in _USUAL:
                kept.append(heading[1])
        elif not in_status and not (":" in line and re.match(_FIELD, line)):
            kept.append(line)
    return "\n".join(kept).strip() or readable.strip() or text


class Parted(NamedTuple):
    """A text of another maker: what it argues, and the lines that say its status, dates and links."""

    argument: str
    standing: str


def parted(text: str) -> Parted:
    """Part the text of a record without an id; `read_preamble` reads the second part, which argues nothing."""
    lines = text.split("\n")
    code = fenced(lines)
    parts: tuple[list[str], list[str]] = [], []
    above, in_status = True, False
    for number, line in enumerate(lines):
        if number not in code and (heading := re.match(_SECTION, line)):
            above, in_status = False, heading[1].casefold() == "status"
            if in_status:
                continue
        stands = in_status or (above and bool(re.match(_FIELD, line)))
        parts[stands].append(line)
    return Parted(*("\n".join(part).strip() for part in parts))


def _readable(text: str) -> str:
    """The text without HTML comments and images; of a comment that is never closed, the rest of its line goes."""
    if "<!--" in text:
        first, *parts = text.split("<!--")  # a regular expression would look for each end again and again
        text = first + "".join(part.partition("-->" if "-->" in part else "\n")[2] for part in parts)
    return re.sub(_IMAGE, "", text) if "![" in text or "<img" in text else text


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
    partly = re.search(_PARTLY, text)
    status = _status(re.findall(_WORD, _strip_links(text).casefold()))
    if status == "deprecated" and partly:
        status = "accepted"
    if partly:
        return Standing(status)
    old, new = _after(_OLD_SIDE, text), _after(_NEW_SIDE, text)
    return Standing("accepted" if status is None and new else status, old, new)


def _status(words: Sequence[str]) -> str | None:
    at = next((at for at, word in enumerate(words) if word in _STATUS_WORDS), None)
    if at is None:
        return None
    status, before = _STATUS_WORDS[words[at]], " ".join(words[max(0, at - 2) : at])
    turned = (other for said, other in _TURNED.items() if before.endswith(said))
    return next(turned, status) if status == "accepted" else status


def _strip_links(text: str) -> str:
    return re.sub(_LINKS, " ", text)


def _after(pattern: str, text: str) -> tuple[str, ...]:
    found: list[str] = []
    for line in text.split("\n"):
        if match := re.search(pattern, line):
            rest = line[match.end() :]
            stop = re.search(_STOP, _masked_links(rest))  # a link may hold a full stop
            found += references_in(rest[: stop.start()] if stop else rest)
    return tuple(dict.fromkeys(found))


def _mask(match: re.Match[str]) -> str:
    return "x" * len(match[0])


def references_in(text: str) -> tuple[str, ...]:
    """Return the links, file names, ids and numbers that `text` names, as written.

    Web addresses count only where they name a Markdown file.
    """
    found: list[str] = []
    for match in re.finditer(_REFERENCE, text[:5000]):
        reference = next(group for group in match.groups() if group)
        if "://" in reference and not _names_file(reference):
            continue
        found.append(reference)
    return tuple(dict.fromkeys(found))


def _names_file(address: str) -> bool:
    return address.partition("#")[0].partition("?")[0].casefold().endswith(".md")


def stated_references(value: str) -> tuple[str, ...]:
    """Return the references of one front matter scalar, such as `FIP-0003, FIP-0005` or `N/A`."""
    if value.strip(" \t[]{}\"'").casefold() in _NOTHING:
        return ()
    if any(sign in value for sign in ",[(:") or " " in value.strip():
        return references_in(value) or (value.strip(),)
    return (value.strip(),)


class Preamble(NamedTuple):
    """What stands in the body of a record whose header does not say it: values and their line numbers."""

    status: str = ""
    status_line: int = 0
    date: str = ""
    date_line: int = 0
    supersedes: tuple[str, ...] = ()
    superseded_by: tuple[str, ...] = ()


def with_status(stated: str, status: str) -> str:
    """Return a line that `read_status` reads with another status, and all else that it says; "" where it names none.

    Args:
        stated: such as `✅ Accepted`; of one that was superseded nothing stays; what says more (when, by whom) stays
            as what it was.
        status: one of ours; written with a capital where the old one was.
    """
    known = (match for match in re.finditer(_WORD, _masked_links(stated)) if match[0].casefold() in _STATUS_WORDS)
    word = next(known, None)
    if word is None:
        return ""
    written = status.capitalize() if word[0][0].isupper() else status
    if re.search(_OLD_SIDE, stated):
        return written
    front, rest = stated[: word.start()], stated[word.end() :]
    says_more = re.search(r"[^\W_]", _strip_links(front + rest))
    return f"{written} (was: {stated.strip()})" if says_more else front + written + rest


def _masked_links(text: str) -> str:
    return re.sub(_LINKS, _mask, text)


def read_preamble(lines: Sequence[str], parts: Outline) -> Preamble:
    """Read `Date: ...` lines, `* Status: ...` lists and the `## Status` section of a body."""
    found: dict[str, tuple[str, int]] = {}
    for start, stop in parts.text[:2]:
        for number in range(start, min(stop, start + _PREAMBLE_LINES)):
            line = lines[number]
            if line.startswith("## "):
                break
            if ":" in line and (match := re.match(_FIELD, line)):
                found.setdefault(match[1].casefold().replace(" ", "-"), (match[2].strip(), number))
    status, status_line = found.get("status", ("", 0))
    if not status and (section := parts.other.get("status")):
        start, stop = section[0], min(section[1], section[0] + _STATUS_LINES)
        status_line = next((number for number in range(start, stop) if lines[number].strip()), start)
        status = "\n".join(lines[start:stop]).strip()
    date, date_line = found.get("date") or found.get("created") or ("", 0)
    new = [found[name][0] for name in ("supersedes", "supercedes", "replaces") if name in found]
    return Preamble(
        status,
        status_line,
        date,
        date_line,
        tuple(reference for value in new for reference in stated_references(value)),
        stated_references(found.get("superseded-by", ("", 0))[0]),
    )
