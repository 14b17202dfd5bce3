"""Hints at what a name that means nothing probably meant."""

from __future__ import annotations

from collections.abc import Iterable

NOTHING_YET = "nothing is saved yet"
MAX_NAME_LENGTH = 500  # characters of a name that are compared


def list_similar_names(
    name: str, names: Iterable[str], limit: int = 1, cutoff: float = 0.6
) -> list[str]:
    """Return the names most similar to a word, the closest first.

    `cutoff` is difflib's ratio, 0 to 1.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - for a wrong word only

    return get_close_matches(name[:MAX_NAME_LENGTH], list(names), n=limit, cutoff=cutoff)


def format_question(similar_names: Iterable[str], default: str = "") -> str:
    """Return `did you mean ...?`; `otherwise` if nothing is near."""
    names = " or ".join(similar_names)
    return f"did you mean {names}?" if names else default


def format_closest(name: str, names: Iterable[str], default: str = "") -> str:
    """Return the names that are most similar as a question; `otherwise` if none is."""
    return format_question(list_similar_names(name, names, 2, 0.5), default)


def suggest_choice(word: str, choices: Iterable[str]) -> str:
    """Return the choice that a word probably means, or the list of all choices."""
    names = sorted(choices)
    longer_names = [name for name in names if word and name.startswith(f"{word}_")]
    similar_names = longer_names[:1] or list_similar_names(word[:64], names)
    return format_question(map(repr, similar_names), f"choose one of {', '.join(names)}")
