"""Which records a decision replaces, is replaced by or amends, as people write it.

A link is a field, a section of that name, or a sentence that begins with the verb and whose object
is the reference; never the middle of a sentence. What replaces only a part amends: both hold.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from filemem.record.identity import SUFFIX, SUFFIXES
from filemem.record.model import Edge
from filemem.record.status import ASIDE, NEGATED, PARTLY, is_status
from filemem.tuples import NamedTuple

_WHOLE = {"old": "superseded_by", "new": "supersedes"}
_PART = {"old": "built_on_by", "new": "builds_on"}
_REPLACED = (
    "superseded|superceded|replaced|obsoleted|deprecated|abgelöst|überholt|remplacée?s?|"
    "reemplazad[oa]|sustituid[oa]|substituíd[oa]|sostituit[oa]"
)
_REPLACES = (
    "supersedes|supercedes|replaces|obsoletes|ersetzt|löst(?: ab)?|(?:annule et )?remplace|abroge|"
    "reemplaza|sustituye|substitui|sostituisce"
)
_AMENDED = "amended|ergänzt|modifiée?|modificad[oa]|modificat[oa]"
_AMENDS = "amends|modifie|modifica"
_BY = r"by|with|in favou?r of|durch|von|par|por|pel[oa]|da|dal|dalla"
_PASSIVE = rf"(?i)\b(?:{_BY})\b"
_SENTENCE = (
    r"(?i)(?:this(?: (?:adr|decision|record|one|proposal))?\s+)?"
    r"(?:(?:is|was|has been|now|it|wurde)\s+)*"
    r"(?P<part>(?:section|clause|§)\s*[\w.]+\s+(?:is\s+)?|(?:in part,?|partly|partially|mostly|"
    r"teilweise|partiellement|parcialmente|parzialmente)\s+)?"
    rf"(?:(?P<replaced>{_REPLACED})|(?P<replaces>{_REPLACES}|取代|替代|替换)|(?P<amended>{_AMENDED})"
    rf"|(?P<amends>{_AMENDS}))(?![^\W\d_])"
)
# Names of fields that have no verb.
_NAMES = {
    **dict.fromkeys(("置き換え対象", "대체 대상"), "supersedes"),
    **dict.fromkeys(
        (
            "successor",
            "superseding proposal",
            "nachfolger",
            "successeur",
            "後継",
            "置き換え先",
            "被取代",
        ),
        "superseded by",
    ),
}
# Words between the verb and the reference that say nothing of a part.
_PLAIN = (
    r"(?i)(?:\W|_|\b(?:adr|decision|record|rfc|proposal|the|new|old|newer|older|our|former|"
    rf"earlier|previous|both|of|a|o|al|als|au|die|der|den|la|le|el|il|l|{_BY})\b)*"
)
# In German, Chinese, Japanese and Korean the verb may stand behind the reference.
_BEHIND = (
    r"(?i)(?:(?:(?:ist|wird|wurde) )?durch\s+(?P<by_de>.{1,200}?)\s+(?:ersetzt|abgelöst)\b"
    r"|(?:已)?[被由]\s*(?P<by_zh>.{1,200}?)\s*所?(?:取代|替代|替换|代替|废弃)"
    r"|(?P<by_ja>.{1,200}?)\s*(?:に(?:よって|より)?|で)\s*(?:置き換え|置換|代替|廃止)"
    r"|(?P<by_ko>.{1,200}?)\s*(?:(?:으)?로|에 의해)\s*대체"
    r"|(?P<ja>.{1,200}?)\s*を\s*(?:置き換え|置換|代替|廃止)"
    rf"|(?P<ko>.{{1,200}}?)\s*[을를]\s*대체)(?!{NEGATED})"
)
# What may stand beside the reference there: `本 ADR は ADR-3 を置き換える`.
_BESIDE = r"(?i)(?:\W|adr|本|この|これ|決定|は|と|及び|および|이|결정은|과|와|和|与)*"
REFERENCE = (
    r"\[\[([^\]\n]{1,200})\]\]"
    r"|\[([^\]\n]{0,200})\]\(\s{0,3}<?([^()<>\s]{1,300})>?[^)\n]{0,100}\)"
    r"|(https?://[^\s<>()]{1,300})"
    rf"|(?<![\w./-])([\w./-]{{1,200}}{SUFFIX})\b"
    r"|\b(decision_[a-z0-9_]{1,200}|file_[0-9a-z]{16})\b"
    r"|(?<![\w-])([A-Za-z]{2,8}-[0-9O]{1,5}|(?:M?ADR|RFC|N[or]\.?) ?#?[0-9O]{1,5}|#?[0-9]{1,5})"
    r"(?![a-zA-Z0-9_-])"
)
# A link whose address is no file, by its text: `ADR 32`; an issue or a pull request is no record.
_SERIES = r"(?i)(?!(?:pr|pull|mr|issue|gh)\b)[a-z]{2,8}[-_ ]?#?[0-9]{1,5}\b"
_AND = r"(?i)[\s,;/&、和]*(?:(?:and|und|et|y|e)\b)?\s*(?:by\s+|adr\s+)?"
# Behind a number that counts something; `12 and 13` and `12 on 2025-01-02` are references.
_COUNTS = r"(?i)\s+(?!(?:and|und|et|y|e)\b|\w+ [12]\d{3})[^\W\d_]"
_FIELD_ENDS = rf"(?i)(?:\W|{_BY}|\ba\b|in part|partly|partially)*"
_OTHER_OBJECT = r"(?i)[,.;:(]\s*\w|\b(?:see|not|nothing|nicht|pas|non|não)\b"
_NOTHING = frozenset(
    ("", "-", "–", "—", "n/a", "na", "none", "null", "~", "tbd", "no", "nil", "nothing")
)
_END = re.compile(r"[.;!?](?=\s)|(?<=[。；])")
_LEAD = re.compile(r"\A(?:[^\w§`\[]|\[(?!\[|[^\]\n]*\]\())*+(?:\d{4}-\d\d-\d\d\W*)?")
_STATUS_FIRST = re.compile(
    r"([\w ]{3,30}?)\s*(?:\d{4}-\d\d-\d\d\W{0,3})?\s*(?:[,;(–—]|:(?=\s))\s*|([\w ]{3,30}?) - "
)
_LONGEST = 5000


class Reference(NamedTuple):
    """A reference in a text, and where it stands; `bare`: a number alone."""

    name: str
    start: int
    end: int
    bare: bool


def links_in(text: str) -> tuple[Edge, ...]:
    """Return the links that the sentences of one paragraph state, the paragraph as the reason."""
    links: list[Edge] = []
    for sentence in _sentences(text[:_LONGEST]):
        links += _links_of(sentence, text.strip()[:200])
    return tuple(dict.fromkeys(links))


def links_of_field(name: str, value: str) -> tuple[Edge, ...] | None:
    """Return the links of a field such as `superseded by`; None where no link is named so."""
    name = re.sub("[_-]", " ", name).strip()
    name = _NAMES.get(name.casefold(), name)
    verb = re.match(_SENTENCE, name)
    if not verb or not re.fullmatch(_FIELD_ENDS, name[verb.end() :]):
        return None
    if (verb["replaced"] or verb["amended"]) and not re.search(_PASSIVE, name):
        return None
    kind = _kind(verb, name[verb.end() :], value)
    return tuple(
        Edge(kind, target, f"{name}: {value}"[:200]) for target in stated_references(value)
    )


def begins_link(text: str) -> bool:
    """Whether a text begins with the verb of a link."""
    return bool(re.match(_SENTENCE, text) or re.match(_BEHIND, text))


def references_in(text: str) -> tuple[str, ...]:
    """Return the links, file names, ids and numbers that the beginning of a text names."""
    references = list(_references(text[:_LONGEST]))
    proper = [reference for reference in references if not reference.bare]
    names = (reference.name for reference in proper or references)
    return tuple(name for name in dict.fromkeys(names) if name)


def stated_references(value: str) -> tuple[str, ...]:
    """Return the references of one field, such as `FIP-0003, FIP-0005` or `N/A`."""
    value = value.strip()
    if value.strip("[]{}\"'").casefold() in _NOTHING:
        return ()
    references = references_in(value) if any(sign in value for sign in ",[(: ") else ()
    return references or (value,)


def _references(text: str) -> Iterator[Reference]:
    for match in re.finditer(REFERENCE, text):
        name = _name_of(match)
        bare = not match[3] and name.lstrip("#").isdigit()
        if bare and name[0] in "123456789" and re.match(_COUNTS, text[match.end() :]):
            continue
        yield Reference(name, match.start(), match.end(), bare)


def _name_of(match: re.Match[str]) -> str:
    """Return what a reference names; of a link to no file the number in its text, or ""."""
    name = match[match.lastindex or 0].partition("|")[0]
    file = name.partition("#")[0].partition("?")[0].casefold()
    to_heading = match[3] and name.startswith("#")
    if to_heading or ("://" in name and not file.endswith(SUFFIXES)):
        series = re.match(_SERIES, (match[2] or "").strip())
        return series[0] if series else ""
    return name


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a paragraph, without a status in front: `Accepted (superseded ...`."""
    plain = re.sub(REFERENCE, lambda match: "x" * len(match[0]), text)  # a link may hold a stop
    ends = [match.end() for match in _END.finditer(plain)]
    for start, end in pairwise((0, *ends, len(text))):
        sentence = re.sub(_LEAD, "", text[start:end], count=1)
        first = _STATUS_FIRST.match(sentence)
        while first and is_status(first[1] or first[2]):
            sentence = sentence[first.end() :]
            first = _STATUS_FIRST.match(sentence)
        yield sentence


def _links_of(sentence: str, reason: str) -> Iterator[Edge]:
    if behind := re.match(_BEHIND, sentence):
        yield from _links_behind(behind, reason)
        return
    verb = re.match(_SENTENCE, sentence)
    objects = _objects(sentence, verb.end()) if verb else []
    if not verb or not objects:
        return
    between = sentence[verb.end() : objects[0].start]
    if re.search(_OTHER_OBJECT, between):
        return
    kind = _kind(verb, between, re.split(ASIDE, sentence[objects[-1].end :], maxsplit=1)[0])
    for reference in objects:
        if reference.name:
            yield Edge(kind, reference.name, reason)


def _links_behind(verb: re.Match[str], reason: str) -> Iterator[Edge]:
    """Yield the links of a sentence whose verb stands behind the reference."""
    side = verb.lastgroup or ""
    words = verb[side]
    if re.fullmatch(_BESIDE, re.sub(REFERENCE, "", words)):
        kind = _WHOLE["old" if side.startswith("by_") else "new"]
        yield from (Edge(kind, target, reason) for target in references_in(words))


def _kind(verb: re.Match[str], between: str, after: str) -> str:
    """Return the kind of edge, by the words around the reference; `ersetzt` is two verbs."""
    by = re.search(_PASSIVE, between)
    words = between[: by.start()] if by else between
    partly = verb["part"] or not re.fullmatch(_PLAIN, words) or re.search(PARTLY, between + after)
    side = "old" if by or verb["replaced"] or verb["amended"] else "new"
    return (_PART if partly or verb["amended"] or verb["amends"] else _WHOLE)[side]


def _objects(sentence: str, start: int) -> list[Reference]:
    """Return the reference behind the verb, those joined to it; bare numbers only if all are."""
    objects: list[Reference] = []
    for reference in _references(sentence):
        if reference.start < start:
            continue
        joined = not objects or re.fullmatch(_AND, sentence[objects[-1].end : reference.start])
        if not joined:
            break
        if objects and reference.bare and not objects[0].bare:
            break
        objects.append(reference)
    return objects
