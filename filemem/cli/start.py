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


def apply_settings(profile: str, variables: Path | None) -> str:
    """Take the settings that a profile and a file of variables bring; return what is unneeded."""
    if profile == "powermem":
        config.create_powermem_settings()
    return config.load_environment_file(variables) if variables else ""


def read_powermem_user(file: Path | None) -> tuple[str, str]:
    """The user that a settings file of powermem names, and which of its settings are unneeded."""
    if file is None:
        return "", ""
    user, unneeded = config.read_powermem_file(file)
    reason = "not needed here: docs/migrating.md says why"
    return user, f"{file.name}: {unneeded} {reason}" if unneeded else ""


def iter_hints(project: Project, profile: str) -> Iterator[str]:
    """What a user should know at the start of a server."""
    yield config.read_web_settings().unneeded_note
    if profile.startswith("mama"):
        yield _build_import_hint(project)
    if sys.stdin.isatty():
        yield (
            "waiting for an MCP client on standard input;"
            " docs/mcp.md says how to connect one; Ctrl-C ends"
        )


def _build_import_hint(project: Project) -> str:
    """How to import an old database of MAMA; "" if there is none, or if it was shown before."""
    database = (
        None if project.personal else config.find_usual_source("mama", project.working_folder)
    )
    if database is None:
        return ""
    with suppress(FilememError), closing(Repo.discover(project.working_folder)) as repo:
        if repo.claim_notice("mama"):
            command = "`filemem import mama --dry-run` shows what of them belongs here"
            return f"{database} holds memories of MAMA; {command}"
    return ""
