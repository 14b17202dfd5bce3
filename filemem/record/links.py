"""Which records a decision replaces, is replaced by or amends, as people write it.

A link is a field, a section of that name, or a sentence that begins with the verb and whose object
is the reference; never the middle of a sentence. What replaces only a part amends: both hold.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from filemem.record.identity import SUFFIX, SUFFIXES
from filemem.record.model import Edge
from filemem.record.status import CLAUSE_END, NEGATION, PARTIAL, is_status

_FULL_KINDS = {"old": "superseded_by", "new": "supersedes"}
_PARTIAL_KINDS = {"old": "built_on_by", "new": "builds_on"}
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
_FIELD_ALIASES = {
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
_FILLER_WORDS = (
    r"(?i)(?:\W|_|\b(?:adr|decision|record|rfc|proposal|the|new|old|newer|older|our|former|"
    rf"earlier|previous|both|of|a|o|al|als|au|die|der|den|la|le|el|il|l|{_BY})\b)*"
)
# In German, Chinese, Japanese and Korean the verb may stand behind the reference.
_TRAILING_VERB = (
    r"(?i)(?:(?:(?:ist|wird|wurde) )?durch\s+(?P<by_de>.{1,200}?)\s+(?:ersetzt|abgelöst)\b"
    r"|(?:已)?[被由]\s*(?P<by_zh>.{1,200}?)\s*所?(?:取代|替代|替换|代替|废弃)"
    r"|(?P<by_ja>.{1,200}?)\s*(?:に(?:よって|より)?|で)\s*(?:置き換え|置換|代替|廃止)"
    r"|(?P<by_ko>.{1,200}?)\s*(?:(?:으)?로|에 의해)\s*대체"
    r"|(?P<ja>.{1,200}?)\s*を\s*(?:置き換え|置換|代替|廃止)"
    rf"|(?P<ko>.{{1,200}}?)\s*[을를]\s*대체)(?!{NEGATION})"
)
# What may stand beside the reference there: `本 ADR は ADR-3 を置き換える`.
_NEUTRAL_WORDS = r"(?i)(?:\W|adr|本|この|これ|決定|は|と|及び|および|이|결정은|과|와|和|与)*"
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
_CONJUNCTION = r"(?i)[\s,;/&、和]*(?:(?:and|und|et|y|e)\b)?\s*(?:by\s+|adr\s+)?"
# Behind a number that counts something; `12 and 13` and `12 on 2025-01-02` are references.
_COUNTED_NOUN = r"(?i)\s+(?!(?:and|und|et|y|e)\b|\w+ [12]\d{3})[^\W\d_]"
_FIELD_ENDING = rf"(?i)(?:\W|{_BY}|\ba\b|in part|partly|partially)*"
_OTHER_OBJECT = r"(?i)[,.;:(]\s*\w|\b(?:see|not|nothing|nicht|pas|non|não)\b"
_EMPTY_VALUES = frozenset(
    ("", "-", "–", "—", "n/a", "na", "none", "null", "~", "tbd", "no", "nil", "nothing")
)
_SENTENCE_END = re.compile(r"[.;!?](?=\s)|(?<=[。；])")
_LEAD = re.compile(r"\A(?:[^\w§`\[]|\[(?!\[|[^\]\n]*\]\())*+(?:\d{4}-\d\d-\d\d\W*)?")
_LEADING_STATUS = re.compile(
    r"([\w ]{3,30}?)\s*(?:\d{4}-\d\d-\d\d\W{0,3})?\s*(?:[,;(–—]|:(?=\s))\s*|([\w ]{3,30}?) - "
)
_MAX_LENGTH = 5000


class Reference(NamedTuple):
    """A reference in a text, and where it stands; `bare`: a number alone."""

    name: str
    start: int
    end: int
    is_bare: bool


def parse_links(text: str) -> tuple[Edge, ...]:
    """Return the links that the sentences of one paragraph state, the paragraph as the reason."""
    links: list[Edge] = []
    for sentence in _iter_sentences(text[:_MAX_LENGTH]):
        links += _iter_sentence_links(sentence, text.strip()[:200])
    return tuple(dict.fromkeys(links))


def parse_field_links(name: str, value: str) -> tuple[Edge, ...] | None:
    """Return the links of a field such as `superseded by`; None where no link is named so."""
    name = re.sub("[_-]", " ", name).strip()
    name = _FIELD_ALIASES.get(name.casefold(), name)
    verb = re.match(_SENTENCE, name)
    if not verb or not re.fullmatch(_FIELD_ENDING, name[verb.end() :]):
        return None
    if (verb["replaced"] or verb["amended"]) and not re.search(_PASSIVE, name):
        return None
    kind = _classify_link(verb, name[verb.end() :], value)
    return tuple(
        Edge(kind, target, f"{name}: {value}"[:200]) for target in parse_field_references(value)
    )


def is_link_start(text: str) -> bool:
    """Whether a text begins with the verb of a link."""
    return bool(re.match(_SENTENCE, text) or re.match(_TRAILING_VERB, text))


def parse_references(text: str) -> tuple[str, ...]:
    """Return the links, file names, ids and numbers that the beginning of a text names."""
    references = list(_iter_references(text[:_MAX_LENGTH]))
    full_references = [reference for reference in references if not reference.is_bare]
    names = (reference.name for reference in full_references or references)
    return tuple(name for name in dict.fromkeys(names) if name)


def parse_field_references(value: str) -> tuple[str, ...]:
    """Return the references of one field, such as `FIP-0003, FIP-0005` or `N/A`."""
    value = value.strip()
    if value.strip("[]{}\"'").casefold() in _EMPTY_VALUES:
        return ()
    references = parse_references(value) if any(sign in value for sign in ",[(: ") else ()
    return references or (value,)


def _iter_references(text: str) -> Iterator[Reference]:
    for match in re.finditer(REFERENCE, text):
        name = _get_reference_name(match)
        is_bare = not match[3] and name.lstrip("#").isdigit()
        if is_bare and name[0] in "123456789" and re.match(_COUNTED_NOUN, text[match.end() :]):
            continue
        yield Reference(name, match.start(), match.end(), is_bare)


def _get_reference_name(match: re.Match[str]) -> str:
    """Return what a reference names; of a link to no file the number in its text, or ""."""
    name = match[match.lastindex or 0].partition("|")[0]
    file = name.partition("#")[0].partition("?")[0].casefold()
    is_anchor = match[3] and name.startswith("#")
    if is_anchor or ("://" in name and not file.endswith(SUFFIXES)):
        series = re.match(_SERIES, (match[2] or "").strip())
        return series[0] if series else ""
    return name


def _iter_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a paragraph, without a status in front: `Accepted (superseded ...`."""
    masked_text = re.sub(
        REFERENCE, lambda match: "x" * len(match[0]), text
    )  # a link may hold a stop
    ends = [match.end() for match in _SENTENCE_END.finditer(masked_text)]
    for start, end in pairwise((0, *ends, len(text))):
        sentence = re.sub(_LEAD, "", text[start:end], count=1)
        status_match = _LEADING_STATUS.match(sentence)
        while status_match and is_status(status_match[1] or status_match[2]):
            sentence = sentence[status_match.end() :]
            status_match = _LEADING_STATUS.match(sentence)
        yield sentence


def _iter_sentence_links(sentence: str, reason: str) -> Iterator[Edge]:
    if trailing_verb := re.match(_TRAILING_VERB, sentence):
        yield from _iter_trailing_links(trailing_verb, reason)
        return
    verb = re.match(_SENTENCE, sentence)
    objects = _list_objects(sentence, verb.end()) if verb else []
    if not verb or not objects:
        return
    middle_text = sentence[verb.end() : objects[0].start]
    if re.search(_OTHER_OBJECT, middle_text):
        return
    kind = _classify_link(
        verb, middle_text, re.split(CLAUSE_END, sentence[objects[-1].end :], maxsplit=1)[0]
    )
    for reference in objects:
        if reference.name:
            yield Edge(kind, reference.name, reason)


def _iter_trailing_links(verb: re.Match[str], reason: str) -> Iterator[Edge]:
    """Yield the links of a sentence whose verb stands behind the reference."""
    side = verb.lastgroup or ""
    words = verb[side]
    if re.fullmatch(_NEUTRAL_WORDS, re.sub(REFERENCE, "", words)):
        kind = _FULL_KINDS["old" if side.startswith("by_") else "new"]
        yield from (Edge(kind, target, reason) for target in parse_references(words))


def _classify_link(verb: re.Match[str], middle_text: str, following_text: str) -> str:
    """Return the kind of edge, by the words around the reference; `ersetzt` is two verbs."""
    passive_match = re.search(_PASSIVE, middle_text)
    words = middle_text[: passive_match.start()] if passive_match else middle_text
    is_partial = (
        verb["part"]
        or not re.fullmatch(_FILLER_WORDS, words)
        or re.search(PARTIAL, middle_text + following_text)
    )
    side = "old" if passive_match or verb["replaced"] or verb["amended"] else "new"
    return (_PARTIAL_KINDS if is_partial or verb["amended"] or verb["amends"] else _FULL_KINDS)[
        side
    ]


def _list_objects(sentence: str, start: int) -> list[Reference]:
    """Return the reference behind the verb, those joined to it; bare numbers only if all are."""
    objects: list[Reference] = []
    for reference in _iter_references(sentence):
        if reference.start < start:
            continue
        is_joined = not objects or re.fullmatch(
            _CONJUNCTION, sentence[objects[-1].end : reference.start]
        )
        if not is_joined:
            break
        if objects and reference.is_bare and not objects[0].is_bare:
            break
        objects.append(reference)
    return objects
