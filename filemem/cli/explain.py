"""Why a hit stands where it does: a line for each part of its score, and for each word that it says otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from filemem.query.score import HYBRID, KEYWORD_ONLY, MEANING_ONLY
from filemem.record import CHECKPOINT

_PARTS = {
    "keyword": "its words, compared with the record that has them best",
    "vector": "how near its nearest passage is in meaning",
    "title": "how near its title is in meaning",
    "wording": "how well one passage has each word, or one of like meaning",
    "recency": "its age: 1 for today, half after 180 days",
}


def explained(hit: Mapping[str, Any], mode: str) -> Iterator[str]:
    """Yield how the score of a search result came about, in `mode`: hybrid, keyword or vector."""
    scores = hit.get("scores") or dict.fromkeys((*_PARTS, "final"), 0.0)
    worded = mode == "keyword" or not any(scores[name] for name in ("vector", "title", "wording"))
    weights = KEYWORD_ONLY if worded else MEANING_ONLY if mode == "vector" else HYBRID
    counted = {name: weight for name, weight in weights._asdict().items() if weight and "scores" in hit}
    for name, weight in counted.items():
        yield f"{name:<7} {scores[name]:.2f} x {weight:.2f}: {_PARTS[name]}"
    mean = sum(scores[name] * weight for name, weight in counted.items()) / (sum(counted.values()) or 1.0)
    told = f"the mean of these by weight is {mean:.2f}{_moved(scores['final'] - mean, hit.get('type', ''))}"
    yield f"score   {scores['final']:.2f}: {told if counted else 'not found itself, it holds today for one that was'}"
    for typed, said in hit.get("instead", {}).items():
        yield f'instead of "{typed}" it says: {", ".join(said)}'


def _moved(by: float, kind: str) -> str:
    """Why a score is not the mean of its parts: see `query.score`."""
    few = "few records hold this word"
    halved = "halved: a checkpoint" if kind == CHECKPOINT else f"halved: {few}, and it does not"
    return "" if abs(by) < 0.01 else f", raised to above a half: {few}" if by > 0 else f", {halved}"
