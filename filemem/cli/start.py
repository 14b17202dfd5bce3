"""What a server takes and says at its start, beside the protocol."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from filemem import config
from filemem.cli.project import Project
from filemem.errors import FilememError
from filemem.repo import Repo


def take_settings(profile: str, variables: Path | None) -> str:
    """Take the settings that a profile and a file of variables bring; return what is unneeded."""
    if profile == "powermem":
        config.powermem_begin()
    return config.environment_file(variables) if variables else ""


def powermem_user(file: Path | None) -> tuple[str, str]:
    """The user that a settings file of powermem names, and which of its settings are unneeded."""
    if file is None:
        return "", ""
    user, unneeded = config.powermem_file(file)
    why = "not needed here: docs/migrating.md says why"
    return user, f"{file.name}: {unneeded} {why}" if unneeded else ""


def hints(project: Project, profile: str) -> Iterator[str]:
    """What a user should know at the start of a server."""
    yield config.web().unneeded
    if profile.startswith("mama"):
        yield _old_database(project)
    if sys.stdin.isatty():
        yield (
            "waiting for an MCP client on standard input;"
            " docs/mcp.md says how to connect one; Ctrl-C ends"
        )


def _old_database(project: Project) -> str:
    """How to import an old database of MAMA; "" if there is none, or if it was shown before."""
    database = None if project.personal else config.usual_source("mama", project.here)
    if database is None:
        return ""
    with suppress(FilememError), closing(Repo.discover(project.here)) as repo:
        if repo.first("mama"):
            command = "`filemem import mama --dry-run` shows what of them belongs here"
            return f"{database} holds memories of MAMA; {command}"
    return ""
