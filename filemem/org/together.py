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
    if not (settings.org_url and settings.org_token):
        hint = "set FILEMEM_ORG_URL and FILEMEM_ORG_TOKEN, or org_url and org_token in"
        raise BadInput(
            "your settings name no service of an organisation",
            f"{hint} ~/.config/filemem/config.toml",
            field="org",
        )
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
    """Search the service and the memory at hand; the best of both first, ours unmarked.

    What the memory at hand cannot answer, as there is none, is left out. Raises what the service
    raises.
    """
    service_answer = org_service.ask("search", arguments)
    try:
        local_answer = dict(local())
    except NotFound:  # there is no memory here: nothing is lacking
        local_answer = {"results": []}
    except FilememError as error:
        local_answer = {
            "results": [],
            "degraded": f"only the organisation was asked: {error.message}",
        }
    local_ids = {result["id"] for result in local_answer["results"]}
    other_results = [
        result for result in service_answer["results"] if result["id"] not in local_ids
    ]
    results = sorted(
        [*local_answer["results"], *other_results], key=lambda result: -result.get("score", 0.0)
    )
    best_results = results[: arguments.get("limit") or len(results)]
    notes = {
        name: "; ".join(filter(None, (local_answer.get(name), service_answer.get(name))))
        for name in ("note", "degraded")
    }
    stated_notes = {name: text for name, text in notes.items() if text}
    return {"success": True, **stated_notes, "count": len(best_results), "results": best_results}


def get(folder: Path, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Show records that the memory at hand does not know; None if no service is to be asked.

    Only whole ids leave this machine. Raises what the service raises.
    """
    ids = arguments.get("ids", ())
    settings = config.load(folder)
    if not (ids and settings.org_url and all(map(_WHOLE_ID.fullmatch, ids))):
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
