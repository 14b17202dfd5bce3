"""The OpenAPI document, made from the table of routes: what it says is what is checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from filemem.web.entry import Entry, plain

Answer = dict[str, Any]
_REFUSED = {
    400: "the request is wrong; the message names the field",
    401: "the token is missing or wrong",
    403: "Origin or Sec-Fetch-Site is foreign",
    421: "Host is not ours",
    500: "a defect, or a repository that cannot be used",
    503: "another process is at work",
}
_BODY = {408: "the body did not arrive in time", 413: "the body is too large", 415: "the body is not called JSON"}
_WROTE = {404: "what it refers to is not there", 409: "two changes disagree"}


def document(entries: Iterable[Entry], others: Mapping[str, Mapping[str, Any]], version: str) -> Answer:
    """Describe the routes.

    Args:
        entries: the table.
        others: by path, the schema of a second thing that the same path takes.
        version: of this program.
    """
    paths: dict[str, Answer] = {}
    for entry in entries:
        for path in entry.paths:
            paths.setdefault(path, {})[entry.method.lower()] = _operation(entry, path, others.get(path))
    return {
        "openapi": "3.1.0",
        "info": {"title": "filemem", "version": version, "summary": "A project's memory, as files in its repository"},
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "address": {"type": "apiKey", "in": "query", "name": "token"},
            },
            "schemas": {
                "MamaError": {
                    "type": "object",
                    "properties": {"error": {"const": True}, "code": {"type": "string"}, "message": {"type": "string"}},
                    "required": ["error", "code", "message"],
                },
                "Error": {
                    "type": "object",
                    "properties": {"error": {"type": "string"}, "hint": {"type": "string"}},
                    "required": ["error"],
                },
            },
        },
    }


def _operation(entry: Entry, path: str, other: Mapping[str, Any] | None) -> Answer:
    schemas = [entry.schema, *([other] if other else [])]
    answer: Answer = {
        "summary": entry.summary,
        "operationId": f"{entry.method.lower()}{path.replace('/', '_').replace('{', '').replace('}', '')}",
        "responses": dict(_responses(entry, both=other is not None)),
        # {}: on loopback no token is needed, off loopback always.
        "security": [{"bearer": []}, {"address": []}, *([] if entry.writes else [{}])],
    }
    if entry.method == "POST":
        bodies = [_with_null(schema) for schema in schemas]
        schema = bodies[0] if len(bodies) == 1 else {"anyOf": bodies}
        return answer | {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
    if parameters := list(_parameters(schemas, path)):
        answer["parameters"] = parameters
    return answer


def _with_null(schema: Mapping[str, Any]) -> Answer:
    """A body in which what is not required may be null, which means that it is not there."""
    required = schema.get("required", ())
    properties = {
        name: said if name in required else {"anyOf": [said, {"type": "null"}]}
        for name, said in schema["properties"].items()
    }
    return {**schema, "properties": properties}


def _parameters(schemas: list[Mapping[str, Any]], path: str) -> Iterator[Answer]:
    told: set[str] = set()
    for schema in schemas:
        for name, said in schema["properties"].items():
            if name in told:
                continue
            told.add(name)
            inside = f"{{{name}}}" in path
            # Where a path takes two things, neither's parameters are required of the other.
            required = inside or (len(schemas) == 1 and name in schema.get("required", ()))
            # Nor what these must hold: which of the two is meant is told by which are there.
            shape = said if len(schemas) == 1 else {key: value for key, value in said.items() if key != "pattern"}
            yield {"name": name, "in": "path" if inside else "query", "required": required, "schema": shape}


def _responses(entry: Entry, *, both: bool) -> Iterator[tuple[str, Answer]]:
    if entry.medias:
        shape: Answer = {"type": "object", "required": list(entry.keys)} if entry.keys and not both else {}
        media = {one: {"schema": shape if one == "application/json" else {"type": "string"}} for one in entry.medias}
        yield "200", {"description": "the answer", "content": media}
    named = "Error" if entry.style is plain else "MamaError"
    error: Answer = {"$ref": f"#/components/schemas/{named}"}
    if both:
        error = {"anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in ("Error", "MamaError")]}
    statuses = {**_REFUSED, **(_BODY if entry.method == "POST" else {}), **(_WROTE if entry.writes else {})}
    for status, meaning in sorted({**statuses, **entry.codes}.items()):
        content: Answer = {"application/json": {"schema": error}}
        if status == 404 and "text/html" in entry.medias:  # for people: a page as well
            content = {"text/html": {"schema": {"type": "string"}}}
        yield str(status), {"description": meaning, **({} if status == 307 else {"content": content})}
