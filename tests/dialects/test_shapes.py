"""Shapes that models send are taken in every profile; what is refused says with an example what is taken."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from filemem.dialects import parameter, shapes
from filemem.dialects.call import validate_arguments
from filemem.dialects.tool import DIALECTS, Tool, load_profile
from filemem.errors import BadInput
from filemem.memory import Memory
from tests.dialects.support import good, refused
from tests.dialects.test_bad_input import valid

_TABLE = parameter.build_schema(
    (
        parameter.build_text_or_list("words"),
        parameter.build_text("text"),
        parameter.build_text_list("texts"),
        parameter.build_flag("flag"),
        parameter.build_fraction("share"),
        parameter.build_integer("limit", minimum=1, maximum=20, default=10),
        parameter.build_object("metadata"),
        parameter.build_identifier("either"),
        parameter.build_choice("pick", ("one", "two")),
    )
)["properties"]


@pytest.mark.parametrize(
    ("name", "sent", "taken"),
    [
        ("text", ["first", "second"], "- first\n- second"),
        ("text", ["first"], "first"),
        ("text", ["a", 5], ["a", 5]),
        ("text", '["a"]', '["a"]'),  # a text may be JSON and is text all the same
        ("text", [], []),
        ("texts", "one", ["one"]),
        ("texts", '["one", "two"]', ["one", "two"]),
        ("words", '["src/a.py", "b"]', ["src/a.py", "b"]),
        ("words", "[abc]*.py", "[abc]*.py"),
        ("words", "5", "5"),
        ("flag", "true", True),
        ("flag", "False", False),
        ("flag", "1", "1"),
        ("share", "0.9", 0.9),
        ("share", "true", "true"),
        ("share", "NaN", "NaN"),
        ("limit", "5", 5),
        ("limit", "many", "many"),
        ("limit", "[" * 100_000, "[" * 100_000),
        ("metadata", '{"a": 1}', {"a": 1}),
        ("metadata", "a", "a"),
        ("either", "5", "5"),
        ("pick", ["one"], "one"),
        ("unknown", ["x"], ["x"]),
    ],
)
@pytest.mark.requirement("bad-input")
def test_a_value_in_the_shape_of_its_property(name: str, sent: object, taken: object) -> None:
    assert shapes.fit_arguments(_TABLE, {name: sent}) == {name: taken}


@pytest.mark.requirement("bad-input")
def test_a_count_above_its_maximum_is_limited_with_a_note() -> None:
    sent: dict[str, object] = {"limit": 1000, "share": 5, "text": "x"}
    taken, note = shapes.limit_counts(_TABLE, sent)
    assert taken == {**sent, "limit": 20}
    assert note == "limit 1000 is above the maximum: 20 is used"
    assert shapes.limit_counts(_TABLE, {"limit": 20})[1] == ""
    assert (
        shapes.limit_counts({"offset": {"type": "integer", "maximum": 9}}, {"offset": 10})[1] == ""
    )


def odd(schema: Mapping[str, Any], value: Any) -> Iterator[Any]:
    """The same value in the shapes that models send."""
    kinds = {part.get("type") for part in schema.get("anyOf", [schema])}
    if isinstance(value, str) and kinds == {"string"} and "enum" not in schema:
        yield [value]
        yield [value, value]
    if isinstance(value, str) and "array" in kinds:
        yield json.dumps([value])
    if isinstance(value, list):
        yield json.dumps(value)
    if isinstance(value, int | float):
        yield str(value)


USUAL = {"integer": 3, "number": 0.5, "boolean": True, "array": ["x"], "string": "x"}


def usual(schema: Mapping[str, Any]) -> Any:
    """A value that a property takes."""
    if "anyOf" in schema:
        return usual(schema["anyOf"][-1])
    if schema.get("items") == {"type": "object"}:
        return [{"dependency": "x"}]
    return schema["enum"][0] if "enum" in schema else USUAL.get(schema.get("type", ""))


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "all"])
@pytest.mark.requirement("bad-input")
def test_each_argument_of_each_tool_takes_them(dialect: str) -> None:
    count = 0
    for tool in load_profile(dialect).listed_tools:
        base = {name: str(value) for name, value in valid(dialect, tool).items()}
        base = {name: value for name, value in base.items() if not value.startswith("[")}
        for name, schema in tool.input_schema["properties"].items():
            for sent in odd(schema, usual(schema)):
                loose = tool._replace(input_schema={**tool.input_schema, "required": []})
                validate_arguments(loose, {**base, name: sent})
                count += 1
    assert count


@pytest.mark.requirement("bad-input")
def test_lists_of_wordings_are_searched_together(memory: Memory) -> None:
    memory.save(topic="cache", decision="Keep prices in Redis", reasoning="Fast")
    query = ["where do cached prices go", "Redis"]
    for dialect in ("native", "mama", "mem-claude"):
        assert "Redis" in str(good(memory, dialect, "search", query=query)), dialect
    saved = good(memory, "native", "save", summary=["one", "two"], next_steps=["verify", "write"])
    [found] = good(memory, "native", "get", id=saved["id"])["results"]
    assert found["next_steps"] == "- verify\n- write"


@pytest.mark.parametrize(
    ("dialect", "tool", "more"),
    [
        ("native", "search", {}),
        ("mama", "search", {}),
        ("mem-claude", "search", {}),
        ("powermem", "search_memories", {"query": "x"}),
    ],
)
@pytest.mark.requirement("bad-input")
def test_a_limit_above_the_maximum_is_answered_with_a_note(
    memory: Memory, dialect: str, tool: str, more: dict[str, Any]
) -> None:
    told = good(memory, dialect, tool, limit="5000", **more)
    assert "limit 5000 is above the maximum" in str(told)


@pytest.mark.parametrize(
    ("sent", "example"),
    [
        ({"metadata": 5}, '{"metadata": {"key": "value"}}'),
        ({"facts": 5}, '{"facts": "some text"}'),
        ({"confidence": "much"}, '{"confidence": 0.5}'),
        ({"guards": 5}, '{"guards": [{"forbid": "import redis", "in": ["src/**"]}]}'),
        ({"rejected": 5}, '{"rejected": ["some text"]}'),
    ],
)
@pytest.mark.requirement("bad-input")
def test_a_refusal_shows_the_shape_that_is_taken(
    memory: Memory, sent: dict[str, Any], example: str
) -> None:
    decided = {"topic": "t", "decision": "d", "reasoning": "r"}
    error = refused(memory, "native", "save", **decided, **sent)["error"]
    assert f"for example {example}" in error["hint"]


@pytest.mark.parametrize("form", ["object", "text", "list", "list as text"])
@pytest.mark.requirement("bad-input")
def test_one_guard_is_a_list_of_one(memory: Memory, form: str) -> None:
    guard = {"forbid": "import redis", "in": ["src/**"]}
    forms = {
        "object": guard,
        "text": json.dumps(guard),
        "list": [guard],
        "list as text": json.dumps([guard]),
    }
    decided = {"topic": "t", "decision": "d", "reasoning": "r"}
    saved = good(memory, "native", "save", **decided, guards=forms[form])
    assert [one.mapping for one in memory.get(saved["id"])[0].record.guards] == [guard]


@pytest.mark.requirement("bad-input")
def test_what_is_missing_has_no_example() -> None:
    tool = Tool(
        "x",
        "",
        parameter.build_schema([parameter.build_text("a", is_required=True)]),
        lambda *_: {},
    )
    with pytest.raises(BadInput) as failure:
        validate_arguments(tool, {})
    assert "example" not in failure.value.hint
