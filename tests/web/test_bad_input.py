"""Every route, every argument: missing, of a wrong type, out of range. The answer names it, and nothing changes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from filemem.web.route import Route as Entry
from filemem.web.route import format_plain_failure
from filemem.web.routes import ROUTES
from tests.web.support import Reply, Server
from tests.web.test_security import BODIES, state

WRONG: tuple[Any, ...] = ({"a": 1}, [[1]], True)
HUGE = 10**25


def members(method: str) -> Iterator[tuple[Entry, str, Any]]:
    """The arguments of all routes: what each is called and what it may be."""
    for entry in ROUTES:
        if entry.method == method:
            yield from ((entry, name, said) for name, said in entry.schema["properties"].items())


def refused(entry: Entry, reply: Reply, name: str) -> None:
    """Check that a refusal is in the route's own words and names the argument."""
    assert reply.status == 400, (entry.path, name, reply)
    assert name in reply.text
    assert "Traceback" not in reply.text
    assert (
        isinstance(reply.body["error"], str)
        if entry.format_failure is format_plain_failure
        else reply.body["error"] is True
    )


def whole(entry: Entry) -> dict[str, Any]:
    """A request that could be answered, if it were not for what a test does to it."""
    return {
        key: "decision_none_1_aaaaaaaa" if value == "KNOWN" else value
        for key, value in BODIES[entry.path].items()
    }


def test_wrong_members_of_a_body(server: Server) -> None:
    before = state(server)
    for entry, name, said in members("POST"):
        body = whole(entry)
        if name in entry.schema.get("required", ()):
            refused(
                entry,
                server.post(entry.path, {key: value for key, value in body.items() if key != name}),
                name,
            )
            refused(entry, server.post(entry.path, {**body, name: None}), name)
        for value in (
            *WRONG[: -1 if said.get("type") == "boolean" else None],
            *_out_of_range(said),
        ):
            refused(entry, server.post(entry.path, {**body, name: value}), name)
    assert state(server) == before


def test_wrong_parameters(server: Server) -> None:
    for entry, name, said in members("GET"):
        path = entry.path.replace(":path", "")
        needed = {one: "a" for one in entry.schema.get("required", ()) if f"{{{one}}}" not in path}
        address = path.replace("{id}", "7").replace("{name}", "viewer.css")
        if name in needed:
            refused(
                entry,
                server.get(address, **{key: value for key, value in needed.items() if key != name}),
                name,
            )
        plain_type = said.get("type") in ("integer", "boolean", "number") or "enum" in said
        for value in (*_out_of_range(said), *(("perhaps", "1.5x") if plain_type else ())):
            refused(entry, server.get(address, **{**needed, name: value}), name)
        if f"{{{name}}}" not in path:
            refused(entry, server.get(address, **{**needed, name: "a\0b"}), name)
            if "array" not in str(said):
                refused(
                    entry,
                    server.ask("GET", f"{address}?{name}=1&{name}=1", headers=server.bearer),
                    name,
                )


def _out_of_range(said: dict[str, Any]) -> Iterator[Any]:
    if said.get("type") in ("integer", "number"):
        yield from (said["minimum"] - 1, -HUGE, HUGE)
        if "maximum" in said and said["type"] == "number":  # a whole number is limited, with a note
            yield said["maximum"] + 1
    elif "enum" in said:
        yield "none of these"


def test_other_methods_are_refused(server: Server) -> None:
    for entry, method in product(ROUTES, ("PUT", "PATCH", "DELETE", "TRACE", "PROPFIND")):
        reply = server.ask(
            method,
            entry.path.replace("{id}", "7"),
            None,
            {"Authorization": f"Bearer {server.token}"},
        )
        assert reply.status == 405
        assert entry.method in reply.headers["allow"]
