"""Suggest names that a caller who gave an unknown name probably meant."""

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
    """Format `did you mean ...?`; without names, return `default`."""
    names = " or ".join(similar_names)
    if not names:
        return default
    return f"did you mean {names}?"


def format_closest(name: str, names: Iterable[str], default: str = "") -> str:
    """Format the most similar names as a question; without similar names, return `default`."""
    similar_names = list_similar_names(name, names, limit=2, cutoff=0.5)
    return format_question(similar_names, default)


def suggest_choice(word: str, choices: Iterable[str]) -> str:
    """Format the choice that a word probably means as a question, or list all choices."""
    names = sorted(choices)
    similar_names = list_similar_names(word[:64], names)
    for name in names:
        if word and name.startswith(f"{word}_"):
            similar_names = [name]
            break
    quoted_names = [repr(name) for name in similar_names]
    return format_question(quoted_names, f"choose one of {', '.join(names)}")
