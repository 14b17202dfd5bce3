"""An organisation's service beside the memory at hand: what `--org` and the scope `org` ask."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filemem import config
from filemem.errors import BadInput, FilememError, NotFound
from filemem.org.client import Service

if TYPE_CHECKING:
    from filemem.dialects.tool import Call, Dialect

_WHOLE_ID = re.compile(r"(decision|checkpoint|observation)_\w+_[0-9a-z]{8}|file_[0-9a-z]{16}")
LocalCall = Callable[[], Mapping[str, Any]]


def require_service(folder: Path) -> Service:
    """Return the service that the user's settings name. Raises BadInput: they name none."""
    settings = config.load(folder)
    if not settings.org_url or not settings.org_token:
        hint = (
            "set FILEMEM_ORG_URL and FILEMEM_ORG_TOKEN, or org_url and org_token in"
            " ~/.config/filemem/config.toml"
        )
        raise BadInput("your settings name no service of an organisation", hint, field="org")
    return Service(settings.org_url, settings.org_token)


def add_org_scope(folder: Path, tools: Dialect) -> Dialect:
    """Give `search` and `get` the scope `org` too, if a service is named."""
    with suppress(BadInput):  # the first call says what is wrong with the settings
        org_service = require_service(folder)
        calls: dict[str, Call | None] = {
            "search": lambda _, arguments: org_service.ask("search", arguments),
            "get": lambda _, arguments: org_service.ask("get", arguments),
        }
        return tools.add_scope("org", "org: what other teams recorded", calls)
    return tools


def search(org_service: Service, arguments: Mapping[str, Any], local: LocalCall) -> dict[str, Any]:
    """Search the service and the local memory; the best of both first, ours unmarked.

    Raises what the service raises.
    """
    service_answer = org_service.ask("search", arguments)
    local_answer = _search_locally(local)
    results = list(local_answer["results"])
    local_ids = {result["id"] for result in results}
    results += [result for result in service_answer["results"] if result["id"] not in local_ids]
    results.sort(key=_get_score, reverse=True)
    limit = arguments.get("limit") or len(results)
    best_results = results[:limit]
    answer: dict[str, Any] = {"success": True}
    for name in ("note", "degraded"):
        texts = [text for text in (local_answer.get(name), service_answer.get(name)) if text]
        if texts:
            answer[name] = "; ".join(texts)
    return {**answer, "count": len(best_results), "results": best_results}


def _search_locally(local: LocalCall) -> Mapping[str, Any]:
    """Search the local memory; without one, or if it fails, there are no results."""
    try:
        return local()
    except NotFound:  # there is no memory here: nothing is lacking
        return {"results": []}
    except FilememError as error:
        note = f"only the organisation was asked: {error.message}"
        return {"results": [], "degraded": note}


def _get_score(result: Mapping[str, Any]) -> float:
    return float(result.get("score", 0.0))


def get(folder: Path, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Show records that the memory at hand does not know; None if no service is to be asked.

    Only whole ids leave this machine. Raises what the service raises.
    """
    ids = arguments.get("ids", ())
    settings = config.load(folder)
    if not ids or not settings.org_url:
        return None
    if not all(_WHOLE_ID.fullmatch(name) for name in ids):
        return None
    return require_service(folder).ask("get", {"ids": list(ids)})


def check_service(folder: Path) -> tuple[str, str] | None:
    """Say whether the service answers, and what to do; None if the settings name none."""
    settings = config.load(folder)
    if not settings.org_url:
        return None
    try:
        require_service(folder).ask("search", {"query": "filemem", "limit": 1})
    except FilememError as error:
        return f"{settings.org_url} does not answer you", f"organisation: {error.one_line}"
    return f"{settings.org_url} answers", ""
