"""How text becomes what is indexed and asked for, before any word is cut. Pure.

Scripts written without spaces are read character by character, in place, so that any part of a run can be found as
a phrase; word tokenizers alone would take a whole sentence for one word, or throw it away as overlong.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

# Thai, Lao, Myanmar, Khmer, kana, Bopomofo, Hangul, Han with their extensions
UNSPACED_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035"
    "\u3040-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)


@cache
def _run() -> re.Pattern[str]:
    return re.compile(f"[{UNSPACED_SCRIPTS}]+")  # 5 ms, which plain English need not pay


@cache
def _character() -> re.Pattern[str]:
    return re.compile(f"[{UNSPACED_SCRIPTS}]")


def normal(text: str) -> str:
    """Return the form in which all text is read: NFKC, so that wide and half-width letters are one; no surrogates."""
    return unicodedata.normalize("NFKC", clean(text))


def clean(text: str) -> str:
    """Return a text that can be written as UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def spread(text: str) -> str:
    """Return a normal text with every character of an unspaced script standing alone."""
    return text if text.isascii() else _character().sub(r" \g<0> ", text)


def spaced(text: str) -> str:
    """Return a normal text without the scripts that have no spaces."""
    return text if text.isascii() else _run().sub(" ", text)


def runs(text: str) -> list[str]:
    """Return the runs of scripts without spaces in a normal text."""
    return [] if text.isascii() else _run().findall(text)
