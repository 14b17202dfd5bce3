"""Read the status of a decision: from the words that a person wrote to one of ours.

A status that is not understood is `unknown`; such a decision is never live.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from filemem.record.lines import shorten_line
from filemem.record.model import STATUSES, UNKNOWN

Words = tuple[tuple[str, str], ...]  # in a project's settings: its word for a status, and ours


def index_words(table: Mapping[str, str]) -> dict[str, str]:
    """Return the meaning of each word; a table lists the words of a meaning between commas."""
    meanings: dict[str, str] = {}
    for meaning, words in table.items():
        for word in words.split(","):
            normalized = " ".join(word.split())
            meanings[normalized] = meaning
    return meanings


# Our word, and the words that mean it, a line each in English, German, French, Spanish, Portuguese,
# Italian, Japanese, Korean and Chinese.
_MEANINGS = index_words(
    {
        "accepted": """
            accepted, accept, approved, approve, final, active, adopted, agreed, decided,
            implemented, done, living, amended, current, implementable, awaiting implementation,
            accepted with revisions, recommended, released, ready for release, supersedes,
            supercedes, replaces, amends, ratified, completed, resolved, in effect, in force,
            published, committed, valid,
            akzeptiert, angenommen, beschlossen, genehmigt, entschieden, umgesetzt, gültig, aktiv,
            freigegeben, gilt, in kraft,
            accepté, acceptée, approuvé, approuvée, validé, validée, adopté, adoptée, décidé,
            décidée, en vigueur, valide,
            aceptado, aceptada, aprobado, aprobada, adoptado, adoptada, vigente, implementado,
            implementada, em vigor, in vigore, válido, válida, valido, valida,
            aceito, aceita, aceite, aprovado, aprovada, adotado, adotada,
            accettato, accettata, approvato, approvata, adottato, adottata,
            承認, 承認済み, 承認済, 採用, 採択, 決定, 決定済み, 受理, 有効, を置き換える,
            승인, 승인됨, 채택, 채택됨, 수락, 수락됨, 확정, 결정됨, 유효,
            已接受, 接受, 已采纳, 采纳, 已批准, 批准, 已通过, 通过, 已采用, 采用, 已生效, 已实施, 已确认,
            有效, 生效, 生效中
        """,
        "proposed": """
            proposed, propose, proposal, draft, pending, open, review, in review, under review,
            active review, scheduled for review, awaiting review, rfc, wip, work in progress, in
            progress, last call, deferred, experimental, trial, discussion, under discussion, in
            discussion, under evaluation, under consideration, provisional, exploring, previewing,
            awaiting, prediscussion, ideation, postponed,
            vorgeschlagen, vorschlag, entwurf, in diskussion, in prüfung, in arbeit, in
            bearbeitung, offen, ausstehend,
            proposé, proposée, proposition, brouillon, en cours, en discussion, en attente, à
            valider, en revue,
            propuesto, propuesta, borrador, en revisión, pendiente, en discusión, en progreso,
            proposto, proposta, rascunho, em análise, em revisão, em discussão, pendente, em
            andamento,
            bozza, in revisione, in discussione, in attesa, in corso,
            提案, 提案中, ドラフト, 下書き, 検討中, レビュー中, 議論中, 保留中, 草案, 承認待ち,
            제안, 제안됨, 초안, 검토 중, 검토중, 논의 중, 논의중, 대기, 승인 대기, 보류, 승인 보류,
            提议, 提议中, 已提议, 建议, 已提出, 草稿, 审核中, 评审中, 讨论中, 待定, 待审批, 待批准, 待审核
        """,
        "rejected": """
            rejected, reject, declined, withdrawn, abandoned, cancelled, canceled, stagnant,
            discontinued, refused, returned for revision, turned down,
            abgelehnt, verworfen, zurückgezogen, abgebrochen, gilt nicht,
            rejeté, rejetée, refusé, refusée, abandonné, abandonnée, annulé, annulée,
            rechazado, rechazada, descartado, descartada, retirado, retirada, cancelado,
            cancelada,
            rejeitado, rejeitada, recusado, recusada,
            rifiutato, rifiutata, respinto, respinta, scartato, scartata, ritirato, ritirata,
            却下, 不採用, 棄却, 取り下げ,
            거부, 거부됨, 거절, 거절됨, 기각, 기각됨, 반려, 철회, 철회됨,
            已拒绝, 拒绝, 已否决, 否决, 已驳回, 驳回, 已放弃, 已撤回
        """,
        "deprecated": """
            deprecated, deprecate, superseded, superceded, replaced, obsolete, obsoleted, retired,
            archived, reverted, revoked, expired, sunset, removed,
            veraltet, überholt, ersetzt, abgelöst, obsolet, aufgehoben, zurückgenommen,
            gilt nicht mehr,
            déprécié, dépréciée, obsolète, remplacé, remplacée, périmé, périmée, abrogé, abrogée,
            obsoleto, obsoleta, reemplazado, reemplazada, sustituido, sustituida, deprecado,
            deprecada,
            substituído, substituída, depreciado, depreciada, descontinuado, descontinuada,
            sostituito, sostituita, deprecato, deprecata,
            廃止, 廃止済み, 非推奨, 置き換え, 置換, 失効, 無効,
            폐기, 폐기됨, 대체, 대체됨, 사용 중단, 무효, 만료, 더 이상 유효하지 않음,
            已废弃, 废弃, 已弃用, 弃用, 已取代, 取代, 已替代, 已被取代, 已过时, 过时, 已失效, 失效, 无效,
            已停用, 停用, 不再使用, 不再适用, 已作废, 作废, 已废止, 废止, 被, 已被
        """,
        # What these say of the word behind them.
        "not": "not, never, nicht, nie, niemals, non, pas, jamais, no, nunca, não, mai, 未, 不, 미",
        "yet": """
            not yet, yet to be, to be, noch nicht, pas encore, aún no, todavía no, ainda não, non
            ancora, 尚未, 아직
        """,
        "over": "no longer, not any more, nicht mehr, plus, ya no, não mais, non più, 不再, 已不再",
        "aside": "aside",
        "past": """
            was, were, previously, formerly, originally, initially, once, früher, zuvor, vorher,
            anciennement, antes
        """,
        "then": """
            now, then, later, jetzt, nun, dann, maintenant, puis, ahora, luego, agora, ora, poi
        """,
        # Words in front of a status without a meaning.
        "": """
            closed, n, ne, durch, に, で, により, によって, 로, 으로,
            this, adr, decision, record, proposal, it, we, the, team, have, has, been, is, are,
            be, currently, status, and, fully, formally, partially, partly, mostly, provisionally,
            conditionally, white, check, mark, x, heavy, large, green, red, yellow, circle, diese,
            dieser, entscheidung, wurde, wird, ist, teilweise, vorläufig, cette, décision, est, a,
            été, partiellement, esta, decisión, es, está, ha, sido, parcialmente, foi, é, decisão,
            questa, decisione, è, stata, stato, parzialmente, 部分, 一部, 現在, 现, 일부, 현재
        """,
    }
)
PARTIAL = (
    r"(?i)\b(?:partly|partially|in[ -]part|only|sections?|clauses?|mostly|teilweise|nur|abschnitt"
    r"|partiellement|en partie|parcialmente|en parte|em parte|parzialmente|in parte)\b|§|部分|一部|일부"
)
_LINK = re.compile(r"\[\[[^\]\n]{1,200}\]\]|\[[^\]\n]{0,200}\]\([^)\n]{0,300}\)")
_STRUCK_TEXT = re.compile(r"~~[^~]{1,300}~~|<(del|s|strike)>[^<]{1,300}</\1>", re.IGNORECASE)
_UNCHECKED_ITEM = re.compile(r"^[ \t]*(?:[-*+][ \t]+)?\[ \].*$", re.MULTILINE)
_CHOICE_SEPARATOR = re.compile(r"\s*[|]\s*")
_BRACKETED_CHOICE_SEPARATOR = re.compile(r"\s*[|/,]\s*")
_CLAIM_MARKS = ("not", "yet", "over", "past", "then", "aside")
_ARROW = r"[-=]+>|[→➔⇒]"
# The later status follows it: `Accepted (deprecated)`, `Accepted 2024-09-10, replaced`.
_ASIDE_START = r"[(（–—,;、，；]|\s-+\s"
_DAY = r"(?:\b[a-z]{2,3}\s+)?\b\d{4}-\d\d-\d\d\b"  # `on 2024-09-10`, `am 2024-09-10`
_NON_WORDS = r"[-*_`\"'“”„:()\[\]{}#]|\b[a-z]{2,8}-\d{1,5}\b"
CLAUSE_END = r"[.;:,]\s|\(see"
# In a script without spaces a word ends there or with a form of the verb, unless the verb is
# negated: `承認されなかった`, `승인되지 않음`.
NEGATION = r"[^\W\d_]{0,6}(?:な[いかくし]|ず|ません|지\s*[않못])"
_WORD_ENDING = rf"(?!{NEGATION})(?=[^\w]|\Z|さ|し|ら|れ|済|되|됨|된|했|하)"
_MAX_LENGTH = 2000  # characters of a status count
_MAX_SHOWN = 60
_LETTER = re.compile(r"[^\W\d_]")
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_CHECK_MARK = re.compile(r"\[[xX]\]")
_PART_SEPARATOR = re.compile(r"\n\s*\n|\n(?=[ \t]*[-*+|] )")
# A mark -> the status that it makes of `accepted`; `gone` is `over` in brackets.
_NEGATED_STATUSES = {"not": "rejected", "over": "deprecated", "gone": "deprecated"}


class StatedStatus(NamedTuple):
    """A status as one of our words, `UNKNOWN`, or "" if none is stated; and as it is written."""

    status: str = ""
    written: str = ""


def strip_comments(text: str) -> str:
    """Return a text without HTML comments and struck text; its lines keep their numbers."""
    parts = []
    position = 0
    start = text.find("<!--")
    while start >= 0:
        stop = text.find("-->", start)
        if stop < 0:
            break
        parts.append(text[position:start])
        parts.append("\n" * text.count("\n", start, stop))
        position = stop + 3
        start = text.find("<!--", position)
    parts.append(text[position:])
    return _STRUCK_TEXT.sub(_keep_line_ends, "".join(parts))


def _keep_line_ends(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def parse_status(text: str, words: Words = ()) -> StatedStatus:
    """Read a status as people write it: `✅ Accepted`, `Superseded by [ADR-12](x.md)`, `abgelehnt`.

    The first paragraph with a status counts, in a log the newest entry. `words` are the project's
    own words for a status.
    """
    parts = _split_parts(text[:_MAX_LENGTH])
    if not parts:
        return StatedStatus()
    newest_entry = _find_newest_entry(parts)
    if newest_entry:
        parts.insert(0, newest_entry)
    first_line = " ".join(parts[0].split())
    written = shorten_line(first_line.strip("*_` "), _MAX_SHOWN)
    for part in parts:
        status = _parse_paragraph(part, words)
        if status:
            return StatedStatus(status, written)
    return StatedStatus(UNKNOWN, written)


def _split_parts(text: str) -> list[str]:
    """Return the paragraphs and list items of a text that may state a status."""
    text = _UNCHECKED_ITEM.sub("", strip_comments(text))
    text = _LINK.sub(" ", text)
    text = _CHECK_MARK.sub("", text)
    parts = []
    for untrimmed_part in _PART_SEPARATOR.split(text):
        part = untrimmed_part.strip()
        if _LETTER.search(part) and not _is_choice(part):
            parts.append(part)
    return parts


def _find_newest_entry(parts: list[str]) -> str:
    """Return the part with the latest date if several have one, else ""."""
    dated_parts = []
    for part in parts:
        day = _ISO_DATE.search(part)
        if day:
            dated_parts.append((day[0], part))
    if len(dated_parts) < 2:
        return ""
    _, newest_part = max(dated_parts)
    return newest_part


@lru_cache(maxsize=8)
def normalize_words(words: Words) -> Words:
    """Return a project's words in the form that is compared, without words that have no letters."""
    normalized_words = []
    for word, status in words:
        normalized = _normalize_text(word)
        if normalized:
            normalized_words.append((normalized, status))
    return tuple(normalized_words)


def _normalize_text(text: str) -> str:
    """Return a text in lower case, without marks, with arrows as `then` and brackets as `aside`."""
    text = re.sub(_ARROW, " then ", text.casefold())
    text = re.sub(_ASIDE_START, " aside ", text)
    text = re.sub(_DAY, " ", text)
    text = re.sub(_NON_WORDS, " ", text)
    return " ".join(text.split())


def is_status(text: str) -> bool:
    """Whether a text is a status and nothing else."""
    words = re.findall(r"[\w-]+", text.casefold())
    return _MEANINGS.get(" ".join(words)) in STATUSES


def _is_choice(text: str) -> bool:
    """Whether a text is a template's list of possible statuses."""
    stripped = text.strip("*_` ")
    if stripped.endswith("?"):
        return True
    separator = _CHOICE_SEPARATOR
    if stripped.startswith(("[", "{", "(", "<")) and stripped.endswith(("]", "}", ")", ">")):
        separator = _BRACKETED_CHOICE_SEPARATOR
    statuses = set()
    for part in separator.split(stripped.strip("[]{}()<>| ")):
        status = _parse_paragraph(part, ())
        if status:
            statuses.add(status)
    return len(statuses) > 1


class _Claim(NamedTuple):
    """A status in a text, and the mark in front of it, such as `not` or `then`."""

    mark: str
    status: str

    @property
    def is_replacement(self) -> bool:
        """Whether it replaces the status in front of it."""
        if self.mark == "aside":
            return self.status in ("rejected", "deprecated")
        if self.mark == "gone":
            return self.status == "accepted"
        return self.mark == "then"

    @property
    def meaning(self) -> str:
        """The status that the mark leaves: of `not yet accepted` it is `proposed`."""
        if self.mark == "yet":
            return "proposed"
        if self.mark not in _NEGATED_STATUSES:
            return self.status
        if self.status == "accepted":
            return _NEGATED_STATUSES[self.mark]
        return UNKNOWN


def _parse_paragraph(text: str, words: Words) -> str:
    """Return the status that a paragraph begins with, or ""."""
    claims = list(_iter_claims(text, words))
    if not claims:
        return ""
    claim = _find_current_claim(claims)
    clause = text
    if claim.mark != "aside":
        clause = re.split(CLAUSE_END, text, maxsplit=1)[0]
    if claim.status == "deprecated" and re.search(PARTIAL, clause):
        return "accepted"  # only a part of it was replaced
    return claim.meaning


def _find_current_claim(claims: list[_Claim]) -> _Claim:
    """Return the last status that replaces another, else the first that is not of the past."""
    current_claims = [claim for claim in claims if claim.mark != "past"]
    if not current_claims:
        current_claims = claims
    for claim in reversed(current_claims):
        if claim.is_replacement:
            return claim
    return current_claims[0]


def _iter_claims(text: str, words: Words) -> Iterator[_Claim]:
    """Yield each status that a text begins with, up to other words."""
    normalized = _normalize_text(text)
    meanings = {**_MEANINGS, **dict(words)}
    mark = ""
    last_mark = ""
    end = 0
    for match in _build_scanner(words).finditer(normalized):
        other_text = normalized[end : match.start()]
        if last_mark != "past" and _LETTER.search(other_text):
            return
        end = match.end()
        word = " ".join(match[0].split())
        kind = meanings[word]
        if kind in _CLAIM_MARKS:
            mark = "gone" if mark == "aside" and kind == "over" else kind
        elif kind:
            yield _Claim(mark, kind)
            last_mark = mark
            mark = ""


@lru_cache(maxsize=8)
def _build_scanner(words: Words) -> re.Pattern[str]:
    """Return the pattern of all words; in scripts without spaces a word may be inside text."""
    all_words = [*_MEANINGS, *dict(words)]
    all_words.sort(key=len, reverse=True)
    spaced_patterns = []
    unspaced_patterns = []
    for word in all_words:
        pattern = re.escape(word)
        if word[0] < "\u1100":
            spaced_patterns.append(pattern.replace("\\ ", r"\s+"))
            continue
        if _MEANINGS.get(word, "") in STATUSES:
            pattern += _WORD_ENDING
        unspaced_patterns.append(pattern)
    spaced = "|".join(spaced_patterns)
    unspaced = "|".join(unspaced_patterns)
    return re.compile(rf"(?<![^\W\d_])(?:{spaced})(?![^\W\d_])|{unspaced}")
