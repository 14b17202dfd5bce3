"""Find the records that a text says a decision replaces, is replaced by or amends.

A link is a field, a section of that name, or a sentence that begins with the verb and has the
reference as its object. A decision that replaces only a part of another amends it: both are live.
"""

import re
from collections.abc import Iterator
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
# Words between the verb and the reference that do not limit the link to a part.
_FILLER_WORDS = (
    r"(?i)(?:\W|_|\b(?:adr|decision|record|rfc|proposal|the|new|old|newer|older|our|former|"
    rf"earlier|previous|both|of|a|o|al|als|au|die|der|den|la|le|el|il|l|{_BY})\b)*"
)
# In German, Chinese, Japanese and Korean the verb may follow the reference.
_TRAILING_VERB = (
    r"(?i)(?:(?:(?:ist|wird|wurde) )?durch\s+(?P<by_de>.{1,200}?)\s+(?:ersetzt|abgelöst)\b"
    r"|(?:已)?[被由]\s*(?P<by_zh>.{1,200}?)\s*所?(?:取代|替代|替换|代替|废弃)"
    r"|(?P<by_ja>.{1,200}?)\s*(?:に(?:よって|より)?|で)\s*(?:置き換え|置換|代替|廃止)"
    r"|(?P<by_ko>.{1,200}?)\s*(?:(?:으)?로|에 의해)\s*대체"
    r"|(?P<ja>.{1,200}?)\s*を\s*(?:置き換え|置換|代替|廃止)"
    rf"|(?P<ko>.{{1,200}}?)\s*[을를]\s*대체)(?!{NEGATION})"
)
# Words allowed beside the reference there: `本 ADR は ADR-3 を置き換える`.
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
# The text of a link to another page than a file: `ADR 32`, but not an issue or a pull request.
_SERIES = r"(?i)(?!(?:pr|pull|mr|issue|gh)\b)[a-z]{2,8}[-_ ]?#?[0-9]{1,5}\b"
_CONJUNCTION = r"(?i)[\s,;/&、和]*(?:(?:and|und|et|y|e)\b)?\s*(?:by\s+|adr\s+)?"
# After a number that counts something; `12 and 13` and `12 on 2025-01-02` are references.
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
_REFERENCE_SIGN = r"[,\[(: ]"  # a value without it is one reference
_MAX_LENGTH = 5000


class Reference(NamedTuple):
    """A reference in a text, and its place; `is_bare`: only a number."""

    name: str
    start: int
    end: int
    is_bare: bool


def parse_links(text: str) -> tuple[Edge, ...]:
    """Return the links that the sentences of a paragraph state, with the paragraph as reason."""
    reason = text.strip()[:200]
    links: list[Edge] = []
    for sentence in _iter_sentences(text[:_MAX_LENGTH]):
        links += _iter_sentence_links(sentence, reason)
    return tuple(dict.fromkeys(links))


def parse_field_links(name: str, value: str) -> tuple[Edge, ...] | None:
    """Return the links of a field such as `superseded by`; None if the name is not a link's."""
    name = re.sub("[_-]", " ", name).strip()
    name = _FIELD_ALIASES.get(name.casefold(), name)
    verb = re.match(_SENTENCE, name)
    if verb is None:
        return None
    ending = name[verb.end() :]
    if not re.fullmatch(_FIELD_ENDING, ending):
        return None
    is_passive_verb = verb["replaced"] or verb["amended"]
    if is_passive_verb and not re.search(_PASSIVE, name):
        return None
    kind = _classify_link(verb, ending, value)
    reason = f"{name}: {value}"[:200]
    return tuple(Edge(kind, target, reason) for target in parse_field_references(value))


def is_link_start(text: str) -> bool:
    """Whether a text begins with the verb of a link."""
    if re.match(_SENTENCE, text):
        return True
    return re.match(_TRAILING_VERB, text) is not None


def parse_references(text: str) -> tuple[str, ...]:
    """Return the links, file names, ids and numbers at the beginning of a text.

    A bare number counts only if there are no other references.
    """
    references = list(_iter_references(text[:_MAX_LENGTH]))
    full_references = [reference for reference in references if not reference.is_bare]
    names: dict[str, None] = {}
    for reference in full_references or references:
        if reference.name:
            names[reference.name] = None
    return tuple(names)


def parse_field_references(value: str) -> tuple[str, ...]:
    """Return the references of one field, such as `FIP-0003, FIP-0005` or `N/A`."""
    value = value.strip()
    if value.strip("[]{}\"'").casefold() in _EMPTY_VALUES:
        return ()
    if not re.search(_REFERENCE_SIGN, value):
        return (value,)
    return parse_references(value) or (value,)


def _iter_references(text: str) -> Iterator[Reference]:
    for match in re.finditer(REFERENCE, text):
        name = _get_reference_name(match)
        is_bare = not match[3] and name.lstrip("#").isdigit()
        if is_bare and name[0] in "123456789":
            following_text = text[match.end() :]
            if re.match(_COUNTED_NOUN, following_text):
                continue
        yield Reference(name, match.start(), match.end(), is_bare)


def _get_reference_name(match: re.Match[str]) -> str:
    """Return the target of a reference; of a link to another page the number in its text, or ""."""
    target = match[match.lastindex or 0]
    name = target.partition("|")[0]
    file_name = name.partition("#")[0].partition("?")[0]
    is_page = "://" in name and not file_name.casefold().endswith(SUFFIXES)
    is_anchor = match[3] and name.startswith("#")
    if not is_page and not is_anchor:
        return name
    link_text = (match[2] or "").strip()
    series = re.match(_SERIES, link_text)
    if series is None:
        return ""
    return series[0]


def _iter_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a paragraph, without a status in front: `Accepted (superseded ...`."""
    masked_text = re.sub(REFERENCE, _hide_reference, text)
    start = 0
    for match in _SENTENCE_END.finditer(masked_text):
        yield _strip_status(text[start : match.end()])
        start = match.end()
    yield _strip_status(text[start:])


def _hide_reference(match: re.Match[str]) -> str:
    """Return a text of the same length without the end of a sentence."""
    return "x" * len(match[0])


def _strip_status(sentence: str) -> str:
    sentence = re.sub(_LEAD, "", sentence, count=1)
    while match := _LEADING_STATUS.match(sentence):
        if not is_status(match[1] or match[2]):
            break
        sentence = sentence[match.end() :]
    return sentence


def _iter_sentence_links(sentence: str, reason: str) -> Iterator[Edge]:
    trailing_verb = re.match(_TRAILING_VERB, sentence)
    if trailing_verb:
        yield from _iter_trailing_links(trailing_verb, reason)
        return
    verb = re.match(_SENTENCE, sentence)
    if verb is None:
        return
    objects = _list_objects(sentence, verb.end())
    if not objects:
        return
    middle_text = sentence[verb.end() : objects[0].start]
    if re.search(_OTHER_OBJECT, middle_text):
        return
    following_text = sentence[objects[-1].end :]
    clause = re.split(CLAUSE_END, following_text, maxsplit=1)[0]
    kind = _classify_link(verb, middle_text, clause)
    for reference in objects:
        if reference.name:
            yield Edge(kind, reference.name, reason)


def _iter_trailing_links(verb: re.Match[str], reason: str) -> Iterator[Edge]:
    """Yield the links of a sentence with its verb after the reference."""
    group = verb.lastgroup or ""
    words = verb[group]
    other_words = re.sub(REFERENCE, "", words)
    if not re.fullmatch(_NEUTRAL_WORDS, other_words):
        return
    side = "old" if group.startswith("by_") else "new"
    for target in parse_references(words):
        yield Edge(_FULL_KINDS[side], target, reason)


def _classify_link(verb: re.Match[str], middle_text: str, following_text: str) -> str:
    """Return the kind of edge by the words around the reference.

    The words decide because a verb such as `ersetzt` can be active or passive.
    """
    words = middle_text
    passive_match = re.search(_PASSIVE, middle_text)
    if passive_match:
        words = middle_text[: passive_match.start()]
    side = "new"
    if passive_match or verb["replaced"] or verb["amended"]:
        side = "old"
    if verb["part"] or verb["amended"] or verb["amends"]:
        return _PARTIAL_KINDS[side]
    is_whole = re.fullmatch(_FILLER_WORDS, words)
    if is_whole and not re.search(PARTIAL, middle_text + following_text):
        return _FULL_KINDS[side]
    return _PARTIAL_KINDS[side]


def _list_objects(sentence: str, start: int) -> list[Reference]:
    """Return the reference after the verb and those joined to it; bare numbers only if all are."""
    objects: list[Reference] = []
    for reference in _iter_references(sentence):
        if reference.start < start:
            continue
        if objects:
            separator = sentence[objects[-1].end : reference.start]
            if not re.fullmatch(_CONJUNCTION, separator):
                break
            if reference.is_bare and not objects[0].is_bare:
                break
        objects.append(reference)
    return objects
