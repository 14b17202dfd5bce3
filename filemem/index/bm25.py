"""BM25 as the disk index computes it, so that records outside of it get the scores they would have inside. Pure."""

from __future__ import annotations

from math import log

_K1, _B = 1.2, 0.75
_EXACT_LENGTHS = 40  # below this the index stores a length as it is
_OFFSET = 24


def idf(total: int, having: int) -> float:
    """Return the weight of a term that `having` of `total` documents contain."""
    return log(1 + (total - having + 0.5) / (having + 0.5))


def weight(frequency: int, length: int, average: float) -> float:
    """Return what `frequency` occurrences in a text of `length` tokens are worth, to be multiplied by `idf`."""
    norm = _K1 * (1 - _B + _B * stored_length(length) / average) if average else _K1
    return (_K1 + 1) * frequency / (frequency + norm)


def stored_length(length: int) -> int:
    """Return a length as the index remembers it: in one byte, so only its top four bits beyond 40."""
    if length < _EXACT_LENGTHS:
        return length
    above = length - _OFFSET
    low_bits = above.bit_length() - 4
    return (above >> low_bits << low_bits) + _OFFSET
