"""The words of the index: the only package that knows Tantivy.

Rule: user text is analysed and looked up, never parsed; and what Tantivy throws, panics included, leaves here as
`IndexDamaged`.
"""

from filemem.index.keyword.layout import KEY, PATH, READING, Stored, analyze, key, term_field
from filemem.index.keyword.words import (
    Match,
    Restriction,
    Words,
    both,
    either,
    everything,
    must,
    must_not,
    should,
)

__all__ = [
    "KEY",
    "PATH",
    "READING",
    "Match",
    "Restriction",
    "Stored",
    "Words",
    "analyze",
    "both",
    "either",
    "everything",
    "key",
    "must",
    "must_not",
    "should",
    "term_field",
]
