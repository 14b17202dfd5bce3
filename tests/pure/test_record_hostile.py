"""No bytes make reading raise, hang or grow: one bad file never hides the others."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filemem.errors import FilememError
from filemem.record import (
    Outcome,
    amend_record,
    build_reference_index,
    build_topic_key,
    parse_edges,
    parse_record,
    render_record,
    resolve_reference,
    slugify,
)

ODD = Path(__file__).parents[2] / "fixtures" / "odd"


def header(text: str, body: str = "# Title\n") -> bytes:
    return f"---\n{text}\n---\n{body}".encode()


BOMBS: dict[str, bytes] = {
    "30 kB of brackets": header("a: " + "[" * 30_000),
    "nested mappings": header("a: " + "{a: " * 8_000),
    "nested by indentation": header("\n".join(" " * n + "a:" for n in range(300))),
    "alias bomb": header(
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "\n".join(
            f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]"
            for n in range(8)
        )
    ),
    "merge keys": header("a: &a {b: c}\n<<: *a"),
    "6,000 items": header("a: [" + "x, " * 6_000 + "]"),
    "6,000 keys": header("\n".join(f"k{n}: v" for n in range(6_000))),
    "broken and 6,000 keys": header("\n".join(f"k{n}: v" for n in range(5_000)) + "\nx: [\n"),
    "64 kB scalar": header("a: " + "x" * 65_000),
    "70 kB header": header("a: " + "x" * 70_000),
    "5,000-digit integer": header(
        "confidence: " + "9" * 5_000 + "\nmetadata: {n: " + "9" * 5_000 + "}"
    ),
    "TOML nesting": b"+++\na = " + b"[" * 30_000 + b"\n+++\n# T\n",
    "infinity": header("confidence: .inf\nmetadata: {a: .nan, b: 1e999, c: -.inf}"),
    "tags": header(
        "a: !!python/object/apply:os.system [x]\nb: !!timestamp bad\nc: !!binary ???\nd: !<x> y"
    ),
    "special keys": header(
        "yes: a\n5: b\nnull: c\n? [x]\n: d\n? {a: b}\n: e\ncontent: f\nhandler: g"
    ),
    "odd types": header(
        "id: [a]\ntype: {b: c}\ntopic: [[]]\ncreated: []\ntags: {}\nsupersedes: {a: b}\nmetadata: []"
    ),
    "utf-16": "---\nid: x\n---\n# T\n".encode("utf-16"),
    "invalid utf-8": b"---\nid: x\xff\n---\n\xc3\x28 \xed\xa0\x80\n",
    "only dashes": b"---\n" * 50_000,
    "headings": b"# a\n" * 60_000,
    "sections": b"# T\n" + b"## Outcomes\n" * 20_000,
    "open fences": b"".join(b"`" * (3 + n % 900) + b"x\n" for n in range(2_200)),
    "many fences": b"# T\n" + b"```a\n" * 200_000,
    "list markers": b"# T\n" + b"- " * 500_000 + b"```\n",
    "log": b"# T\n## Outcomes\n" + b"- 2025-01-01 failed: x\n" * 10_000,
    "log in reverse": b"# T\n## Outcomes\n"
    + b"".join(b"- 2025-01-%02d failed: %d\n" % (28 - n % 28, n) for n in range(8_000)),
    "log lines that are none": b"# T\n## Outcomes\n" + b"- nothing\n" * 90_000,
    "conflicts": b"# T\n" + b"<<<<<<< a\n=======\n>>>>>>> b\n" * 25_000,
    "setext": b"a\n=\n" * 200_000,
    "edges": b"# T\n" + b"builds_on: decision_a, " * 10_000,
    "status links": b"# T\n\n## Status\n\nSuperseded by " + b"[a](" * 200_000,
    "two megabytes": b"x" * 2_000_000,
}


def seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_read_quickly(name: str) -> None:
    data = BOMBS[name]
    small = len(data) <= 80_000
    start = time.process_time()
    parsed = parse_record(data, "decisions/bomb.md")
    spent = time.process_time() - start
    # A usual one takes 5 ms, what is not linear many seconds: a busy machine takes neither for the other.
    assert spent < (1 if small else 5), spent
    assert all(problem.line >= 1 and problem.message for problem in parsed.problems)
    assert len(parsed.problems) < 30_000
    json.dumps(parsed.record.extra if parsed.record else None)  # no bomb is passed on
    assert parsed.record is not None or len(data) > 1024 * 1024


def test_the_guard_refuses_before_a_value_exists() -> None:
    codes = {
        name: {p.code for p in parse_record(BOMBS[name], "x.md").problems if p.level == "error"}
        for name in ("30 kB of brackets", "alias bomb", "6,000 items", "70 kB header", "merge keys")
    }
    assert codes == {
        "30 kB of brackets": {"yaml-depth"},
        "alias bomb": {"yaml-alias"},
        "6,000 items": {"yaml-size"},
        "70 kB header": {"header-size"},
        "merge keys": {"yaml-alias"},
    }


def test_a_bomb_hides_no_other_key() -> None:
    data = header("id: decision_a_1_abcdefgh\ntopic: a\nbomb: " + "[" * 20_000 + "\ntags: [b]")
    record = parse_record(data, "x.md").record
    assert record is not None
    assert (record.id, record.topic) == ("decision_a_1_abcdefgh", "a")


FRAGMENTS = (
    *(
        b"---\n",
        b"+++\n",
        b"{\n",
        b"}\n",
        b"\xef\xbb\xbf",
        b"\r\n",
        b"\r",
        b"\0",
        b"\xff",
        b"\xed\xa0\x80",
    ),
    *(
        b"id: x\n",
        b"id: [\n",
        b"type: checkpoint\n",
        b"topic: a: b\n",
        b"tags: [a, b]\n",
        b"tags:\n  - a\n",
    ),
    *(
        b"outcome: failed\n",
        b"created: 2025-11-20\n",
        b"status: {accepted}\n",
        b"? x\n: y\n",
        b"&a *a: b\n",
    ),
    *(
        b"# T\n",
        b"## Outcomes\n",
        b"## Decision\n",
        b"## Status\n",
        b"## Rejected\n",
        b"T\n===\n",
        b"```\n",
    ),
    *(
        b"- 2025-01-01 failed: x\n",
        b"- x\n",
        b"  y\n",
        b"\n",
        b"<<<<<<< a\n",
        b"=======\n",
        b">>>>>>> b\n",
    ),
    *(
        b"Superseded by [1](1.md)\n",
        b"Date: 2020-01-01\n",
        b"builds_on: decision_a\n",
        b"\\# x\n",
        b"~~~\n",
    ),
)
anything = st.one_of(
    st.binary(max_size=200),
    st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.binary(max_size=8)), max_size=25).map(
        b"".join
    ),
    st.lists(st.sampled_from(FRAGMENTS), max_size=25).map(lambda parts: b"---\n" + b"".join(parts)),
)
paths = st.sampled_from(
    ("a.md", "decisions/a.md", "checkpoints/2025/a.md", "private/observations/a.md", "")
)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(anything, paths)
def test_reading_never_raises(data: bytes, path: str) -> None:
    never_raises(data, path)


@pytest.mark.long
@pytest.mark.timeout(900)
@settings(deadline=None, max_examples=20_000)
@given(anything, paths)
def test_reading_never_raises_on_many(data: bytes, path: str) -> None:
    never_raises(data, path)


def never_raises(data: bytes, path: str) -> None:
    parsed = parse_record(data, path)
    assert parsed.record is not None
    lines = data.count(b"\n") + data.count(b"\r") + 1
    assert all(1 <= problem.line <= lines + 1 for problem in parsed.problems), parsed.problems
    render_record(parsed.record)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    anything,
    paths,
    st.sampled_from(({"outcome": "failed"}, {"tags": ["a", "c"]}, {"id": None}, {})),
)
def test_amending_fails_only_in_ways_a_caller_can_act_on(
    data: bytes, path: str, keys: dict[str, object]
) -> None:
    for arguments in (
        {"keys": keys},
        {"outcome": Outcome(0, "failed", "x")},
        {"title": "N"},
        {"text": "a\n\nb"},
    ):
        try:
            changed = amend_record(data, path, **arguments)
        except FilememError:
            continue
        assert parse_record(changed, path).record is not None


@pytest.mark.parametrize(
    "call",
    [
        parse_edges,
        slugify,
        build_topic_key,
        lambda text: resolve_reference(text, build_reference_index([])),
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        "builds_on: decision_" + "a" * 1_000_000,
        "builds_on" + " \t" * 500_000 + ": decision_a",
        "builds_on: " * 90_000 + "decision_a",
        "synthesizes: [" + "decision_a, " * 80_000,
        "%41" * 300_000,
        "../" * 300_000,
        "-" * 1_000_000,
        "é\u200d" * 300_000,
    ],
    ids=lambda text: text[:12],
)
def test_a_megabyte_is_linear(call: Callable[[str], object], text: str) -> None:
    start = time.process_time()
    call(text)
    assert time.process_time() - start < 1.5


def test_the_odd_files_are_all_read() -> None:
    for file in sorted(ODD.rglob("*.md")):
        parsed = parse_record(file.read_bytes(), f"decisions/{file.name}")
        assert parsed.record is not None
        errors = [problem for problem in parsed.problems if problem.level == "error"]
        assert bool(errors) == (file.parent.name == "broken"), file.name
