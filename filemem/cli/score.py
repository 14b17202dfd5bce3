"""Explain the score of a search result, for `search --explain`."""

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
    """Yield lines that explain the score of a hit; `mode` is hybrid, keyword or vector."""
    if "scores" in hit:
        yield from _iter_part_lines(hit["scores"], mode, hit.get("type", ""))
    else:
        yield "score   0.00: not matched itself; it replaced a decision that was"
    for word, other_words in hit.get("instead", {}).items():
        yield f'instead of "{word}" it says: {", ".join(other_words)}'


def _iter_part_lines(scores: Mapping[str, float], mode: str, record_type: str) -> Iterator[str]:
    """Yield each part of a score with its weight, then the score and how it was computed."""
    weights = _choose_weights(scores, mode)._asdict()
    weighted_sum = 0.0
    for name, weight in weights.items():
        if not weight:
            continue
        weighted_sum += scores[name] * weight
        yield f"{name:<7} {scores[name]:.2f} x {weight:.2f}: {_PART_LABELS[name]}"
    mean = weighted_sum / sum(weights.values())
    final = scores["final"]
    difference_note = _explain_difference(final - mean, record_type)
    yield f"score   {final:.2f}: the mean of these by weight is {mean:.2f}{difference_note}"


def _choose_weights(scores: Mapping[str, float], mode: str) -> Weights:
    has_meaning = scores["vector"] or scores["title"] or scores["wording"]
    if mode == "keyword" or not has_meaning:
        return query.KEYWORD_ONLY
    if mode == "vector":
        return query.MEANING_ONLY
    return query.HYBRID


def _explain_difference(difference: float, record_type: str) -> str:
    """Explain why a score is not the mean of its parts: `query.score` has the rules."""
    if abs(difference) < 0.01:
        return ""
    if difference > 0:
        return ", raised to above a half: few records hold this word"
    if record_type == "checkpoint":
        return ", halved: a checkpoint"
    return ", halved: few records hold this word, and it does not"
