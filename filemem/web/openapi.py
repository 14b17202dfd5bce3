"""The OpenAPI document, made from the table of routes: what it says is what is checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from filemem.web.route import JSON, Answer, Route, plain

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
_TEXT = {"type": "string"}
_MAMA = {
    "type": "object",
    "properties": {"error": {"const": True}, "code": _TEXT, "message": _TEXT},
    "required": ["error", "code", "message"],
}
_PLAIN = {"type": "object", "properties": {"error": _TEXT, "hint": _TEXT}, "required": ["error"]}
_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "address": {"type": "apiKey", "in": "query", "name": "token"},
}


def document(routes: Iterable[Route], others: Mapping[str, Route], version: str) -> Answer:
    """Describe the routes; `others` has, by path, the route of a second thing that the same path serves."""
    paths: dict[str, Answer] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, others.get(route.path))
    return {
        "openapi": "3.1.0",
        "info": {"title": "filemem", "version": version, "summary": "A project's memory, as files in its repository"},
        "paths": paths,
        "components": {"securitySchemes": _SCHEMES, "schemas": {"MamaError": _MAMA, "Error": _PLAIN}},
    }


def _operation(route: Route, other: Route | None) -> Answer:
    schemas = [route.schema, *([other.schema] if other else [])]
    answer: Answer = {
        "summary": route.summary,
        "operationId": f"{route.method.lower()}{route.path.replace('/', '_').replace('{', '').replace('}', '')}",
        "responses": dict(_responses(route, both=other is not None)),
        # {}: on loopback no token is needed, off loopback always.
        "security": [{"bearer": []}, {"address": []}, *([] if route.writes else [{}])],
    }
    if route.method == "POST":
        bodies = [_with_null(schema) for schema in schemas]
        schema = bodies[0] if len(bodies) == 1 else {"anyOf": bodies}
        return answer | {"requestBody": {"required": True, "content": {JSON: {"schema": schema}}}}
    parameters = list(_parameters(schemas, route.path))
    return answer | ({"parameters": parameters} if parameters else {})


def _with_null(schema: Mapping[str, Any]) -> Answer:
    """A body in which what is not required may be null, which means that it is not there."""
    required, null = schema.get("required", ()), {"type": "null"}
    properties = schema["properties"].items()
    return {**schema, "properties": {k: v if k in required else {"anyOf": [v, null]} for k, v in properties}}


def _parameters(schemas: list[Mapping[str, Any]], path: str) -> Iterator[Answer]:
    """The parameters of a path. If it takes two things, neither's are required of the other, nor what they hold."""
    alone = len(schemas) == 1
    properties = {name: shape for schema in reversed(schemas) for name, shape in schema["properties"].items()}
    for name, shape in properties.items():
        inside = f"{{{name}}}" in path
        required = inside or (alone and name in schemas[0].get("required", ()))
        held = {key: value for key, value in shape.items() if alone or key != "pattern"}
        yield {"name": name, "in": "path" if inside else "query", "required": required, "schema": held}


def _responses(route: Route, *, both: bool) -> Iterator[tuple[str, Answer]]:
    if route.medias:
        shape: Answer = {"type": "object", "required": route.keys.split()} if route.keys and not both else {}
        media = {one: {"schema": shape if one == JSON else _TEXT} for one in route.medias}
        yield "200", {"description": "the answer", "content": media}
    names = ("Error", "MamaError") if both else ("Error",) if route.style is plain else ("MamaError",)
    errors: list[Answer] = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    statuses = {**_REFUSED, **(_BODY if route.method == "POST" else {}), **(_WROTE if route.writes else {})}
    for status, meaning in sorted({**statuses, **route.codes}.items()):
        content: Answer = {JSON: {"schema": {"anyOf": errors} if both else errors[0]}}
        if status == 404 and "text/html" in route.medias:  # for people: a page as well
            content = {"text/html": {"schema": _TEXT}}
        yield str(status), {"description": meaning, **({} if status == 307 else {"content": content})}
