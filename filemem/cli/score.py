"""How the score of a search result came about, for `search --explain`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from filemem import query
from filemem.cli.text import Answer
from filemem.query.score import Weights

_PART_LABELS = {
    "keyword": "its words, compared with the best match for them",
    "vector": "how near its nearest passage is in meaning",
    "title": "how near its title is in meaning",
    "wording": "how well one passage has each word, or one of like meaning",
    "recency": "its age: 1 for today, half after 180 days; always 1 for a decision",
}


def iter_score_lines(hit: Answer, mode: str) -> Iterator[str]:
    """Yield how the score of a hit came about, in `mode`: hybrid, keyword or vector."""
    if "scores" in hit:
        yield from _iter_part_lines(hit["scores"], mode, hit.get("type", ""))
    else:
        yield "score   0.00: not matched itself; it replaced a decision that was"
    for word, others in hit.get("instead", {}).items():
        yield f'instead of "{word}" it says: {", ".join(others)}'


def _iter_part_lines(scores: Mapping[str, float], mode: str, kind: str) -> Iterator[str]:
    """Yield each part of a score with its weight, then the score and how it follows from them."""
    weights = _choose_weights(scores, mode)._asdict()
    parts = {name: weight for name, weight in weights.items() if weight}
    for name, weight in parts.items():
        yield f"{name:<7} {scores[name]:.2f} x {weight:.2f}: {_PART_LABELS[name]}"
    mean = sum(scores[name] * weight for name, weight in parts.items()) / sum(parts.values())
    final = scores["final"]
    difference_note = _explain_difference(final - mean, kind)
    yield f"score   {final:.2f}: the mean of these by weight is {mean:.2f}{difference_note}"


def _choose_weights(scores: Mapping[str, float], mode: str) -> Weights:
    has_meaning = any(scores[name] for name in ("vector", "title", "wording"))
    if mode == "keyword" or not has_meaning:
        return query.KEYWORD_ONLY
    return query.MEANING_ONLY if mode == "vector" else query.HYBRID


def _explain_difference(difference: float, kind: str) -> str:
    """Why a score is not the mean of its parts: see `query.score`."""
    if abs(difference) < 0.01:
        return ""
    few = "few records hold this word"
    if difference > 0:
        return f", raised to above a half: {few}"
    return ", halved: a checkpoint" if kind == "checkpoint" else f", halved: {few}, and it does not"
