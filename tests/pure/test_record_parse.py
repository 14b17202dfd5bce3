"""What files say: keys, sections, gaps and mistakes, ours and other makers'."""

from __future__ import annotations

from typing import Any

import pytest
from frontmatter.default_handlers import BaseHandler, JSONHandler, YAMLHandler

from filemem.errors import BadInput
from filemem.query import extract_prose
from filemem.record import (
    Edge,
    Outcome,
    ParsedRecord,
    Record,
    build_reference_index,
    format_time,
    list_numbers,
    parse_edges,
    parse_outcome,
    parse_record,
    parse_time,
    resolve_reference,
    strip_edges,
)
from filemem.record.model import UNKNOWN

ID = "decision_cache_1763650000123_k3f9w2ma"


def page(
    header: str = "", body: str = "# Title\n", path: str = "decisions/cache/x.md"
) -> ParsedRecord:
    return parse_record(f"---\n{header.strip()}\n---\n{body}".encode(), path)


def record(header: str = "", body: str = "# Title\n", path: str = "decisions/cache/x.md") -> Record:
    found = page(header, body, path).record
    assert found is not None
    return found


def codes(parsed: ParsedRecord, *levels: str) -> list[tuple[str, int]]:
    return [
        (p.code, p.line) for p in parsed.problems if p.level in (levels or ("error", "warning"))
    ]


# -- keys ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("topic: no", "topic", "no"),
        ("topic: 1.10", "topic", "1.10"),
        ("topic: 12:30:45", "topic", "12:30:45"),
        ("topic: 0777", "topic", "0777"),
        ("topic: 2025-11-20", "topic", "2025-11-20"),
        ("topic: 'null'", "topic", "null"),
        ("agent: null", "agent", ""),
        ("agent: ~", "agent", ""),
        ("tags: performance", "tags", ("performance",)),
        ("tags: performance, ops", "tags", ("performance", "ops")),
        ('tags: "performance, ops"', "tags", ("performance, ops",)),
        ("tags: [a, '', b]", "tags", ("a", "b")),
        ("tags:\n  - a\n  - 1.10", "tags", ("a", "1.10")),
        ("affects: src/{a,b}.py", "affects", ("src/{a,b}.py",)),
        ("created: 2025-11-20", "created", 1763596800000),
        ('created: "2025-11-20T14:46:40.123Z"', "created", 1763650000123),
        ("created: 2025-11-20T15:46:40.123+01:00", "created", 1763650000123),
        ("date: 2025-11-20", "created", 1763596800000),
        ("Created: 2025-11-20", "created", 1763596800000),
        ("confidence: 0.85", "confidence", 0.85),
        ("confidence: 1", "confidence", 1.0),
        ("confidence: 1e-1", "confidence", 0.1),
        ("outcome: FAILURE", "outcome", "failed"),
        ("status: Deprecated", "status", "deprecated"),
        ("secrets: allowed", "secrets_allowed", True),
        ("supersedes: []", "supersedes", ()),
        ("supersedes:", "supersedes", None),
        ("supersedes: decision_a_1_b", "supersedes", ("decision_a_1_b",)),
        ("supersedes: [[0012-x]]", "supersedes", ("[[0012-x]]",)),
        ("replaces: FIP-0003, FIP-0005", "supersedes", ("FIP-0003", "FIP-0005")),
        ("replaces: N/A", "supersedes", ()),
        ("superseded-by: '0015'", "superseded_by", ("0015",)),
        ("status: superseded by [ADR-62](0062-x.md)", "superseded_by", ("0062-x.md",)),
        ("metadata: {n: 3, f: 1.5, t: true}", "metadata", {"n": 3, "f": 1.5, "t": True}),
        ("metadata: {z: null, s: '3', w: no}", "metadata", {"z": None, "s": "3", "w": "no"}),
        ("metadata:\n  a:\n    - 1\n    - {b: -2e3}", "metadata", {"a": [1, {"b": -2000.0}]}),
        ("metadata: {a: 01, b: 0x1f, c: 1_000}", "metadata", {"a": "01", "b": "0x1f", "c": "1_000"}),
        ("metadata: {d: .5, e: +1, f: .inf}", "metadata", {"d": ".5", "e": "+1", "f": ".inf"}),
    ],
)  # fmt: skip
def test_values_are_read_as_written(line: str, field: str, value: Any) -> None:
    parsed = page(line)
    assert not codes(parsed)
    assert parsed.record is not None
    found = getattr(parsed.record, field)
    assert (found, type(found)) == (value, type(value))


def test_unknown_keys_are_kept_in_order() -> None:
    found = record("zeta: 1\nid: x_1\nalpha: {b: [c, 2]}\nyes: off\n5: five\ndeciders: ana, bo")
    assert list(found.extra.items()) == [
        ("zeta", "1"),
        ("alpha", {"b": ["c", "2"]}),
        ("yes", "off"),
        ("5", "five"),
        ("deciders", "ana, bo"),
    ]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("confidence: high", "bad-confidence"),
        ("confidence: 1.5", "bad-confidence"),
        ("confidence: .nan", "bad-confidence"),
        ("created: soon", "bad-created"),
        ("created: 2021-26-02", "bad-created"),
        ("outcome: great", "bad-outcome"),
        ("status: foo", "unknown-status"),
        ("decided_by: committee", "bad-decided-by"),
        ("id: x_1\ntype: prophecy", "bad-type"),
        ("title: [a, b]", "bad-title"),
        ("title: {a: b}", "bad-title"),
        ("tags: {a: b}", "bad-tags"),
        ("topic: [a, b]", "bad-topic"),
        ("metadata: 5", "bad-metadata"),
        ("secrets: yes", "bad-secrets"),
        ("kind: nonsense", "bad-kind"),
        ("visibility: all", "bad-visibility"),
        ("id: two words", "bad-id"),
    ],
)
def test_wrong_values_are_problems_and_are_kept(line: str, code: str) -> None:
    parsed = page(f"agent: a\n{line}")
    assert codes(parsed) == [(code, 3 + line.count("\n"))]
    assert parsed.record is not None
    assert line.rpartition("\n")[2].partition(":")[0] in parsed.record.extra


def test_a_foreign_type_is_not_ours() -> None:
    parsed = page("type: Technical")
    assert not codes(parsed)
    assert ("bad-type", 2) in codes(parsed, "hint")
    assert parsed.record is not None
    assert (parsed.record.type, parsed.record.extra["type"]) == ("decision", "Technical")


@pytest.mark.parametrize(
    ("header", "path", "type_"),
    [
        ("", "decisions/a/x.md", "decision"),
        ("", "checkpoints/2025/11/x.md", "checkpoint"),
        ("", "observations/x.md", "observation"),
        ("", "private/observations/x.md", "observation"),
        ("", "private/x.md", "decision"),
        ("", "x.md", "decision"),
        ("", "notes/checkpoints/x.md", "decision"),
        ("type: observation", "decisions/x.md", "observation"),
        ("type: Checkpoint", "x.md", "checkpoint"),
    ],
)
def test_the_type_is_stated_or_the_folder_says_it(header: str, path: str, type_: str) -> None:
    assert record(header, path=path).type == type_


def test_gaps_are_hints() -> None:
    parsed = parse_record(b"# Use a local cache\n", "x.md")
    assert [(p.code, p.level) for p in parsed.problems] == [
        ("no-id", "hint"),
        ("no-topic", "hint"),
        ("no-date", "hint"),
    ]
    assert parsed.record is not None
    assert (parsed.record.topic, parsed.record.topic_stated) == ("Use a local cache", False)
    assert (parsed.record.created, parsed.record.id_stated) == (None, False)
    full = page(f"id: {ID}\ntopic: cache\ncreated: 2025-11-20")
    assert full.problems == ()


@pytest.mark.parametrize(
    ("title", "topic"),
    [
        ("7. Use a cache", "Use a cache"),
        ("ADR-0012: Use a cache", "Use a cache"),
        ("12 - Use a cache", "Use a cache"),
        ("3 ways to cache", "3 ways to cache"),
        ("UTF-8 everywhere", "UTF-8 everywhere"),
        ("UTF-8: everywhere", "UTF-8: everywhere"),
    ],
)
def test_a_number_in_front_is_no_part_of_the_topic(title: str, topic: str) -> None:
    found = record(body=f"# {title}\n")
    assert (found.title, found.topic) == (title, topic)


def test_a_file_without_an_id_is_known_by_its_path() -> None:
    first, again, moved = (
        parse_record(b"# A\n", path).record for path in ("old.md", "old.md", "new.md")
    )
    assert first is not None
    assert again is not None
    assert moved is not None
    assert first.id == again.id != moved.id


# -- headers that are broken --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "code", "line"),
    [
        ("---\nid: x\ntopic: a: b\n---\n", "yaml-syntax", 3),
        ("---\nid: x\nid: y\n---\n", "duplicate-key", 3),
        ("---\n- a\n---\n", "header-not-mapping", 2),
        ("---\nwords\n---\n", "header-not-mapping", 2),
        ("---\nid: x\n# T\n", "header-unclosed", 1),
        ("\n\n---\nid: x\na: *b\n---\n", "yaml-alias", 5),
        ("---\nid: x\ntopic: !!python/name:os.system x\n---\n", "yaml-tag", 3),
        ("---\nid: x\ntags: !mine [a]\n---\n", "yaml-tag", 3),
        ("---\nid: x\n\n[a]: b\n---\n", "odd-key", 4),
        ("---\r\nid: x\r\na: \x01\r\n---\r\n", "control-character", 3),
        ("+++\nid = x\n+++\n", "toml-syntax", 2),
        ('{\n"id": x\n}\n', "json-syntax", 2),
        ("---\nid: x\n<<<<<<< HEAD\na: 1\n=======\na: 2\n>>>>>>> b\n---\n", "conflict", 3),
        ("---\nid: x\n---\n# T\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> b\n", "conflict", 5),
    ],
)
def test_a_broken_header_names_its_line(data: str, code: str, line: int) -> None:
    parsed = parse_record(data.encode(), "x.md")
    assert codes(parsed, "error") == [(code, line)]
    assert str(parsed.problems[0]).startswith("x.md:")


def test_one_bad_value_does_not_hide_the_others() -> None:
    found = record('id: x_1\ntopic: "cache\noutcome: failed\ntags: [a, b\nagent: bo')
    assert (found.id, found.outcome, found.agent) == ("x_1", "failed", "bo")
    assert record("id: x_1\ntitle: Use X: the good parts").title == "Use X: the good parts"


def test_the_first_side_of_a_conflict_is_read() -> None:
    parsed = page(
        "id: x_1\n<<<<<<< HEAD\noutcome: failed\n||||||| base\noutcome: pending\n=======\noutcome: success\n>>>>>>> b"
    )
    assert parsed.record is not None
    assert parsed.record.outcome == "failed"
    assert codes(parsed) == [("conflict", 3)]


def test_markers_that_are_an_example_are_no_conflict() -> None:
    assert not codes(page("id: x_1", "# T\n```\n<<<<<<< HEAD\n=======\n>>>>>>> b\n```\n"))


def test_other_header_languages() -> None:
    toml = parse_record(
        b'+++\nid = "x_1"\ntopic = "a"\nconfidence = 0.5\ntags = ["b"]\n'
        b"created = 2025-11-20\n[metadata]\nn = 1\n+++\n# T\n",
        "x.md",
    )
    assert not codes(toml)
    json = parse_record(
        b'{\n "id": "x_1",\n "topic": "a", "confidence": 0.5, "tags": ["b"],\n'
        b' "created": "2025-11-20", "metadata": {"n": 1}\n}\n# T\n',
        "x.md",
    )
    assert toml.record == json.record
    assert json.record is not None
    assert (json.record.confidence, json.record.metadata, json.record.title) == (0.5, {"n": 1}, "T")


def test_line_ends_and_marks_do_not_matter() -> None:
    text = f"---\nid: {ID}\ntopic: a\n---\n# T\n\none\n\n## Outcomes\n- 2025-01-01 failed: x\n"
    plain = parse_record(text.encode(), "x.md")
    for other in (
        text.replace("\n", "\r\n"),
        text.replace("\n", "\r"),
        f"\ufeff{text}",
        text.rstrip(),
    ):
        assert parse_record(other.encode(), "x.md") == plain


# -- body ---------------------------------------------------------------------------------------------------


def test_sections() -> None:
    found = record(
        f"id: {ID}",
        "intro\n\n# T\n\nwhy\n\n## Context\nunknown\n### Deeper\nmore\n"
        "## decision\nthe whole\nof it\n### inside\n## Rejected\n1. a\n2. b\n   more b\n\n* c\n\npara\ngraph\n"
        "## Notes\nlast\n",
    )
    assert found.title == "T"
    assert found.text == "intro\n\nwhy\n\n## Context\nunknown\n### Deeper\nmore\n\n## Notes\nlast"
    assert found.decision == "the whole\nof it\n### inside"
    assert found.rejected == ("a", "b\n more b", "c", "para\ngraph")


@pytest.mark.parametrize(
    ("section", "rejected"),
    [
        ("- a\n\nWe look again in spring.\n", ("a", "We look again in spring.")),
        (
            "Of these:\n- a\n  more\n\n  still a\n* b\nlazy\n",
            ("Of these:", "a\nmore\n\nstill a", "b\nlazy"),
        ),
        ("one\n\ntwo\nof it\n", ("one", "two\nof it")),
    ],
)
def test_a_paragraph_among_alternatives_is_an_item(section: str, rejected: tuple[str, ...]) -> None:
    found = record("id: x_1\ntopic: t", f"# T\n\n## Rejected\n{section}")
    assert (found.rejected, found.text) == (rejected, "")


def test_sections_belong_to_types() -> None:
    body = "# T\n## Decision\nd\n## Next steps\nn\n## Facts\n- f\n"
    assert record("", body).text == "## Next steps\nn\n## Facts\n- f"
    checkpoint = record("type: checkpoint", body)
    assert (checkpoint.next_steps, checkpoint.text) == ("n", "## Decision\nd\n\n## Facts\n- f")
    observation = record("type: observation", body)
    assert (observation.facts, observation.text) == (("f",), "## Decision\nd\n## Next steps\nn")


def test_fences_hide_headings() -> None:
    found = record(
        "",
        "# T\n```md\n# no\n## Outcomes\n- 2025-01-01 failed: no\n```\n- ~~~\n  ## Rejected\n  ~~~\nyes\n",
    )
    assert found.outcomes == ()
    assert "## Outcomes" in found.text
    assert found.text.endswith("yes")


@pytest.mark.parametrize(
    ("body", "title", "text"),
    [
        ("# T\n\nx\n", "T", "x"),
        ("## Use X\n\nx\n", "Use X", "x"),
        ("## Context\n\nx\n", "x y", "## Context\n\nx"),
        ("Just a line.\n", "Just a line.", ""),
        ("A line.\nAnother.\n", "A line.", "A line.\nAnother."),
        ("<!-- note -->\n# T\n", "T", "<!-- note -->"),
        ("", "x y", ""),
        ("# \n# T\n", "T", "#"),
    ],
)
def test_headings(body: str, title: str, text: str) -> None:
    found = parse_record(body.encode(), "decisions/0007-x-y.md").record
    assert found is not None
    assert (found.title, found.text) == (title, text)


def test_a_stated_title_leaves_another_heading_in_the_text() -> None:
    found = record("title: Use X", "# FIP-0007: Use X\n\nx\n")
    assert (found.title, found.text) == ("Use X", "# FIP-0007: Use X\n\nx")
    assert record("title: T", "# T\n\nx\n").text == "x"


def test_the_log() -> None:
    log = "- 2025-11-25T09:14:03Z failed: a\n- 2025-11-25 partial\n* 2025-11-26 09:00 success: b\n  wrapped\n"
    parsed = page(f"id: {ID}\noutcome: success", f"# T\n## Outcomes\n{log}")
    assert parsed.record is not None
    assert [(format_time(o.at)[:19], o.outcome, o.reason) for o in parsed.record.outcomes] == [
        ("2025-11-25T00:00:00", "partial", ""),
        ("2025-11-25T09:14:03", "failed", "a"),
        ("2025-11-26T09:00:00", "success", "b wrapped"),
    ]
    assert not codes(parsed)


def test_the_log_counts_where_the_key_differs() -> None:
    parsed = page(f"id: {ID}\noutcome: success", "# T\n## Outcomes\n- 2025-11-25 failed\n")
    assert parsed.record is not None
    assert parsed.record.outcome == "failed"
    assert codes(parsed) == [("outcome-differs", 3)]


def test_ties_go_to_the_lower_line_and_merges_read_the_same_both_ways() -> None:
    tie = record("", "# T\n## Outcomes\n- 2025-11-25 success\n- 2025-11-25 failed\n")
    assert tie.outcome == "failed"
    one = "- 2025-11-25 failed: x\n"
    two = "- 2025-11-24 partial: y\n- 2025-11-25 failed: w\n"
    merges = [
        record("", f"# T\n## Outcomes\n{log}").outcomes for log in (one + two, one + two + one)
    ]
    assert merges[0] == merges[1]
    assert [o.reason for o in merges[0]] == ["y", "w", "x"]


def test_lines_that_are_no_entry_are_told_and_kept() -> None:
    parsed = page(
        f"id: {ID}\ntopic: a\ncreated: 2025-01-01",
        "# T\n## Outcomes\nworks well\n- 2025-11-25 great\n",
    )
    assert codes(parsed) == [("bad-outcome", 8), ("bad-outcome", 9)]
    assert parsed.record is not None
    assert parsed.record.extra["outcomes"] == ["works well", "- 2025-11-25 great"]


@pytest.mark.parametrize(
    ("word", "outcome"),
    [("Success", "success"), ("failure", "failed"), ("x", None), (" PARTIAL ", "partial")],
)
def test_outcome_words(word: str, outcome: str | None) -> None:
    assert parse_outcome(word) == outcome


# -- other makers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "status", "old", "new"),
    [
        ("accepted", "accepted", (), ()),
        ("✅ Accepted", "accepted", (), ()),
        ("Final", "accepted", (), ()),
        ("Last Call", "proposed", (), ()),
        ("❌ Rejected", "rejected", (), ()),
        ("Withdrawn", "rejected", (), ()),
        ("Superseded", "deprecated", (), ()),
        ("Partly superseded", "accepted", (), ()),
        ("Superseded by [ADR-12: x. y](0012-x.md)", "deprecated", ("0012-x.md",), ()),
        ("superseded by [[0012-x]] and ADR-0013", "deprecated", ("0012-x", "ADR-0013"), ()),
        ("⌛️ Superseded [0019](0019-x.md). See also 0020.", "deprecated", ("0019-x.md",), ()),
        ("Superseded by 12 on 2025-01-02", "deprecated", ("12",), ()),
        ("Superseded by 12 and 13", "deprecated", ("12", "13"), ()),
        ("Superseded by 2 of our partners", "deprecated", (), ()),
        ("Accepted. Replaces 1 server by 2.", "accepted", (), ()),
        ("Superseded by https://x.org/issues/5926", "deprecated", (), ()),
        ("Superseded by https://x.org/blob/main/0012-x.md", "deprecated", ("https://x.org/blob/main/0012-x.md",), ()),
        ("Accepted\n\nSupersedes [3. Use Redis](0003-redis.md)", "accepted", (), ("0003-redis.md",)),
        ("Supercedes 0003", "accepted", (), ("0003",)),
        ("Accepted\nThis in part supersedes [0003](0003-x.md).", "accepted", (), ()),
        ("Accepted Amended by [17](0017-x.md)", "accepted", (), ()),
        ("purple", UNKNOWN, (), ()),
    ],
)  # fmt: skip
def test_status_words_and_links(
    text: str, status: str, old: tuple[str, ...], new: tuple[str, ...]
) -> None:
    found = record(body=f"# T\n\n## Status\n\n{text}\n\n## Context\n")
    assert (found.status, found.superseded_by, found.supersedes or ()) == (status, old, new)


def test_a_body_says_status_and_date_only_where_no_id_and_topic_are_stated() -> None:
    body = "# T\n\n* Status: rejected\n* Date: 2025-11-20\n\n## Status\nAccepted\n"
    foreign = parse_record(body.encode(), "x.md").record
    assert foreign is not None
    assert (foreign.status, foreign.created) == ("rejected", 1763596800000)
    ours = record(f"id: {ID}\ntopic: caching", body)
    assert (ours.status, ours.created) == ("accepted", None)


def test_the_words_of_another_maker_are_kept() -> None:
    found = record("status: Final\nsuperseded_by: [a.md]\ndate: 2025-11-20")
    assert (found.status, found.superseded_by, dict(found.extra)) == (
        "accepted",
        ("a.md",),
        {"status": "Final"},
    )


def make(path: str, id_: str, title: str = "") -> Record:
    return Record(id=id_, type="decision", path=path, title=title or path)


STORE = build_reference_index(
    [
        make("decisions/0012-use-x.md", "file_a000000000000000", "Use X"),
        make("decisions/old/0013-use-y.md", "file_b000000000000000", "Use Y"),
        make("decisions/new/0013-use-z.md", "file_c000000000000000", "Use Z"),
        make("fip-0035.md", "file_d000000000000000"),
        make("decisions/cache/20251120-x-k3f9w2ma.md", ID, "Cache"),
        make("decisions/python-3-upgrade.md", "file_e000000000000000"),
        make("decisions/0003-three.md", "file_f000000000000000"),
        make("decisions/a b.md", "file_g000000000000000"),
    ]
)


@pytest.mark.parametrize(
    ("reference", "id_"),
    [
        (ID, ID),
        ("k3f9w2ma", ID),
        ("decisions/cache/20251120-x-k3f9w2ma.md", ID),
        ("memory/decisions/cache/20251120-x-k3f9w2ma.md", ID),
        ("[[Cache]]", ID),
        ("[[cache|shown]]", ID),
        ("0012-use-x.md", "file_a000000000000000"),
        ("./0012-use-x.md#context", "file_a000000000000000"),
        ("../decisions/0012-use-x", "file_a000000000000000"),
        ("[12](0012-use-x.md)", "file_a000000000000000"),
        ("https://x.org/blob/main/0012-use-x.md", "file_a000000000000000"),
        ("12", "file_a000000000000000"),
        ("#12", "file_a000000000000000"),
        ("0012", "file_a000000000000000"),
        ("ADR-0012", "file_a000000000000000"),
        ("ADR 12", "file_a000000000000000"),
        ("13", None),
        ("0013-use-y.md", "file_b000000000000000"),
        ("FIP-0035", "file_d000000000000000"),
        ("FIP-OO35", "file_d000000000000000"),
        ("35", "file_d000000000000000"),
        ("3", "file_f000000000000000"),
        ("a%20b.md", "file_g000000000000000"),
        ("20251120", None),
        ("nothing", None),
        ("", None),
        ("[[]]", None),
    ],
)
def test_references(reference: str, id_: str | None) -> None:
    assert resolve_reference(reference, STORE) == id_


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("builds_on: decision_a_1_x", [("builds_on", "decision_a_1_x")]),
        ("**Builds_On**: decision_a", [("builds_on", "decision_a")]),
        ("**debates:** `decision_a`", [("debates", "decision_a")]),
        (
            "synthesizes: [decision_a, decision_b]",
            [("synthesizes", "decision_a"), ("synthesizes", "decision_b")],
        ),
        (
            "synthesizes: decision_a, decision_b",
            [("synthesizes", "decision_a"), ("synthesizes", "decision_b")],
        ),
        (
            "builds_on: decision_a\ndebates: decision_b",
            [("builds_on", "decision_a"), ("debates", "decision_b")],
        ),
        ("builds_on: decision_a builds_on: decision_a", [("builds_on", "decision_a")]),
        ("builds_on: file_0123456789abcdef", [("builds_on", "file_0123456789abcdef")]),
        ("builds_on: something", []),
        ("rebuilds_on: decision_a", []),
        ("builds_on decision_a", []),
        ("supersedes: decision_a", []),
    ],
)
def test_edges_in_prose(text: str, edges: list[tuple[str, str]]) -> None:
    assert [(edge.kind, edge.target) for edge in parse_edges(text)] == edges


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("front matter", ""),
        ("builds_on: decision_a_1_x", ""),
        ("- **Builds_On**: `decision_a`.", ""),
        ("debates: decision_b. Too slow.", "Too slow."),
        ("synthesizes: [decision_a, decision_b] \u2014 both", "both"),
        ("Why\nbuilds_on: decision_a; debates: decision_b\nand so on", "Why\n\nand so on"),
        ("As it builds_on: decision_a, so", "As it builds_on: decision_a, so"),
        ("builds_on: something", "builds_on: something"),
    ],
)
def test_a_text_without_the_edges_that_its_lines_begin_with(text: str, rest: str) -> None:
    assert strip_edges(text) == rest


def test_edges_of_a_record_are_told_once() -> None:
    found = record(
        f"id: {ID}\nbuilds_on: decision_a",
        "# T\n\nIt builds_on: decision_a and debates: decision_b.\n",
    )
    assert found.edges == (
        Edge("builds_on", "decision_a", "front matter"),
        Edge("debates", "decision_b", "It builds_on: decision_a and debates: decision_b."),
    )


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2025-11-20", "2025-11-20"),
        ("2025-9-5", "2025-09-05"),
        ("2025/11/20", "2025-11-20"),
        ("<2025-11-20>", "2025-11-20"),
        ("20 Nov 2025", "2025-11-20"),
        ("10 feb 2023", "2023-02-10"),
        ("September 20, 2024", "2024-09-20"),
        ("20th November 2025", "2025-11-20"),
        ("1763650000", "2025-11-20"),
        ("1763650000123", "2025-11-20"),
        ("20251120", "2025-11-20"),
        ("2025-11-20 23:30:00-02:00", "2025-11-21"),
        ("0001-01-01", "0001-01-01"),
        ("2025-13-01", None),
        ("2024-023-2706", None),
        ("20 Foo 2025", None),
        ("", None),
        ("9" * 5000, None),
        ("soon", None),
    ],
)
def test_times(text: str, day: str | None) -> None:
    found = parse_time(text)
    assert (None if found is None else format_time(found)[:10]) == day


def test_times_are_written_in_one_form() -> None:
    assert format_time(1763650000123) == "2025-11-20T14:46:40.123Z"
    assert format_time(-1) == "1969-12-31T23:59:59.999Z"
    assert parse_time(format_time(-62135596800000)) == -62135596800000
    with pytest.raises(BadInput, match="outside the years 1 to 9999"):
        format_time(253402300800000)
    assert Outcome(1, "failed") < Outcome(2, "failed")


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        (YAMLHandler, "---\ntitle: Use Redis\n---\n\nIt is there.\n"),
        (BaseHandler, "\ufeff\r\n+++\r\ntitle = 'Use Redis'\r\n+++\r\nIt is there."),
        (JSONHandler, '\n{\n"title": "Use Redis"\n}\n\nIt is there.'),
    ],
    ids=["yaml", "toml", "json"],
)
def test_python_frontmatter_splits_the_header_from_the_text(
    handler: type[BaseHandler], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    halves: list[tuple[str, str]] = []
    split = handler.split

    def noted(self: BaseHandler, text: str) -> tuple[str, str]:
        halves.append(split(self, text))
        return halves[-1]

    monkeypatch.setattr(handler, "split", noted)
    record, problems = parse_record(text.encode(), "decisions/x.md")
    assert record is not None
    assert (record.title, record.text) == ("Use Redis", "It is there.")
    ((header, below),) = halves
    assert ("title" in header, below.strip()) == (True, "It is there.")
    assert not [problem for problem in problems if problem.level != "hint"]


def test_a_brace_that_ends_a_header_of_json_starts_none() -> None:
    text = '}\n"title": "x"\n}\nText.'
    record, _ = parse_record(text.encode(), "decisions/x.md")
    assert record is not None
    assert record.text == text


def test_a_header_of_json_that_a_second_brace_ends_is_a_mistake() -> None:
    found = parse_record(b'{\n"title": "x"\n{\nText.', "decisions/x.md")
    assert next(one.code for one in found.problems if one.level == "error") == "json-syntax"


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (
            "Date: 2018-03-26\n\n## Status\n\nAccepted\n\n## Context\n\nWe build.\n\n### Costs\nFew.",
            "We build.\n\nCosts\nFew.",
        ),
        (
            "* Status: accepted\n* Date: 2020-01-01\n\n## Context and Problem Statement\n\nWhy?",
            "Why?",
        ),
        ("<!-- TOC -->\nPlain: text stays.", "Plain: text stays."),
        ("# Datum\n\n2022-02-01\n\n## 2. Entscheidung\n\nWir testen.", "Wir testen."),
        ("| Status | Angenommen |\n|---|---|\n| Datum | 1.2.2022 |\n\n## Kontext\n\nEng.", "Eng."),
        ("## ステータス\n\n承認済み\n\n## 決定\n\n使う。", "使う。"),
        ("| Kosten | Zeit |\n|---|---|\n| 1 | 2 |", "| Kosten | Zeit |\n| 1 | 2 |"),
        ("## Status\n\nAccepted", "## Status\n\nAccepted"),
        ("", ""),
    ],
)
def test_what_is_worth_quoting(text: str, quoted: str) -> None:
    assert extract_prose(text) == quoted


def test_numbers_in_a_text() -> None:
    assert list_numbers("Follow ADR-0012 and fip 3, not no 2; RFC-42: x") == (
        "ADR-0012",
        "fip 3",
        "RFC-42",
    )
    assert list_numbers("Use number 3, decision 4, ADR12") == ()


BELOW = b"---\npermalink: proj/x\n---\n\n---\ntitle: Use the ring\nstatus: rejected\n---\n\nText.\n"


def test_a_second_header_right_below_goes_on_with_the_first() -> None:
    record, problems = parse_record(BELOW, "decisions/x.md")
    assert record is not None
    assert (record.title, record.status, record.text) == ("Use the ring", "rejected", "Text.")
    assert record.extra == {"permalink": "proj/x"}
    assert not [one for one in problems if one.level != "hint"]
    strange = parse_record(BELOW.replace(b"rejected", b"on hold"), "decisions/x.md")
    assert [one.line for one in strange.problems if one.level == "warning"] == [7]


@pytest.mark.parametrize(
    "text",
    ["---\n\nA rule.\n\n---\n", "---\nnote: of its own\n---\n", "Text.\n\n---\ntitle: x\n---\n"],
)
def test_rules_below_a_header_are_text(text: str) -> None:
    record, _ = parse_record(f"---\ncreated: 2025-01-02\n---\n\n{text}".encode(), "decisions/x.md")
    assert record is not None
    assert text.strip() in f"{record.title}\n{record.text}"
