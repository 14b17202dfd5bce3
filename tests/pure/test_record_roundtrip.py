"""What is written is what is read: any record, with any text in any field, survives a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from filemem.record import (
    DECIDERS,
    KINDS,
    OUTCOMES,
    STATUSES,
    TYPES,
    VISIBILITIES,
    Outcome,
    Record,
    build_record_path,
    parse_record,
    render_record,
    schema,
)
from filemem.record.body import normalize_items, normalize_outcomes, parse_edges
from filemem.record.identity import parse_topic
from filemem.record.keys import KEYS, WORDS
from filemem.record.lines import get_heading, join_lines, normalize_text, replace_surrogates
from filemem.record.model import DECISION
from filemem.record.parse import parse_header
from filemem.record.yaml import (
    format_flow,
    format_scalar,
    parse_entries,
    parse_simple,
    to_typed_value,
)
from tests.pure.test_schema import load_schema

SETTINGS = settings(deadline=None, derandomize=True, max_examples=50)

PIECES = (
    *(
        "---",
        "+++",
        "{",
        "}",
        "# x",
        "## Outcomes",
        "## outcomes  ",
        "##\tRejected",
        "\\## Outcomes",
    ),
    *(
        "\\\\## Decision",
        "## Next steps",
        "## Facts",
        "## Context",
        "### Outcomes",
        "Title\n=====",
        "===",
    ),
    *(
        "Title\n-----",
        "#",
        "##",
        "\\# x",
        "### x",
        "<!--",
        "-->",
        "```",
        "```py",
        "````",
        "~~~",
        "  ```",
        "- ```",
    ),
    *(
        "1. ~~~ x",
        "\\```",
        "- \\~~~",
        "```x```",
        "- item",
        "  - nested",
        "* 2025-11-25 failed: x",
        "<<<<<<< HEAD",
    ),
    *(
        "=======",
        ">>>>>>> branch",
        "|||||||",
        "no",
        "1.10",
        "12:30:45",
        "0x1F",
        "null",
        "~",
        "key: value",
        "a, b",
    ),
    *(
        "[x]",
        "{y}",
        "*alias",
        "&anchor",
        "!tag",
        "| pipe",
        "> quote",
        "% directive",
        "@at",
        "`tick",
        "'single'",
    ),
    *(
        '"double"',
        "# comment",
        "a #b",
        "a: b",
        " leading",
        "trailing ",
        "\ttab",
        "builds_on: decision_a_1_x",
    ),
    *(
        "정책 캐시",
        "naïve café",
        "🙂",
        "\u2028",
        "\x85",
        "\ufeff",
        "\x00",
        "\x07",
        "\r",
        "\r\n",
        "\ud800",
        "",
    ),
    *("<!-- x -->", "Status: rejected", "Date: 2020-01-01"),
    *("Replaces [x](y.md)", "Replaces [x](y.md), [z](w.md)", "\\Replaces [x](y.md)"),
)

line = st.one_of(st.sampled_from(PIECES), st.text(max_size=12))
block = st.just("") | st.lists(line, max_size=8).map("\n".join)
word = st.one_of(st.sampled_from([p for p in PIECES if p]), st.text(min_size=1, max_size=12))
words = st.lists(word, max_size=3).map(tuple)
moment = st.integers(min_value=-(10**11), max_value=4 * 10**12)
reference = st.from_regex(r"[a-z]{1,8}_[0-9a-z]{1,8}", fullmatch=True)
references = st.lists(reference, max_size=3).map(tuple)
json_value: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | word,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(word, inner, max_size=3),
    max_leaves=6,
)
stated: st.SearchStrategy[Any] = st.recursive(
    word,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(word, inner, max_size=2),
    max_leaves=4,
)
outcome = st.builds(Outcome, moment, st.sampled_from(OUTCOMES), block)


@st.composite
def records(draw: st.DrawFn) -> Record:
    type_ = draw(st.sampled_from(TYPES))
    record = Record(
        id=draw(st.from_regex(r"[a-z]{1,8}_[0-9]{1,13}_[0-9a-z]{8}", fullmatch=True)),
        type=type_,
        title=draw(st.just("") | line),
        text=draw(block),
        created=draw(st.none() | moment),
        tags=draw(words),
        agent=draw(line),
        session=draw(line),
        source=draw(line),
        secrets_allowed=draw(st.booleans()),
        extra=draw(
            st.dictionaries(
                st.from_regex(r"x_[a-z]{1,6}|yes|5", fullmatch=True), stated, max_size=2
            )
        ),
    )
    special: dict[str, Callable[[], dict[str, Any]]] = {
        "decision": lambda: {
            "topic": draw(word),
            "topic_stated": True,
            "decision": draw(block),
            "status": draw(st.sampled_from(STATUSES)),
            "confidence": draw(st.none() | st.floats(0, 1)),
            "outcomes": draw(st.lists(outcome, max_size=3).map(tuple)),
            "limitation": draw(block),
            "decided_by": draw(st.sampled_from(("", *DECIDERS))),
            "supersedes": draw(st.none() | references),
            "builds_on": draw(references),
            "debates": draw(references),
            "synthesizes": draw(references),
            "affects": draw(words),
            "rejected": draw(st.lists(block, max_size=3).map(tuple)),
        },
        "checkpoint": lambda: {
            "branch": draw(line),
            "open_files": draw(words),
            "next_steps": draw(block),
        },
        "observation": lambda: {
            "kind": draw(st.sampled_from(("", *KINDS))),
            "project": draw(line),
            "concepts": draw(words),
            "facts": draw(st.lists(block, max_size=3).map(tuple)),
            "files_read": draw(words),
            "files_modified": draw(words),
            "department": draw(line),
            "visibility": draw(st.sampled_from(("", *VISIBILITIES))),
            "user_id": draw(line),
            "agent_id": draw(line),
            "run_id": draw(line),
            "scope": draw(line),
            "memory_type": draw(line),
            "metadata": draw(st.dictionaries(word, json_value, max_size=3)),
        },
    }
    return record._replace(**special[type_]())


def normal(record: Record) -> Record:
    """The record as a file of it reads: title and decision filled in, text tidied, the log in order."""
    text = normalize_text(record.text)
    outcomes = normalize_outcomes(record.outcomes)
    changes: dict[str, object] = {"text": text, "outcomes": outcomes}
    if outcomes:
        changes["outcome"] = outcomes[-1].outcome
    decision = normalize_text(record.decision) if record.type == DECISION else ""
    title = join_lines(record.title) or get_heading(decision) or get_heading(text)
    if not record.title and text == title:
        changes["text"] = text = ""
    if record.type == DECISION:
        changes["decision"] = decision = title if decision.strip() in ("", title) else decision
        mentions = (*parse_edges(text), *(parse_edges(decision) if decision != title else ()))
        changes["mentions"] = tuple(dict.fromkeys(mentions))
        if not record.topic:
            changes["topic"] = parse_topic(title)
    changes["title"] = title
    for name in ("rejected", "facts"):
        changes[name] = normalize_items(getattr(record, name))
    for name in ("metadata", "extra"):
        changes[name] = _deep_valid(getattr(record, name))
    changes["next_steps"] = normalize_text(record.next_steps)
    for key in KEYS:
        value = getattr(record, key.field)
        if isinstance(value, tuple):
            texts = (clean for item in value if (clean := replace_surrogates(item)))
            bare = key.shape == WORDS
            changes[key.field] = tuple(text.lstrip("#") or text if bare else text for text in texts)
        elif isinstance(value, str) and key.field not in changes:
            changes[key.field] = replace_surrogates(value)
    return record._replace(**changes)  # type: ignore[arg-type]


def _deep_valid(value: object) -> object:
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, Mapping):
        return {replace_surrogates(str(key)): _deep_valid(item) for key, item in value.items()}
    return [_deep_valid(item) for item in value] if isinstance(value, list | tuple) else value


def read(data: bytes, path: str = "decisions/x.md") -> Record:
    parsed = parse_record(data, path)
    assert parsed.record is not None
    return parsed.record


@SETTINGS
@given(records())
def test_a_record_survives_its_file(record: Record) -> None:
    survives(record)


@SETTINGS
@given(records())
def test_what_is_written_satisfies_its_schema(record: Record) -> None:
    header = parse_header(render_record(record).decode()).values
    value = {str(key): to_typed_value(stated) for key, stated in header.items()}
    assert schema.check_value(load_schema(record.type), value) == ()


@pytest.mark.long
@pytest.mark.timeout(900)
@settings(deadline=None, max_examples=800)
@given(records())
def test_many_records_survive(record: Record) -> None:
    survives(record)


def survives(record: Record) -> None:
    kept = normal(record)
    data = render_record(record)
    path = f"{record.type}s/x.md"
    found = parse_record(data, path)
    assert found.record is not None
    if not kept.title:  # nothing to call it: the file name serves
        kept = kept._replace(title="x", decision="x" if record.type == "decision" else "")
    if not kept.text and not kept.title:
        return
    assert found.record == kept._replace(path=path, extra=found.record.extra)
    assert found.record.extra == dict(kept.extra)
    assert not [p for p in found.problems if p.level != "hint" and p.code != "control-character"]


@SETTINGS
@given(records(), st.lists(st.tuples(word, reference), max_size=2))
def test_links_to_what_is_replaced_are_no_part_of_a_record(
    record: Record, replaced: list[tuple[str, str]]
) -> None:
    """What is read, and so what is indexed, is the same with and without them."""
    record = record._replace(type=DECISION, title="Use an LRU cache", supersedes=("a_1_b",))
    named = [(join_lines(title) or "x", path) for title, path in replaced]
    plain, linked = (
        parse_record(data, "a.md") for data in (render_record(record), render_record(record, named))
    )
    assert linked.record == plain.record


@SETTINGS
@given(records())
def test_a_file_is_stable(record: Record) -> None:
    """Writing what was read gives the same bytes, and the result is plain UTF-8 with LF ends."""
    data = render_record(record)
    assert render_record(normal(record)) == data
    assert b"\r" not in data
    assert data.decode()
    if normal(record).title:
        assert render_record(read(data, f"{record.type}s/x.md")) == data


@settings(deadline=None, derandomize=True, max_examples=80)
@given(st.one_of(word, block))
@example("no")
@example("1.10")
@example("12:30:45")
@example("0777")
@example("2025-11-20")
@example("=")
@example("<<")
@example("a\u2028b")
def test_no_yaml_reader_retypes_what_is_written(text: str) -> None:
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    for written in (
        f"k: {format_scalar(text)}\n",
        f"k: [{format_scalar(text)}, x]\n",
        f"{{{format_scalar(text)}: x}}\n",
    ):
        for loader in (yaml.SafeLoader, yaml.CSafeLoader):
            loaded = yaml.load(written, Loader=loader)
            assert loaded in ({"k": text}, {"k": [text, "x"]}, {text: "x"})
    assert parse_entries(f"k: {format_scalar(text)}\n")[0][0].value == text


@settings(deadline=None, derandomize=True, max_examples=80)
@given(
    st.lists(
        st.one_of(
            st.builds(
                lambda k, v: f"{k}: {v}",
                reference,
                st.one_of(word, stated.map(format_flow), words.map(format_flow)),
            ),
            line,
        ),
        max_size=4,
    )
)
@example(["a: 'x'"])
@example(["a: b", "a: c"])
@example(["a: b", "  c"])
@example(["a: b #c"])
@example(['a: "x" '])
@example(["a: [b, c d, 1.0]"])
@example(["a: []"])
@example(['a: {b: c, d: "e"}'])
@example(["a: {b: c, b: d}"])
@example(["a: {}"])
def test_the_short_way_reads_as_the_long_way(lines: list[str]) -> None:
    text = "\n".join(lines)
    simple = parse_simple(text)
    if simple is None:
        return
    entries, _ = parse_entries(text)
    assert [(entry.key, entry.value) for entry in entries] == list(simple.items())
    for entry in entries:
        assert type(entry.value) is type(simple[entry.key or ""])


def test_key_order_and_form_are_those_of_the_format_page() -> None:
    record = Record(
        id="decision_caching_1763650000123_k3f9w2ma",
        type="decision",
        title="Switch to a local LRU cache",
        text="Redis added too much operational burden for one process.",
        topic="caching",
        topic_stated=True,
        created=1763650000123,
        confidence=0.85,
        supersedes=("decision_caching_1761300000456_x7q2c0ne",),
        builds_on=("decision_deploy_1760000000000_ab12tz5r",),
        affects=("src/cache/lru.py",),
        tags=("performance",),
        agent="claude-code",
        rejected=("Keep Redis: one more service to run",),
        outcomes=(Outcome(1764062043000, "failed", "evicts too early under load"),),
    )
    assert render_record(record).decode() == (
        "---\n"
        "id: decision_caching_1763650000123_k3f9w2ma\n"
        "type: decision\n"
        "topic: caching\n"
        'created: "2025-11-20T14:46:40.123Z"\n'
        "confidence: 0.85\n"
        "outcome: failed\n"
        "supersedes: [decision_caching_1761300000456_x7q2c0ne]\n"
        "builds_on: [decision_deploy_1760000000000_ab12tz5r]\n"
        "affects: [src/cache/lru.py]\n"
        "tags: [performance]\n"
        "agent: claude-code\n"
        "---\n"
        "# Switch to a local LRU cache\n\n"
        "Redis added too much operational burden for one process.\n\n"
        "## Rejected\n"
        "- Keep Redis: one more service to run\n\n"
        "## Outcomes\n"
        "- 2025-11-25T09:14:03Z failed: evicts too early under load\n"
    )
    assert (
        build_record_path(record)
        == "decisions/2025/11/caching--20251120-switch-to-a-local-lru-cache-k3f9w2ma.md"
    )


@pytest.mark.parametrize(
    ("decision", "title", "section"),
    [
        ("Use SQLite", "Use SQLite", False),
        ("x" * 100, "x" * 100, False),
        ("x" * 101, "x" * 100, True),
        ("First line\nsecond line", "First line", True),
        ("\n\n  Use SQLite  \n", "Use SQLite", False),
    ],
)
def test_a_long_decision_is_kept_whole(decision: str, title: str, section: bool) -> None:
    record = Record(
        id="decision_a_1_abcdefgh", type="decision", decision=decision, topic="a", topic_stated=True
    )
    data = render_record(record)
    assert data.decode().splitlines()[5] == f"# {title}"
    assert (b"## Decision" in data) is section
    assert read(data).decision == decision.strip()


def test_hostile_text_opens_no_section() -> None:
    reasoning = (
        "because\n## Outcomes\n- 2025-01-01 success: says who?\n```\n## Rejected\n```\n"
        "\\## Decision\n## Decision\n```sh\nnever closed\n## Outcomes\n<<<<<<< HEAD\n=======\n>>>>>>> x"
    )
    record = Record(
        id="decision_a_1_abcdefgh",
        type="decision",
        title="A",
        text=reasoning,
        decision=f"A\n{reasoning}\n# Other",
        rejected=(f"B\n{reasoning}", "```"),
        outcomes=(Outcome(0, "failed", "```\n## Decision"),),
        topic="a",
        topic_stated=True,
    )
    found = read(render_record(record))
    assert found.text == reasoning
    assert found.decision == record.decision
    assert found.rejected == record.rejected
    assert found.outcomes == (Outcome(0, "failed", "``` ## Decision"),)


@pytest.mark.parametrize(
    "steps", ["Title\n=====\nmore", "# x\nmore", "## Context\nmore", "### x", "```\n# x\n```"]
)
def test_a_heading_in_a_section_is_no_title(steps: str) -> None:
    """A record without a title and text begins with a section: what callers give there never names the record."""
    checkpoint = Record(id="checkpoint_1_abcdefgh", type="checkpoint", next_steps=steps)
    survives(checkpoint)
    survives(checkpoint._replace(type="observation", next_steps="", facts=(steps,)))
    survives(
        checkpoint._replace(
            type="decision", next_steps="", topic="a", topic_stated=True, rejected=(steps,)
        )
    )
