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
Ask = Callable[[], Mapping[str, Any]]


def service(here: Path) -> Service:
    """Return the service that the user's settings name. Raises BadInput: they name none."""
    stated = config.load(here)
    if not (stated.org_url and stated.org_token):
        hint = "set FILEMEM_ORG_URL and FILEMEM_ORG_TOKEN, or org_url and org_token in"
        raise BadInput(
            "your settings name no service of an organisation",
            f"{hint} ~/.config/filemem/config.toml",
            field="org",
        )
    return Service(stated.org_url, stated.org_token)


def offered(here: Path, tools: Dialect) -> Dialect:
    """Give `search` and `get` the scope `org` too, if a service is named."""
    with suppress(BadInput):  # the first call says what is wrong with the settings
        asks = service(here)
        calls: dict[str, Call | None] = {
            "search": lambda _, arguments: asks.ask("search", arguments),
            "get": lambda _, arguments: asks.ask("get", arguments),
        }
        return tools.scoped("org", "org: what other teams recorded", calls)
    return tools


def search(asked_of: Service, arguments: Mapping[str, Any], local: Ask) -> dict[str, Any]:
    """Search the service and the memory at hand; the best of both first, ours unmarked.

    What the memory at hand cannot answer, as there is none, is left out. Raises what the service
    raises.
    """
    away = asked_of.ask("search", arguments)
    try:
        here = dict(local())
    except NotFound:  # there is no memory here: nothing is lacking
        here = {"results": []}
    except FilememError as error:
        here = {"results": [], "degraded": f"only the organisation was asked: {error.message}"}
    own = {result["id"] for result in here["results"]}
    others = [result for result in away["results"] if result["id"] not in own]
    results = sorted([*here["results"], *others], key=lambda result: -result.get("score", 0.0))
    best = results[: arguments.get("limit") or len(results)]
    notes = {
        name: "; ".join(filter(None, (here.get(name), away.get(name))))
        for name in ("note", "degraded")
    }
    asides = {name: text for name, text in notes.items() if text}
    return {"success": True, **asides, "count": len(best), "results": best}


def get(here: Path, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Show records that the memory at hand does not know; None if no service is to be asked.

    Only whole ids leave this machine. Raises what the service raises.
    """
    ids = arguments.get("ids", ())
    stated = config.load(here)
    if not (ids and stated.org_url and all(map(_WHOLE_ID.fullmatch, ids))):
        return None
    return service(here).ask("get", {"ids": list(ids)})


def standing(here: Path) -> tuple[str, str] | None:
    """Say whether the service answers, and what to do; None if the settings name none."""
    stated = config.load(here)
    if not stated.org_url:
        return None
    try:
        service(here).ask("search", {"query": "filemem", "limit": 1})
    except FilememError as error:
        return f"{stated.org_url} does not answer you", f"organisation: {error.one_line}"
    return f"{stated.org_url} answers", ""
