"""Updates change only the lines they must. The test for that is the diff."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filemem.errors import BadInput, Conflict
from filemem.record import Outcome, Record, amend_record, parse_record, render_record

ODD = Path(__file__).parents[2] / "fixtures" / "odd"
GOOD = sorted(path.relative_to(ODD).as_posix() for path in ODD.glob("*.md"))
BROKEN = sorted(path.relative_to(ODD).as_posix() for path in ODD.glob("broken/*.md"))
WHEN = 1764062043000
FAILED = Outcome(WHEN, "failed", "evicts too early under load")
LOG_LINE = b"2025-11-25T09:14:03Z failed: evicts too early under load"
LINES = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def changes(old: bytes, new: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the lines that went and the lines that came, line ends included."""
    before, after = LINES.findall(old), LINES.findall(new)
    gone: list[bytes] = []
    come: list[bytes] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(
        None, before, after, autojunk=False
    ).get_opcodes():
        if tag != "equal":
            gone += before[a:b]
            come += after[c:d]
    return gone, come


def stripped(lines: list[bytes]) -> list[bytes]:
    return [line.rstrip(b"\r\n") for line in lines]


def read(data: bytes, name: str) -> Record:
    parsed = parse_record(data, f"decisions/{name}")
    assert parsed.record is not None
    return parsed.record


def ends(data: bytes) -> set[bytes]:
    return {match[0] for match in re.finditer(rb"\r\n|\r|\n", data)}


REFUSED: Mapping[str, str] = {
    "toml.md": "TOML",
    "json.md": "JSON",
    "braces.md": "braces",
    "checkpoint.md": "only decisions",
    "observation.md": "only decisions",
    "explicit-key.md": "start its line",
}


@pytest.mark.parametrize("name", [name for name in GOOD if name not in REFUSED])
def test_an_outcome_touches_only_its_lines(name: str) -> None:
    old = (ODD / name).read_bytes()
    new = amend_record(old, f"decisions/{name}", outcome=FAILED)
    before, after = read(old, name), read(new, name)
    assert after.outcome == "failed"
    assert after.outcomes[-1] == FAILED
    assert after.outcomes[:-1] == before.outcomes or FAILED.at == before.outcomes[-1].at
    gone, come = changes(old, new)
    mended = [line for line in gone if line + b"\n" in come or line + b"\r\n" in come]  # had no end
    assert len(mended) <= (0 if old.endswith((b"\n", b"\r")) else 1)
    for line in gone:
        assert b"outcome" in line or line in mended
    allowed = (b"outcome", b"'outcome", b'"outcome', b"  outcome", b"---", b"## Outcomes")
    for line in stripped(come):
        fresh = line.startswith(allowed) or LOG_LINE in line or not line
        assert fresh or line in stripped(mended), (name, line)
    assert sum(LOG_LINE in line for line in come) == 1
    if ends(old):
        assert ends(new) <= ends(old)
        assert new.endswith((b"\n", b"\r")) == old.endswith((b"\n", b"\r"))
    assert new.startswith(b"\xef\xbb\xbf") == old.startswith(b"\xef\xbb\xbf")


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_cannot_be_amended_says_why(name: str) -> None:
    old = (ODD / name).read_bytes()
    with pytest.raises((Conflict, BadInput), match=REFUSED[name]):
        amend_record(old, name, outcome=FAILED)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_with_file_and_line(name: str) -> None:
    old = (ODD / name).read_bytes()
    expected = next(p for p in parse_record(old, name).problems if p.level == "error")
    with pytest.raises(BadInput, match=re.escape(f"{name}:{expected.line}: ")) as raised:
        amend_record(old, name, outcome=FAILED)
    assert raised.value.hint


def test_a_change_that_no_reader_would_take_names_the_field() -> None:
    old = render_record(
        Record(
            id="decision_t_1_k3f9w2ma",
            type="decision",
            created=1,
            topic="t",
            title="T",
            affects=("a",) * 90,
        )
    )
    for keys, why in (
        (
            {"tags": [f"{n} {'x' * 490}" for n in range(190)]},
            "larger than 64 KiB; the largest field is tags",
        ),
        ({"zz": [[[["x"]]]] * 2000}, "YAML events; the largest field is zz"),
    ):
        with pytest.raises(BadInput, match=why) as raised:
            amend_record(old, "x.md", keys=keys)
        assert raised.value.field in keys


@pytest.mark.parametrize(
    ("mark", "encoding"), [("\ufeff", "utf-16-le"), ("\ufeff", "utf-16-be"), ("", "utf-16-le")]
)
def test_a_file_in_utf_16_is_not_amended(mark: str, encoding: str) -> None:
    data = f"{mark}# Use SQLite\n\nOne file.\n".encode(encoding)
    with pytest.raises(BadInput, match="UTF-16") as raised:
        amend_record(data, "x.md", outcome=FAILED)
    assert "UTF-8" in raised.value.hint
    parsed = parse_record(data, "x.md")
    assert ("encoding", "error") in [(problem.code, problem.level) for problem in parsed.problems]
    assert not mark or read(data, "x.md").title == "Use SQLite"


def test_a_file_in_latin_1_is_not_amended() -> None:
    with pytest.raises(BadInput, match=r"x.md:1: not UTF-8"):
        amend_record("# Größe\n".encode("latin-1"), "x.md", outcome=FAILED)


KEY_CHANGES: tuple[Mapping[str, Any], ...] = (
    {"outcome": "success"},
    {"confidence": 0.5},
    {"status": "deprecated"},
    {"limitation": "not for: more\nthan one # process"},
    {"tags": ["performance", "ops", "third, with comma"]},
    {"tags": ["ops"]},
    {"tags": []},
    {"supersedes": ["decision_cache_1761300000456_x7q2c0ne"]},
    {
        "supersedes": [
            "decision_cache_1761300000456_x7q2c0ne",
            "decision_cache_1762300000456_y8r3d1pf",
            "decision_cache_1763300000456_z9s4e2qg",
        ]
    },
    {"affects": ["src/**/*.py"]},
    {"zz_unknown": "kept"},
    {"outcome": None},
    {"tags": None},
    {"absent": None},
)


@pytest.mark.parametrize(
    "name", [name for name in GOOD if name not in ("toml.md", "json.md", "braces.md")]
)
def test_a_key_touches_only_its_lines(name: str) -> None:
    for keys in KEY_CHANGES:
        touches_only_its_lines(name, keys)


def touches_only_its_lines(name: str, keys: Mapping[str, Any]) -> None:
    """Change a key of a file; see that nothing else changed."""
    old = (ODD / name).read_bytes()
    ((key, value),) = keys.items()
    try:
        new = amend_record(old, f"decisions/{name}", keys=keys)
    except Conflict:
        assert (name, key) in {
            ("block-lists.md", "supersedes"),
            ("flow-lists.md", "tags"),
            ("explicit-key.md", "outcome"),
            *((f"{other}.md", "status") for other in ("nygard", "nygard-crlf", "madr-2")),
        }
        return
    record = read(new, name)
    outcomes = record.outcomes
    if key in ("confidence", "status", "limitation"):
        assert getattr(record, key) == value
    elif key in ("tags", "supersedes", "affects"):
        foreign = ["0003-use-redis.md"] if name.startswith("nygard") and key == "supersedes" else []
        assert list(getattr(record, key) or ()) == (value or []) + foreign
    elif key == "outcome" and not outcomes:
        assert record.outcome == (value or "pending")
    elif key == "zz_unknown":
        assert record.extra[key] == "kept"
    gone, come = changes(old, new)
    for line in stripped(come):
        known = key.encode() in line or line in (
            b"---",
            b"Deprecated",
        )  # the status of a file that states it in its text
        assert known or line.lstrip().startswith((b"- ", b"performance", b"ops"))
    for line in gone:
        folded = (name == "folded.md" and key == "limitation") or line.strip() == b"Accepted"
        assert (
            folded
            or key.encode() in line
            or line.lstrip().startswith((b"- ", b"performance", b"ops", b"]"))
        )
    if value is None:
        assert not come


def test_comments_and_layout_survive() -> None:
    old = (ODD / "comments.md").read_bytes()
    new = amend_record(
        old, "comments.md", keys={"outcome": "failed", "confidence": 0.9, "status": "deprecated"}
    )
    gone, come = changes(old, new)
    assert gone == [
        b"status: accepted   # see the meeting notes\n",
        b"outcome:   # not known yet\n",
    ]
    assert come == [
        b"status: deprecated   # see the meeting notes\n",
        b"confidence: 0.9\n",
        b"outcome: failed   # not known yet\n",
    ]


def test_list_items_keep_their_lines() -> None:
    old = (ODD / "block-lists.md").read_bytes()
    three = [
        "decision_cache_1761300000456_x7q2c0ne",
        "decision_cache_1762300000456_y8r3d1pf",
        "decision_c_1_zzzzzzzz",
    ]
    new = amend_record(
        old, "block-lists.md", keys={"supersedes": three, "affects": ["src/cache/*.py"]}
    )
    gone, come = changes(old, new)
    assert gone == [b"- src/cache/lru.py\n"]
    assert come == [b"  - decision_c_1_zzzzzzzz\n"]
    old = (ODD / "flow-lists.md").read_bytes()
    new = amend_record(
        old, "flow-lists.md", keys={"tags": ["performance", "ops", "new"], "affects": ["a.py"]}
    )
    gone, come = changes(old, new)
    assert gone == [b"  ops,\n", b"affects: []\n"]
    assert come == [b"  ops, new,\n", b"affects: [a.py]\n"]


def test_line_ends_follow_the_neighbour() -> None:
    for name, end in (("crlf.md", b"\r\n"), ("cr-only.md", b"\r")):
        new = amend_record(
            (ODD / name).read_bytes(), name, outcome=FAILED, keys={"confidence": 0.5}, title="Other"
        )
        assert ends(new) == {end}
    mixed = (ODD / "mixed-ends.md").read_bytes()
    gone, come = changes(
        mixed, amend_record(mixed, "mixed-ends.md", title="Other", text="New text.")
    )
    assert [line[-2:] == b"\r\n" for line in gone] == [line[-2:] == b"\r\n" for line in come]


@pytest.mark.parametrize("name", [name for name in GOOD if name != "title-key.md"])
def test_a_title_touches_only_the_heading(name: str) -> None:
    old = (ODD / name).read_bytes()
    path = f"decisions/{name}"
    new = amend_record(old, path, title="Another name for it")
    before, after = read(old, name), read(new, name)
    assert after.title == "Another name for it"
    gone, come = changes(old, new)
    assert len([line for line in come if line.strip()]) <= 2
    assert all(before.title.encode() in line or not line.endswith((b"\n", b"\r")) for line in gone)


def test_a_stated_title_is_changed_where_it_stands() -> None:
    old = (ODD / "title-key.md").read_bytes()
    gone, come = changes(old, amend_record(old, "title-key.md", title="Use: none"))
    assert (gone, come) == ([b'title: "Use a local cache"\n'], [b'title: "Use: none"\n'])


@pytest.mark.parametrize("name", GOOD)
def test_new_text_leaves_the_rest(name: str) -> None:
    old = (ODD / name).read_bytes()
    path = f"decisions/{name}"
    before = read(old, name)
    text = (
        f"{before.text}\n\nOne more line.\n## Outcomes\n- 2020-01-01 success: not an entry".strip()
    )
    new = amend_record(old, path, text=text)
    after = read(new, name)
    assert after.text == text
    assert (after.outcomes, after.rejected, after.next_steps, after.facts) == (
        before.outcomes,
        before.rejected,
        before.next_steps,
        before.facts,
    )
    _, come = changes(old, new)
    assert len([line for line in come if line.strip()]) <= 4
    if name in ("nygard.md", "nygard-crlf.md", "madr-2.md"):  # the text holds their date
        with pytest.raises(Conflict, match="created"):
            amend_record(new, path, text="")
        return
    emptied = read(amend_record(new, path, text=""), name)
    assert (emptied.text, emptied.outcomes) == ("", before.outcomes)


def test_text_below_the_log_stays_below() -> None:
    old = (ODD / "log-then-text.md").read_bytes()
    record = read(old, "log-then-text.md")
    new = amend_record(old, "log-then-text.md", text=f"Above the log.\n\n{record.text}")
    gone, come = changes(old, new)
    assert not gone
    assert sorted(come) == [b"\n", b"Above the log.\n"]
    assert new.index(b"Above the log") < new.index(b"## Outcomes")


def test_the_log_keeps_its_bullets_and_place() -> None:
    old = (ODD / "log-then-text.md").read_bytes()
    gone, come = changes(old, amend_record(old, "log-then-text.md", outcome=FAILED))
    assert gone == [b"outcome: success\n"]
    assert come == [b"outcome: failed\n", b"* " + LOG_LINE + b"\n"]


def test_an_older_outcome_does_not_become_the_newest() -> None:
    old = (ODD / "plain.md").read_bytes()
    new = amend_record(old, "plain.md", outcome=Outcome(0, "success", "in the lab"))
    assert read(new, "plain.md").outcome == "pending"
    assert b"outcome: pending" in new


def test_nothing_asked_nothing_changed() -> None:
    for name in GOOD:
        old = (ODD / name).read_bytes()
        assert amend_record(old, name) == old
        record = read(old, name)
        assert amend_record(old, f"decisions/{name}", text=record.text) == old


def test_an_empty_title_is_refused() -> None:
    with pytest.raises(BadInput, match="title"):
        amend_record(b"# x\n", "x.md", title=" \n ")


SCALARS = (
    *("pending", "'pending'", '"pending"', "  pending", "pending # why", "", "# nothing"),
    *(">-\n  pending", "!!str pending"),
)
LISTS = (
    "[a, b]",
    "[ a,b ]",
    "\n- a\n- b",
    "\n  - a # one\n  # two\n  - b",
    "a",
    "[]",
    "[\n  a,\n  b\n]",
    "",
)
FILLERS = (
    "# comment",
    "",
    "x-custom: {a: [1, 2]}",
    "note: |\n  text\n\n  more",
    "date: 2025-11-20",
    "agent: bo # who",
)


@st.composite
def odd_files(draw: st.DrawFn) -> tuple[bytes, str]:
    parts = [
        "id: decision_cache_1763650000123_k3f9w2ma",
        draw(st.sampled_from(("topic: cache", "topic:   'a: b'", "topic: é # c"))),
        *draw(st.lists(st.sampled_from(FILLERS), max_size=4, unique=True)),
    ]
    if draw(st.booleans()):
        parts.append(f"outcome: {draw(st.sampled_from(SCALARS))}")
    if draw(st.booleans()):
        parts.append(
            f"tags:{draw(st.sampled_from(('', ' ')))}{draw(st.sampled_from(LISTS))}".replace(
                "tags:[", "tags: ["
            )
        )
    parts = draw(st.permutations(parts))
    indent = draw(st.sampled_from(("", "", "  ")))
    header = "\n".join(
        f"{indent}{line}" if line else line for part in parts for line in part.split("\n")
    )
    body = draw(
        st.lists(
            st.sampled_from(
                (
                    *("# Title", "Text.", "", "## Rejected", "- x", "## Notes", "```\n# code\n```"),
                    *("## Outcomes", "- 2025-01-01 partial: so so"),
                )
            ),
            max_size=8,
        )
    )
    text = f"---\n{header}\n---\n" + "\n".join(body) + draw(st.sampled_from(("", "\n", "\n\n")))
    end = draw(st.sampled_from(("\n", "\r\n")))
    return (draw(st.sampled_from(("", "\ufeff"))) + text.replace("\n", end)).encode(), end


@settings(deadline=None, derandomize=True, max_examples=80)
@given(
    odd_files(),
    st.sampled_from(("failed", "success")),
    st.sampled_from((["a", "b", "c"], ["b"], ["n: w"])),
)
def test_odd_files_by_the_dozen(odd: tuple[bytes, str], word: str, tags: list[str]) -> None:
    old, end = odd
    before = parse_record(old, "decisions/x.md")
    outcome = Outcome(WHEN, word, "measured")
    for keys, entry in (({}, outcome), ({"tags": tags}, None), ({"confidence": 0.25}, None)):
        try:
            new = amend_record(old, "decisions/x.md", keys=keys, outcome=entry)
        except BadInput:
            assert any(p.level == "error" for p in before.problems)
            return
        except Conflict:
            assert "tags" in keys
            assert b"# one" in old
            continue
        record = read(new, "x.md")
        gone, come = changes(old, new)
        if entry:
            assert record.outcomes[-1] == entry
        if "tags" in keys:
            assert list(record.tags) == tags
        for line in come:
            known = (
                b"outcome",
                b"tags",
                b"confidence",
                b"---",
                b"## Outcomes",
                b"- ",
                b"]",
                b"a",
                b"b",
            )
            assert (
                line.strip().startswith(known)
                or line in (end.encode(), b"")
                or line[: -len(end)] in gone
            ), line
        assert all(line.endswith(end.encode()) for line in LINES.findall(new)[:-1])


def test_a_rendered_record_is_amended_in_one_line() -> None:
    record = Record(
        id="decision_a_1_abcdefgh",
        type="decision",
        title="A",
        text="Because.",
        topic="a",
        topic_stated=True,
        created=0,
    )
    old = render_record(record)
    gone, come = changes(old, amend_record(old, "a.md", outcome=FAILED))
    assert not gone
    assert come == [b"outcome: failed\n", b"\n", b"## Outcomes\n", b"- " + LOG_LINE + b"\n"]


NYGARD = (
    "# 1. Use Postgres\n\nDate: 2025-11-20\n\n## Status\n\n{0}\n\n## Context\n\nWe need a db.\n"
)


def test_a_status_that_the_text_states_is_refused_with_its_line() -> None:
    for header, line in (("", 10), ("---\nstatus: accepted\n---\n", 10)):
        with pytest.raises(Conflict, match=rf"^0001-p.md:{line}: "):
            amend_record(
                (header + NYGARD.format("Accepted")).encode(),
                "0001-p.md",
                keys={"status": "rejected"},
            )
    same = amend_record(
        NYGARD.format("Approved").encode(), "0001-p.md", keys={"status": "accepted"}
    )
    assert same.decode() == "---\nstatus: accepted\n---\n" + NYGARD.format("Approved")


def test_header_and_text_that_state_two_statuses() -> None:
    text = "---\nstatus: accepted\n---\n" + NYGARD.format("Rejected")
    apart = parse_record(text.encode(), "0001-p.md")
    assert [(one.line, one.level) for one in apart.problems if one.code == "status-differs"] == [
        (10, "warning")
    ]
    assert apart.record is not None
    assert apart.record.status == "accepted"
    ours = text.replace("status:", "id: decision_x_1763650000123_k3f9w2ma\ntopic: x\nstatus:")
    assert "status-differs" not in {
        problem.code for problem in parse_record(ours.encode(), "0001-p.md").problems
    }


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("+++\ntags = []\ntopic = 'a'\n+++\n", 3),
        ('{\n"topic": "a"\n}\n', 2),
        ("---\n{topic: a}\n---\n", 2),
    ],
)
def test_a_header_of_another_language_is_refused_with_the_line_to_edit(
    header: str, line: int
) -> None:
    with pytest.raises(Conflict, match=rf"^x.md:{line}: the header is ") as refused:
        amend_record(f"{header}# T\n".encode(), "x.md", keys={"topic": "b"})
    assert refused.value.hint


TAGGED = b'---\ntags:\n  - "#perf"\n  - adr/db\ncreated: 2025-01-02\n---\n# A\n'


def test_a_tag_keeps_the_hash_that_it_has_in_the_file() -> None:
    assert read(TAGGED, "a.md").tags == ("perf", "adr/db")
    assert amend_record(TAGGED, "a.md", keys={"tags": ("perf", "adr/db")}) == TAGGED
    more = amend_record(TAGGED, "a.md", keys={"tags": ("perf", "adr/db", "ops")})
    assert more == TAGGED.replace(b"  - adr/db\n", b"  - adr/db\n  - ops\n")
    assert read(more, "a.md").tags == ("perf", "adr/db", "ops")
    assert b'"#perf"' in amend_record(TAGGED, "a.md", keys={"status": "rejected"})


TWO_HEADERS = b"---\npermalink: a/b\n---\n\n---\nstatus: rejected\ntags: [x]\n---\n# Use a ring\n"


def test_a_key_of_the_second_header_is_changed_by_hand() -> None:
    with pytest.raises(Conflict, match="cannot be changed in the way it is written"):
        amend_record(TWO_HEADERS, "a.md", keys={"status": "accepted"})
    added = amend_record(TWO_HEADERS, "a.md", keys={"id": "decision_a_1_aaaaaaaa"})
    assert added == TWO_HEADERS.replace(b"a/b\n", b"a/b\nid: decision_a_1_aaaaaaaa\n")
