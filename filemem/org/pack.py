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
    """Return the stems of all fields as a text; the exact tokens and the card, a line, as bytes.

    Behind the stems stands what else nominates: stems with marks, and the exact tokens that no stem
    is kept of.
    """
    stems = [" ".join(tokens[name]) for name in _STEMS]
    exact = [" ".join(tokens[name]) for name in _EXACT]
    other_terms = {token for name in _EXACT for token in tokens[name] if not token.isascii()}
    other_terms |= {
        stem + HEAD_MARK for name in ("title_stem", "topic_stem") for stem in tokens[name]
    }
    data = zlib.compress("\n".join((card, *exact)).encode(), 9)
    return " \n ".join((*stems, " ".join(other_terms))), data


def unpack_card(data: bytes) -> str:
    """Return the card that `texts` was given."""
    return zlib.decompress(data).decode().partition("\n")[0]


def unpack_tokens(stems: str, data: bytes) -> dict[str, list[str]]:
    """Return the tokens that `texts` was given."""
    names = (*_STEMS, "", "", *_EXACT)
    parts = f"{stems}\n{zlib.decompress(data).decode()}".split("\n")
    return {name: part.split() for name, part in zip(names, parts, strict=True) if name}


def pack_vectors(rows: VectorSet, position: int) -> bytes:
    """Return the vectors of one document of some as bytes."""
    first = rows.starts[position]
    last = rows.starts[position + 1]
    counts = np.diff(rows.token_starts[first : last + 1]).astype("<u4")
    tokens = rows.tokens[rows.token_starts[first] : rows.token_starts[last]]
    floats = np.append(rows.scales[first:last], rows.title_scales[position]).astype("<f4")
    parts = (
        counts,
        floats,
        rows.rows[first:last],
        rows.titles[position],
        tokens.astype(f"<u{tokens.itemsize}"),
    )
    return _HEADER.pack(FORMAT, tokens.itemsize, last - first, len(tokens)) + b"".join(
        part.tobytes() for part in parts
    )


def unpack_vectors(data: bytes, number: int) -> VectorSet:
    """Return what `packed` made, filed under a number. Raises BrokenStore: it has another form."""
    form, width, size, token_count = _HEADER.unpack_from(data)
    if form != FORMAT:
        raise BrokenStore(
            f"the database holds vectors of the unknown form {form}", "update filemem"
        )
    counts = np.frombuffer(data, "<u4", size, _HEADER.size)
    floats = np.frombuffer(data, "<f4", size + 1, offset := _HEADER.size + 4 * size)
    tokens_offset = len(data) - width * token_count
    rows = np.frombuffer(data[offset + 4 * size + 4 : tokens_offset], np.int8).reshape(size + 1, -1)
    starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    document_starts = np.array([0, size], dtype=np.int64)
    tokens = np.frombuffer(data, f"<u{width}", token_count, tokens_offset)
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
