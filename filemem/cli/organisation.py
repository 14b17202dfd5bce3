"""An organisation's service as the command line and the servers ask it, if the user's own settings name one."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from filemem import config
from filemem.errors import BadInput
from filemem.org.client import Service

if TYPE_CHECKING:
    from filemem.cli.project import Project
    from filemem.dialects.tool import Call, Dialect


def service(project: Project) -> Service:
    """The service that the user's settings name. Raises BadInput: they name none."""
    stated = config.load(project.here)
    if not (stated.org_url and stated.org_token):
        hint = "set FILEMEM_ORG_URL and FILEMEM_ORG_TOKEN, or org_url and org_token in ~/.config/filemem/config.toml"
        raise BadInput("your settings name no service of an organisation", hint, field="org")
    return Service(stated.org_url, stated.org_token)


def offered(project: Project, offer: Dialect) -> Dialect:
    """What a server offers: where a service is named, filemem's own `search` and `get` take the scope `org` too."""
    with suppress(BadInput):  # the first call says what is wrong with the settings
        asked = service(project)
        calls: dict[str, Call | None] = {
            "search": lambda _, given: asked.ask("search", given),
            "get": lambda _, given: asked.ask("get", given),
        }
        return offer.scoped("org", "org: what other teams recorded", calls)
    return offer
