"""Lists of synonyms: what a line means, what is malformed, and what may be said instead of the words of a query."""

from __future__ import annotations

import pytest

from filemem.query.terms import (
    KIND_WEIGHT,
    MAX_LINES,
    MAX_LIST_SIZE,
    Alternative,
    build_synonyms,
    list_alternatives,
    parse_groups,
)


def key(phrase: str) -> tuple[str, ...]:
    return tuple(word.removesuffix("s") for word in phrase.casefold().split())


def said(text: str, query: str, *more: str) -> dict[str, list[tuple[str, float]]]:
    lists = [build_synonyms(one, key) for one in (text, *more)]
    return {
        " ".join(each.words): list(each.substitutes)
        for each in list_alternatives(query.split(), lists, key)
    }


def test_a_group_means_the_same_and_has_kinds() -> None:
    text = "cache | memoize > redis, varnish\n\n# a comment\n"
    assert said(text, "a cache") == {
        "cache": [("memoize", 1.0), ("redis", KIND_WEIGHT), ("varnish", KIND_WEIGHT)]
    }
    assert said(text, "redis") == {"redis": [("cache", KIND_WEIGHT), ("memoize", KIND_WEIGHT)]}
    assert said(text, "nothing of it") == {}


def test_the_longest_phrase_is_meant_and_forms_of_a_word_are_one() -> None:
    text = "sign in | log in\nsign | signature\npull request | merge request"
    assert said(text, "how do users sign in") == {"sign in": [("log in", 1.0)]}
    assert said(text, "who may sign") == {"sign": [("signature", 1.0)]}
    assert said(text, "Pull Requests") == {"Pull Requests": [("merge request", 1.0)]}
    assert said("user | users", "user") == {}


def test_a_list_of_the_project_goes_first_and_both_count() -> None:
    assert said("cache | hoard", "cache", "cache | memoize") == {
        "cache": [("hoard", 1.0), ("memoize", 1.0)]
    }


@pytest.mark.parametrize(
    "line", ["alone", "a |", "| b", "a > ", "a | b > c,,d", "... | !!", "a b c d e | f", "a" * 99]
)
def test_a_malformed_line_is_named_and_passed_over(line: str) -> None:
    found, wrong = parse_groups(f"# first\n{line}\nleft | right\n")
    assert (found, wrong) == ([(["left", "right"], [])], [2])


def test_what_a_stranger_wrote_is_read_within_limits() -> None:
    assert len(parse_groups("a | b\n" * (MAX_LINES + 9))[0]) == MAX_LINES
    assert parse_groups("x" * MAX_LIST_SIZE + "\na | b") == ([], [1])
    many = build_synonyms("\n".join(f"word | other{at}" for at in range(99)), key)
    assert len(many[("word",)]) == 12
    assert list_alternatives((), [many], key) == ()
    assert list_alternatives(("word",), [many], key)[0] == Alternative(("word",), many[("word",)])
