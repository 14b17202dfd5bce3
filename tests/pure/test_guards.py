"""Guards: read from a header as people write them, kept by every change, matched as whole words."""

from __future__ import annotations

import time

import pytest

from filemem.errors import Conflict
from filemem.index.document import parse_card, to_plain
from filemem.record import parse_record, render_record
from filemem.record.amend import amend_record
from filemem.record.breaks import MAX_BREAKS, list_breaks
from filemem.record.guards import Guard, parse_guards
from filemem.record.lint import lint_record

HEAD = "---\nid: decision_a_1_abcdefgh\ntype: decision\ntopic: a\ncreated: 2025-11-20\n"
BLOCK = (
    HEAD
    + "guards:\n  # one process\n  - in: [src/**, '!src/old/**']\n    forbid: import redis\n"
    + "  - dependency: redis # none\n---\n# Use A\n\nWhy.\n"
)
FLOW = HEAD + "guards: [{forbid: import redis, in: src/**}]\n---\n# Use A\n\nWhy.\n"


def test_a_guard_is_read_as_it_is_written() -> None:
    record, problems = parse_record(BLOCK.encode(), "a.md")
    assert record is not None
    assert not problems
    assert record.guards == (
        Guard(forbid="import redis", stated_globs=("src/**", "!src/old/**")),
        Guard(dependency="redis"),
    )
    assert record.guards[0].globs == ("src/**", "!src/old/**")
    assert "**/package.json" in record.guards[1].globs
    again = parse_record(render_record(record), "a.md").record
    assert again is not None
    assert again.guards == record.guards
    import json

    assert parse_card(json.dumps(to_plain(record), default=str)).guards == record.guards


def test_a_change_of_another_key_keeps_every_byte_of_the_guards() -> None:
    changed = amend_record(BLOCK.encode(), "a.md", keys={"tags": ["x"]}).decode()
    assert changed.replace("tags: [x]\n", "") == BLOCK
    other = [{"dependency": "jedis"}]
    assert (
        "guards: [{dependency: jedis}]\n"
        in amend_record(FLOW.encode(), "a.md", keys={"guards": other}).decode()
    )
    assert "guards" not in amend_record(FLOW.encode(), "a.md", keys={"guards": None}).decode()
    assert amend_record(
        FLOW.encode(), "a.md", keys={"guards": [{"forbid": "import redis", "in": "src/**"}]}
    )
    with pytest.raises(Conflict, match="comments"):
        amend_record(BLOCK.encode(), "a.md", keys={"guards": other})


@pytest.mark.parametrize(
    ("guards", "sentence"),
    [
        ("yes", "begin each guard with `- `"),
        ("[word]", "guard 1: write `forbid: TEXT`"),
        ("[{dependency: a}, {forbid: x}]", "guard 2: `in` must name the files"),
        ("[{forbid: x, in: '!src/**'}]", "guard 1: `in` must name the files"),
        ("[{in: src/**}]", "guard 1: state one of forbid, require, dependency"),
        ("[{forbid: x, require: y, in: a}]", "guard 1: state one of"),
        ("[{forbidden: x, in: a}]", "guard 1: forbidden is unknown"),
        ("[{forbid: '', in: a}]", "guard 1: forbid must be text of one line"),
        ('[{forbid: "a\\nb", in: a}]', "guard 1: forbid must be text of one line"),
        ("[{forbid: [a], in: a}]", "guard 1: forbid must be text of one line"),
        (f"[{{forbid: {'x' * 1_000}, in: a}}]", "guard 1: forbid must be text of one line"),
        ("[{forbid: x, in: [[a]]}]", "guard 1: in must be text of one line"),
        ("[{dependency: requests>=2}]", "guard 1: no package is named requests>=2"),
        (f"[{', '.join(['{dependency: a}'] * 51)}]", "at most 50 guards, not 51"),
    ],
)
def test_lint_says_what_is_wrong_with_a_guard_and_on_which_line(guards: str, sentence: str) -> None:
    record, problems = lint_record(f"{HEAD}guards: {guards}\n---\n# Use A\n".encode(), "a.md")
    assert record is not None
    assert not record.guards
    [problem] = problems
    assert (problem.line, problem.code, problem.level) == (6, "bad-guards", "warning")
    assert sentence in problem.message
    assert problem.message.startswith("guards cannot be read: ")
    assert "must be a list" not in problem.message


@pytest.mark.parametrize(
    ("literal", "text", "lines"),
    [
        ("import redis", "import os\n  import redis # x\nimport redis, redis\n", [2, 3]),
        ("import redis", "import redis_lock\nreimport redis\n", []),
        ("print(", "pprint(1)\nprint(1)\n", [2]),
        ("requests.", "myrequests.get\nrequests.get\n", [2]),
        ("café", "x\ncafé\ncafés\n", [2]),
        ("a.b", "axb\n", []),
        ("x", "x", [1]),
    ],
)
def test_a_forbidden_text_is_found_as_whole_words(
    literal: str, text: str, lines: list[int]
) -> None:
    guard = Guard(forbid=literal, stated_globs=("**",))
    assert [place.line for place in list_breaks(guard, "a.py", text)] == lines
    wanted = Guard(require=literal, stated_globs=("**",))
    assert [place.line for place in list_breaks(wanted, "a.py", text)] == ([] if lines else [1])


def test_a_literal_of_a_hundred_kilobytes_is_refused_with_its_header() -> None:
    text = f"{HEAD}guards: [{{forbid: {'x' * 100_000}, in: a}}]\n---\n# Use A\n"
    record, problems = lint_record(text.encode(), "a.md")
    assert record is None or not record.guards
    assert "header-size" in {problem.code for problem in problems}


def test_a_dependency_is_found_in_manifests_alone() -> None:
    [guard] = parse_guards([{"dependency": "Redis"}])
    text = '{"dependencies": {\n"redis": "1"}}'
    assert [place[1:] for place in list_breaks(guard, "web/package.json", text)] == [(2, "redis")]
    assert list_breaks(guard, "web/other.json", text) == []


@pytest.mark.parametrize(
    "name",
    [
        "left-pad",
        "@acme/ui",
        "typing_extensions",
        "a.b:c-d",
        "github.com/x/y/v9",
        "golang.org/x/~a",
    ],
)
def test_the_name_of_a_package_is_taken_as_manifests_write_it(name: str) -> None:
    assert parse_guards([{"dependency": name}]) == (Guard(dependency=name),)


@pytest.mark.parametrize(
    "name",
    ["requests>=2", "npm:react@18", "npm:react", "react@18", "a,b", "a b", "a[x]", "**", "a/", "@"],
)
def test_what_no_package_is_named_is_refused_with_the_way_out(name: str) -> None:
    with pytest.raises(ValueError, match="without version, extras or registry"):
        parse_guards([{"dependency": name}])


def test_a_key_guard_is_read_as_guards() -> None:
    data = FLOW.replace("guards:", "guard:").encode()
    record, problems = parse_record(data, "a.md")
    assert record is not None
    assert record.guards == (Guard(forbid="import redis", stated_globs=("src/**",)),)
    assert not problems
    changed = amend_record(data, "a.md", keys={"guards": [{"dependency": "redis"}]})
    again = parse_record(changed, "a.md").record
    assert again is not None
    assert again.guards == (Guard(dependency="redis"),)


def test_long_texts_cost_little() -> None:
    began = time.process_time()
    for literal, text in (
        ("x", "x\n" * 500_000),
        ("a" * 300, "a" * 1_000_000),
        ("\\(a+)+$", "a" * 10**6),
    ):
        assert (
            len(list_breaks(Guard(forbid=literal, stated_globs=("**",)), "a.py", text))
            <= MAX_BREAKS
        )
    assert time.process_time() - began < 2
