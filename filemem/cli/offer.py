"""The tools that a server offers to the client of a project."""

from __future__ import annotations

from contextlib import suppress

from filemem import config
from filemem.cli.project import Project
from filemem.cli.workspace import is_registered
from filemem.dialects.tool import Dialect, load_profile
from filemem.errors import BadInput


def build_dialect(project: Project, name: str, prefix: str) -> Dialect:
    """Build the tools of a profile; in a registered repository `search` gets more scope."""
    tools = load_profile(name, prefix)
    if not is_registered(project):
        return tools
    return tools.add_scope("workspace", "workspace: other repositories too", {"search": None})


def add_org_scope(project: Project, tools: Dialect) -> Dialect:
    """Add the scope `org`, if the user's settings name a service."""
    with suppress(BadInput):  # the first call reports invalid settings
        if config.load(project.working_folder).org_url:
            from filemem.org import together

            return together.add_org_scope(project.working_folder, tools)
    return tools
