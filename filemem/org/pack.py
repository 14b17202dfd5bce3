"""What an engine keeps of a record to score and show it: texts, vectors as packed arrays.

Rule: bytes have one form, little endian, which FORMAT names in front; nothing that is read back can
run anything.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from filemem.errors import BrokenStore
from filemem.index.vectors import VectorSet
from filemem.index.words import EXACT, FIELDS, STEM
from filemem.org.engine import HEAD_MARK

FORMAT = 1
_STEMS = [name for name, (_, how, _) in FIELDS.items() if how == STEM]
_EXACT = [name for name, (_, how, _) in FIELDS.items() if how == EXACT]
_HEADER = struct.Struct("<BBHI")  # format, bytes of a token, passages, tokens


def pack_texts(card: str, tokens: Mapping[str, Sequence[str]]) -> tuple[str, bytes]:
    """Return the stems of all fields as text; the card, of one line, and exact tokens as bytes.

    The last line of the stems holds further terms by which a record is found: stems with marks, and
    exact tokens that have no stem.
    """
    other_terms: set[str] = set()
    for name in ("title_stem", "topic_stem"):
        other_terms.update(stem + HEAD_MARK for stem in tokens[name])
    for name in _EXACT:
        other_terms.update(token for token in tokens[name] if not token.isascii())
    stem_lines = [" ".join(tokens[name]) for name in _STEMS]
    stem_lines.append(" ".join(other_terms))
    lines = [card]
    lines += [" ".join(tokens[name]) for name in _EXACT]
    data = zlib.compress("\n".join(lines).encode(), 9)
    return " \n ".join(stem_lines), data


def unpack_card(data: bytes) -> str:
    """Return the card that `pack_texts` was given."""
    return zlib.decompress(data).decode().partition("\n")[0]


def unpack_tokens(stems: str, data: bytes) -> dict[str, list[str]]:
    """Return the tokens that `pack_texts` was given."""
    stem_lines = stems.split("\n")[:-1]  # without further terms
    exact_lines = zlib.decompress(data).decode().split("\n")[1:]  # without the card
    tokens = {}
    for name, line in zip(_STEMS, stem_lines, strict=True):
        tokens[name] = line.split()
    for name, line in zip(_EXACT, exact_lines, strict=True):
        tokens[name] = line.split()
    return tokens


def pack_vectors(rows: VectorSet, position: int) -> bytes:
    """Pack the vectors of the document at a position."""
    first = rows.starts[position]
    last = rows.starts[position + 1]
    counts = np.diff(rows.token_starts[first : last + 1]).astype("<u4")
    tokens = rows.tokens[rows.token_starts[first] : rows.token_starts[last]]
    floats = np.append(rows.scales[first:last], rows.title_scales[position]).astype("<f4")
    width = tokens.itemsize
    arrays = (
        counts,
        floats,
        rows.rows[first:last],
        rows.titles[position],
        tokens.astype(f"<u{width}"),
    )
    header = _HEADER.pack(FORMAT, width, last - first, len(tokens))
    return header + b"".join(array.tobytes() for array in arrays)


def unpack_vectors(data: bytes, number: int) -> VectorSet:
    """Unpack what `pack_vectors` packed, for a record of a number. Raises BrokenStore."""
    form, width, size, token_count = _HEADER.unpack_from(data)
    if form != FORMAT:
        message = f"the database holds vectors of the unknown form {form}"
        raise BrokenStore(message, "update filemem")
    counts = np.frombuffer(data, "<u4", size, _HEADER.size)
    floats_start = _HEADER.size + counts.nbytes
    floats = np.frombuffer(data, "<f4", size + 1, floats_start)
    rows_start = floats_start + floats.nbytes
    tokens_start = len(data) - width * token_count
    rows = np.frombuffer(data[rows_start:tokens_start], np.int8).reshape(size + 1, -1)
    starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    document_starts = np.array([0, size], dtype=np.int64)
    tokens = np.frombuffer(data, f"<u{width}", token_count, tokens_start)
    return VectorSet(
        np.array([number]),
        document_starts,
        starts,
        floats[:-1],
        floats[-1:],
        tokens,
        rows[:-1],
        rows[-1:],
    )
