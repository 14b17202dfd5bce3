"""The tools that a server offers to the client of a project."""

from __future__ import annotations

from contextlib import suppress

from filemem import config
from filemem.cli.project import Project
from filemem.cli.workspace import takes_part
from filemem.dialects.tool import Dialect, profile
from filemem.errors import BadInput


def offer(project: Project, name: str, prefix: str) -> Dialect:
    """The tools of a profile; in a registered repository, `search` has the scope `workspace`."""
    tools = profile(name, prefix)
    if not takes_part(project):
        return tools
    return tools.scoped("workspace", "workspace: other repositories too", {"search": None})


def with_organisation(project: Project, tools: Dialect) -> Dialect:
    """Offer the scope `org` too, if the user's settings name a service."""
    with suppress(BadInput):  # the first call reports what is wrong with the settings
        if config.load(project.here).org_url:
            from filemem.org import together

            return together.offered(project.here, tools)
    return tools
