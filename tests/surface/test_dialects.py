"""Dialects as data: registry, checking of arguments, wording of failures."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, cast

import pytest

from filemem.dialects.call import MAX_DEPTH, call
from filemem.dialects.tool import build_failure, load_profile
from filemem.errors import BadInput, BrokenStore, Conflict, FilememError, Locked, NotFound
from tests.surface.server_tools import DIALECT, Notebook


def ask(name: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    reply = call(DIALECT, cast(Any, Notebook()), name, arguments)
    assert isinstance(reply.payload, dict)
    return reply.payload, reply.is_error


def refused(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    payload, is_error = ask(name, arguments)
    assert is_error
    assert payload["success"] is False
    return cast("dict[str, Any]", payload["error"])


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"text": "a\0b"}, "text"),
        ({"text": "a\ud800b"}, "text"),
        ({"x": {"y": ["fine", "\0"]}}, "x.y[1]"),
        ({"x": {"\udfff": 1}}, "x"),
        ({"\0": 1}, "arguments"),
        ({"x": float("inf")}, "x"),
        ({"x": float("nan")}, "x"),
        ({"x": [-(2**63)]}, "x[0]"),
    ],
)
def test_what_no_file_can_hold_is_refused(arguments: dict[str, Any], field: str) -> None:
    error = refused("crash", arguments)
    assert error["kind"] == "bad_input"
    assert error["field"] == field


def test_bottomless_arguments_are_refused() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    error = refused("crash", {"x": deep})
    assert error["field"] == "x"
    assert str(MAX_DEPTH) in error["message"]


def test_a_defect_passes_through() -> None:
    with pytest.raises(RuntimeError, match="secret detail"):
        call(DIALECT, cast(Any, Notebook()), "crash", {})


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            BadInput("m", "h", field="f"),
            {"kind": "bad_input", "message": "m", "hint": "h", "field": "f"},
        ),
        (BadInput("m"), {"kind": "bad_input", "message": "m", "hint": ""}),
        (NotFound("m", "h"), {"kind": "not_found", "message": "m", "hint": "h"}),
        (
            Conflict("m", "h", ("a", "b")),
            {"kind": "conflict", "message": "m", "hint": "h", "heads": ["a", "b"]},
        ),
        (Locked("m", "h"), {"kind": "locked", "message": "m", "hint": "h"}),
        (BrokenStore("m", "h"), {"kind": "broken_store", "message": "m", "hint": "h"}),
        (FilememError("m", "h"), {"kind": "internal", "message": "m", "hint": "h"}),
    ],
)
def test_the_envelope_of_each_kind(error: FilememError, expected: dict[str, object]) -> None:
    assert build_failure(error) == {"success": False, "error": expected}


def test_an_unknown_profile_is_bad_input() -> None:
    with pytest.raises(BadInput, match="nativ") as caught:
        load_profile("nativ")
    assert "'native'" in caught.value.hint


def test_the_registry_is_light() -> None:
    """The front answers from it, in a process that may never need more."""
    probe = (
        "import sys; import filemem.server, filemem.dialects.tool; "
        "heavy = {'mcp', 'pydantic', 'asyncio', 'numpy', 'jsonschema_rs', 'anyio', 'click', 'yaml'}; "
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_prefix_renames_what_is_listed_and_keeps_the_bare_names_callable() -> None:
    offer = load_profile("native", "mama_")
    assert all(tool.name.startswith("mama_") for tool in offer.listed_tools)
    callable_names = {tool.name for tool in offer.tools}
    assert {"mama_save", "save"} <= callable_names


@pytest.mark.parametrize("prefix", ["1", "a b", "a__", "x" * 64, "é", "a\n"])
def test_a_prefix_that_hosts_refuse_is_bad_input(prefix: str) -> None:
    with pytest.raises(BadInput) as caught:
        load_profile("native", prefix)
    assert caught.value.field == "prefix"
