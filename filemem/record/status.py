"""What the status of a decision is: from the text that a person wrote to one of our words.

A status that is there and is not understood is `unknown`, and never holds.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from filemem.record.lines import shorten_line
from filemem.record.model import STATUSES, UNKNOWN

Words = tuple[tuple[str, str], ...]  # of a project's settings: a word, and ours


def index_words(table: Mapping[str, str]) -> dict[str, str]:
    """Return what each word means: a table has the words of each meaning, parted by commas."""
    return {
        " ".join(word.split()): meaning
        for meaning, words in table.items()
        for word in words.split(",")
    }


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
        # What may stand in front of a status and says nothing.
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
# Behind it stands what became of it: `Accepted (deprecated)`, `Accepted 2024-09-10, replaced`.
_ASIDE_START = r"[(（–—,;、，；]|\s-+\s"
_DAY = r"(?:\b[a-z]{2,3}\s+)?\b\d{4}-\d\d-\d\d\b"  # `on 2024-09-10`, `am 2024-09-10`
_NON_WORDS = r"[-*_`\"'“”„:()\[\]{}#]|\b[a-z]{2,8}-\d{1,5}\b"
CLAUSE_END = r"[.;:,]\s|\(see"
# A word of a script without spaces ends there, or goes on with a form of the verb.
# Nor does it where the verb says no: `承認されなかった`, `승인되지 않음`.
NEGATION = r"[^\W\d_]{0,6}(?:な[いかくし]|ず|ません|지\s*[않못])"
_WORD_ENDING = rf"(?!{NEGATION})(?=[^\w]|\Z|さ|し|ら|れ|済|되|됨|된|했|하)"
_MAX_LENGTH = 2000  # characters of a status count
_MAX_SHOWN = 60


class StatedStatus(NamedTuple):
    """A status: one of our words, `UNKNOWN`, or "" where none is stated; and how it is written."""

    status: str = ""
    written: str = ""


def strip_comments(text: str) -> str:
    """Return a text without HTML comments and struck text; its lines keep their numbers."""
    parts = []
    position = 0
    while (start := text.find("<!--", position)) >= 0:
        stop = text.find("-->", start)
        if stop < 0:
            break
        parts += [text[position:start], "\n" * text.count("\n", start, stop)]
        position = stop + 3
    return _STRUCK_TEXT.sub(
        lambda match: "\n" * match[0].count("\n"), "".join((*parts, text[position:]))
    )


def parse_status(text: str, words: Words = ()) -> StatedStatus:
    """Read a status as people write it: `✅ Accepted`, `Superseded by [ADR-12](x.md)`, `abgelehnt`.

    The first paragraph that is a status counts, in a log the newest entry. `words` are those of the
    project's settings.
    """
    text = _UNCHECKED_ITEM.sub("", strip_comments(text[:_MAX_LENGTH]))
    text = re.sub(r"\[[xX]\]", "", _LINK.sub(" ", text)) if "[" in text else text
    parts = [part.strip() for part in re.split(r"\n\s*\n|\n(?=[ \t]*[-*+|] )", text)]
    parts = [part for part in parts if re.search(r"[^\W\d_]", part) and not _is_choice(part)]
    if not parts:
        return StatedStatus()
    dated_parts = [(day[0], part) for part in parts if (day := re.search(r"\d{4}-\d\d-\d\d", part))]
    if len(dated_parts) > 1:
        parts.insert(0, max(dated_parts)[1])
    written = shorten_line(" ".join(parts[0].split()).strip("*_` "), _MAX_SHOWN)
    status = next((status for part in parts if (status := _parse_paragraph(part, words))), UNKNOWN)
    return StatedStatus(status, written)


@lru_cache(maxsize=8)
def normalize_words(words: Words) -> Words:
    """Return a project's words as a status is compared; without those that have no letters."""
    return tuple((plain, ours) for word, ours in words if (plain := _normalize_text(word)))


def _normalize_text(text: str) -> str:
    """Return a text in small letters, without marks, arrows as `then`, brackets as `aside`."""
    text = re.sub(_ASIDE_START, " aside ", re.sub(_ARROW, " then ", text.casefold()))
    text = re.sub(_DAY, " ", text)
    text = re.sub(_NON_WORDS, " ", text)
    return " ".join(text.split())


def is_status(text: str) -> bool:
    """Whether a text is a status and nothing else."""
    normalized = " ".join(re.findall(r"[\w-]+", text.casefold()))
    return _MEANINGS.get(normalized) in STATUSES


def _is_choice(text: str) -> bool:
    """Whether a template lists here what a status may be."""
    stripped = text.strip("*_` ")
    if stripped.endswith("?"):
        return True
    is_bracketed = stripped[:1] in ("[", "{", "(", "<") and stripped[-1:] in ("]", "}", ")", ">")
    parts = (_BRACKETED_CHOICE_SEPARATOR if is_bracketed else _CHOICE_SEPARATOR).split(
        stripped.strip("[]{}()<>| ")
    )
    return len({_parse_paragraph(part, ()) for part in parts} - {""}) > 1


class _Claim(NamedTuple):
    """A status in a text, and the mark in front of it, such as `not` or `then`."""

    mark: str
    status: str

    @property
    def is_replacement(self) -> bool:
        """Whether it took the place of the one in front of it."""
        if self.mark == "aside":
            return self.status in ("rejected", "deprecated")
        return self.mark == "then" or self == ("gone", "accepted")

    @property
    def meaning(self) -> str:
        """What is left of the status behind `not`, `not yet` or `no longer`."""
        if self.mark == "yet":
            return "proposed"
        negated_status = {"not": "rejected", "over": "deprecated", "gone": "deprecated"}.get(
            self.mark
        )
        if negated_status is None:
            return self.status
        return negated_status if self.status == "accepted" else UNKNOWN


def _parse_paragraph(text: str, words: Words) -> str:
    """Return the status that a paragraph begins with, or "" where it begins with none."""
    claims = list(_iter_claims(text, words))
    if not claims:
        return ""
    current_claims = [claim for claim in claims if claim.mark != "past"] or claims
    last_claim = next(
        (claim for claim in current_claims[::-1] if claim.is_replacement), current_claims[0]
    )
    clause = text if last_claim.mark == "aside" else re.split(CLAUSE_END, text, maxsplit=1)[0]
    is_partial = last_claim.status == "deprecated" and re.search(PARTIAL, clause)
    return "accepted" if is_partial else last_claim.meaning


def _iter_claims(text: str, words: Words) -> Iterator[_Claim]:
    """Yield each status that a text begins with, up to other words."""
    normalized = _normalize_text(text)
    meanings = {**_MEANINGS, **dict(words)}
    mark = last_mark = ""
    end = 0
    for match in _build_scanner(words).finditer(normalized):
        if last_mark != "past" and re.search(r"[^\W\d_]", normalized[end : match.start()]):
            return
        end = match.end()
        kind = meanings[" ".join(match[0].split())]
        if kind in _CLAIM_MARKS:
            mark = "gone" if (mark, kind) == ("aside", "over") else kind
        elif kind:
            yield _Claim(mark, kind)
            last_mark = mark
            mark = ""


@lru_cache(maxsize=8)
def _build_scanner(words: Words) -> re.Pattern[str]:
    """Return what finds the words of the table; those of scripts without spaces stand anywhere."""
    all_words = sorted((*_MEANINGS, *dict(words)), key=len, reverse=True)
    spaced_pattern = "|".join(
        re.escape(word).replace("\\ ", r"\s+") for word in all_words if word[0] < "\u1100"
    )
    unspaced_pattern = "|".join(
        re.escape(word) + ("" if _MEANINGS.get(word, "") in ("", *_CLAIM_MARKS) else _WORD_ENDING)
        for word in all_words
        if word[0] >= "\u1100"
    )
    return re.compile(rf"(?<![^\W\d_])(?:{spaced_pattern})(?![^\W\d_])|{unspaced_pattern}")
