"""What is wrong with the parameters of a request, in our words: the SDK says "Invalid request parameters" alone."""

from __future__ import annotations

from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from filemem.server.jsonrpc import INVALID_PARAMS

_MOST = 3  # that are named
_TYPES = ("str", "int", "float", "bool")
_KINDS = {
    "string_type": "text",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "list_type": "a list",
    "int_type": "a whole number",
    "bool_type": "true or false",
}


async def explain(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Answer a request, and say of one that breaks the protocol what breaks it.

    Raises:
        MCPError: the parameters are not those of the method.
    """
    try:
        return await call_next(ctx)
    except ValidationError as error:
        told = [_worded(one) for one in error.errors(include_url=False, include_context=True, include_input=False)]
        first = "; ".join(list(dict.fromkeys(told))[:_MOST])
        raise MCPError(INVALID_PARAMS, f"{ctx.method}: {first}") from None


def _worded(error: Any) -> str:
    """One error as a sentence. Pydantic names the models of a union among the keys; these are not the caller's."""
    keys = [str(key) for key in error["loc"] if not (isinstance(key, str) and (key[:1].isupper() or key in _TYPES))]
    name = ".".join(keys[1:] or keys) or "params"
    if error["type"] == "missing":
        return f"{name} is missing"
    if expected := error.get("ctx", {}).get("expected"):
        return f"{name} must be {expected}"
    return f"{name} must be {_KINDS.get(error['type'], 'of another form')}"
