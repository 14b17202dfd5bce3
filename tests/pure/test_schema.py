"""Schemas say for machines what the format page says for people, and faults are told in our words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from filemem.record import KEYS, TYPES, parse_record, schema
from filemem.record.keys import LIST, MAPPING, ORIGIN, TEXT, TIME, WORDS, Key
from filemem.record.parse import parse_header
from filemem.record.yaml import to_typed_value

ROOT = Path(__file__).parents[2]


def load_schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(
        (ROOT / "schemas" / f"{name}.schema.json").read_text("utf-8")
    )
    return loaded


@pytest.mark.parametrize("name", TYPES)
def test_each_schema_is_valid_and_describes_every_key(name: str) -> None:
    loaded = load_schema(name)
    jsonschema_rs.meta.validate(loaded)
    assert loaded["$schema"].endswith("2020-12/schema")
    assert loaded["additionalProperties"] is True
    wanted = {key.name for key in KEYS if name in key.types} | {"title"}
    assert set(loaded["properties"]) == wanted
    for key, part in loaded["properties"].items():
        assert part["description"].endswith((".", "`")), key
    for key in KEYS:
        if key.choices and key.name != "type" and name in key.types:
            assert loaded["properties"][key.name]["enum"] == list(key.choices)
    assert loaded["properties"]["type"]["enum"] == [name]


DECISION = load_schema("decision")


@pytest.mark.parametrize(
    ("value", "field", "sentence"),
    [
        (
            {"confidence": "high"},
            "confidence",
            'confidence must be a number from 0 up to 1, not "high"',
        ),
        ({"confidence": 1.5}, "confidence", "confidence must be a number from 0 up to 1, not 1.5"),
        (
            {"outcome": "great"},
            "outcome",
            'outcome must be one of pending, success, partial, failed, not "great"',
        ),
        ({"tags": 5}, "tags", "tags must be text or a list, each text that is not empty, not 5"),
        ({"affects": ["a", ""]}, "affects[1]", 'affects[1] must be text that is not empty, not ""'),
        ({"secrets": True}, "secrets", "secrets must be allowed, not true"),
        ([], "", "the value must be an object, not []"),
    ],
)
def test_faults_of_a_decision(value: object, field: str, sentence: str) -> None:
    assert schema.check_value(DECISION, value) == ((field, sentence),)


def test_what_is_right_is_silent() -> None:
    assert (
        schema.check_value(
            DECISION, {"confidence": 0.5, "tags": "a", "anything": [1], "topic": "x"}
        )
        == ()
    )


STRICT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "topic": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 20},
        "offset": {"type": "integer", "minimum": 0},
        "open_files": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "metadata": {
            "type": "object",
            "properties": {"n": {"type": ["integer", "null"]}},
            "required": ["n"],
        },
        "ids": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]},
        "flag": {"type": "boolean"},
        "code": {"type": "string", "maxLength": 3},
        "name": {"type": "string", "pattern": "^[a-z]+$"},
    },
    "required": ["topic"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, ("topic", "topic is required")),
        (
            {"topic": "a", "limit": 0},
            ("limit", "limit must be a whole number from 1 up to 20, not 0"),
        ),
        (
            {"topic": "a", "limit": "5"},
            ("limit", 'limit must be a whole number from 1 up to 20, not "5"'),
        ),
        ({"topic": "a", "offset": -1}, ("offset", "offset must be a whole number from 0, not -1")),
        (
            {"topic": "a", "open_files": ["a", 5]},
            ("open_files[1]", "open_files[1] must be text, not 5"),
        ),
        (
            {"topic": "a", "open_files": ["a", "b", "c"]},
            (
                "open_files",
                'open_files must be a list of up to 2 items, each text, not ["a", "b", "c"]',
            ),
        ),
        ({"topic": "a", "metadata": {}}, ("metadata.n", "metadata.n is required")),
        (
            {"topic": "a", "metadata": {"n": "x"}},
            ("metadata.n", 'metadata.n must be a whole number or null, not "x"'),
        ),
        (
            {"topic": "a", "ids": 5},
            ("ids", "ids must be text or a list, each a whole number, not 5"),
        ),
        ({"topic": "a", "flag": "yes"}, ("flag", 'flag must be true or false, not "yes"')),
        (
            {"topic": "a", "code": "long"},
            ("code", 'code must be text of up to 3 characters, not "long"'),
        ),
        ({"topic": "a", "name": "A"}, ("name", 'name must be text that matches ^[a-z]+$, not "A"')),
        ({"topic": None}, ("topic", "topic must be text, not null")),
    ],
)
def test_faults_of_arguments(value: object, expected: tuple[str, str]) -> None:
    assert schema.check_value(STRICT, value) == (expected,)


def test_a_long_value_is_cut_and_odd_ones_do_not_raise() -> None:
    ((_, sentence),) = schema.check_value(STRICT, {"topic": ["x" * 1000]})
    assert len(sentence) < 120
    assert schema.check_value(STRICT, {"topic": "\ud800"}) == ()
    assert schema.check_value(STRICT, {"topic": "a", "limit": float("nan")})
    assert schema.check_value(STRICT, {"topic": {1, 2}})


def test_every_fault_is_told_once() -> None:
    faults = schema.check_value(STRICT, {"limit": 0, "flag": 1})
    assert sorted(field for field, _ in faults) == ["flag", "limit", "topic"]


# -- what the schemas say and what the parser says are one thing -------------------------------------------------

FIXTURES = sorted([*(ROOT / "fixtures").rglob("*.md"), *(ROOT / "memory").rglob("*.md")])
LENIENT = {  # the parser takes what people and other makers write; the schemas tell editors what to write
    "comments.md": "a template's blank: `outcome:` without a value states nothing",
    "madr-braces.md": "a template's braces left in: `status: {accepted}`",
    "title-key.md": "another maker's words: `status: Final`, `type: Technical`",
}


def judged(data: bytes, path: str) -> tuple[bool, bool]:
    """Whether the schema of its type refuses a file's header, and whether the parser does."""
    parsed = parse_record(data, path)
    assert parsed.record is not None, path
    text = (
        data.decode(errors="replace")
        .removeprefix("\ufeff")
        .replace("\r\n", "\n")
        .replace("\r", "\n")
    )
    header = {str(key): to_typed_value(value) for key, value in parse_header(text).values.items()}
    refused = bool(schema.check_value(load_schema(parsed.record.type), header))
    return refused, any(problem.code.startswith("bad-") for problem in parsed.problems)


def test_schema_and_parser_agree_on_every_record_we_have() -> None:
    for path in FIXTURES:
        refused, wrong = judged(path.read_bytes(), path.name)
        assert refused == (wrong or path.name in LENIENT), path


@pytest.mark.parametrize(
    "key", [key for key in KEYS if key.name != "type"], ids=lambda key: key.name
)
def test_schema_and_parser_refuse_the_same_value(key: Key) -> None:
    wrong = {
        TEXT: "{a: 1, b: 2}",
        TIME: "{a: 1, b: 2}",
        MAPPING: "word",
        LIST: "{a: 1}",
        WORDS: "{a: 1}",
    }
    wrong |= {ORIGIN: "[a, b]"}
    value = wrong.get(key.shape, "{a: 1, b: 2}")
    for type_ in key.types:
        header = f"---\ntype: {type_}\n{key.name}: {value}\n---\n# T\n"
        assert judged(header.encode(), "x.md") == (True, True), header


def test_no_problem_is_told_of_what_a_schema_allows() -> None:
    for name in TYPES:
        for key, part in load_schema(name)["properties"].items():
            for value in (*part.get("enum", ()), *part.get("examples", ())):
                above = "" if key == "type" else f"type: {name}\n"
                header = f"---\n{above}{key}: {json.dumps(value)}\n---\n# T\n"
                assert judged(header.encode(), "x.md") == (False, False), header
