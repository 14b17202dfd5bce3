"""Hints at what a name that means nothing probably meant."""

from __future__ import annotations

from collections.abc import Iterable

NOTHING_YET = "nothing is saved yet"
LONGEST = 500  # characters of a name that are compared


def alike(name: str, names: Iterable[str], most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the names most similar to a word, the closest first.

    `cutoff` is difflib's ratio, 0 to 1.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - for a wrong word only

    return get_close_matches(name[:LONGEST], list(names), n=most, cutoff=cutoff)


def did_you_mean(near: Iterable[str], otherwise: str = "") -> str:
    """Return `did you mean ...?`; `otherwise` if nothing is near."""
    names = " or ".join(near)
    return f"did you mean {names}?" if names else otherwise


def closest(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """Return the names that are most similar as a question; `otherwise` if none is."""
    return did_you_mean(alike(name, names, 2, 0.5), otherwise)


def suggest(word: str, choices: Iterable[str]) -> str:
    """Return the choice that a word probably means, or the list of all choices."""
    names = sorted(choices)
    longer = [name for name in names if word and name.startswith(f"{word}_")]
    near = longer[:1] or alike(word[:64], names)
    return did_you_mean(map(repr, near), f"choose one of {', '.join(names)}")
