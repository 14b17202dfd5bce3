"""The workspace on the command line and in servers: which repositories are registered, and who may ask them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from filemem import config
from filemem.cli.options import as_json, pass_project
from filemem.cli.project import Project, emit
from filemem.errors import BadInput, FilememError, NotFound
from filemem.repo.run import find

if TYPE_CHECKING:
    from filemem.dialects.tool import Advertised, Tool
    from filemem.memory import Memory


@click.command()
@click.argument("action", type=click.Choice(["add", "remove", "list"]))
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@as_json
@pass_project
def workspace(project: Project, action: str, paths: Sequence[str], as_json: bool) -> None:
    """Register repositories that are searched together; without PATH this one. `add` indexes their memories.

    The list is yours, in your own configuration: no repository can add itself or another one. `filemem search
    --workspace` asks all of them; so does an agent with `scope: workspace`, in a repository that is registered.

    \b
    Examples:
      filemem workspace add . ../api ../web
      filemem workspace list
      filemem workspace remove ../api
      filemem search --workspace "how do we cache?"
    """
    folders, known = [project.here / one for one in paths or (".",)], config.workspace()
    if action == "add":
        for folder in folders:
            with Project(str(folder)).memory() as memory:
                known = (*known, memory.work_tree)
        config.register(known)
    elif action == "remove":
        import shutil

        gone = {_named(folder) for folder in folders}
        if strange := gone - {*known}:
            raise NotFound(f"{min(strange)} is not registered", "filemem workspace list shows what is")
        config.register({*known} - gone)
        # What the cache has of them goes too: the next question makes it again of those that are left.
        shutil.rmtree(config.load(project.here).index_cache / "workspace", ignore_errors=True)
    found = list(map(str, config.workspace()))
    told = "\n".join(found) or "no repository is registered: filemem workspace add"
    emit({"success": True, "count": len(found), "repositories": found}, as_json, lambda _: told)


def _named(folder: Path) -> Path:
    """The work tree that a folder belongs to; of a folder that is gone its own name."""
    with suppress(FilememError):
        return find(folder).work_tree
    return Path(os.path.abspath(folder))  # noqa: PTH100 - no link in it can be followed any more


def join(memory: Memory, also: Sequence[Path] = (), *, registered: bool = True) -> None:
    """Let a memory be asked together with others, which are opened at the first question. Raises BadInput: none is."""
    from filemem.memory.workspace import Workspace

    if registered and not config.workspace():
        raise BadInput("no repository is registered", "filemem workspace add PATH... registers some")
    together = Workspace(memory, also, registered=registered)
    memory.closing.append(together.close)
    memory.workspace = lambda: together


def takes_part(project: Project) -> bool:
    """Whether the repository at hand is registered; any work tree of it counts."""
    own: list[Path] = []
    for folder in (project.here, *config.workspace()):
        with suppress(FilememError):
            own.append(find(folder).common_dir)
    return bool(own) and own[0] in own[1:]


def offered(project: Project, offer: Advertised) -> Advertised:
    """What a server offers: in a repository that is registered, `search` takes the scope `workspace` too."""
    if not takes_part(project):
        return offer
    dialect = offer.dialect._replace(tools=tuple(map(_scoped, offer.dialect.tools)))
    return offer._replace(dialect=dialect, tools=tuple(map(_scoped, offer.tools)))


def _scoped(tool: Tool) -> Tool:
    properties = tool.input_schema["properties"]
    if properties.get("scope", {}).get("enum") != ["project", "personal"] or "scope" in tool.unlisted:
        return tool
    scope = {"enum": ["project", "workspace", "personal"], "description": "workspace: other repositories too"}
    return tool._replace(input_schema={**tool.input_schema, "properties": {**properties, "scope": scope}})
