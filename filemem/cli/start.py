"""The settings and hints of a server at its start."""

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
    """Apply the settings of a profile and of a file of variables.

    Returns a note on settings that are not needed, or "".
    """
    if profile == "powermem":
        config.create_powermem_settings()
    if variables is None:
        return ""
    return config.load_environment_file(variables)


def read_powermem_user(file: Path | None) -> tuple[str, str]:
    """Return the user that a settings file of powermem names, and a note on unneeded settings."""
    if file is None:
        return "", ""
    user, unneeded = config.read_powermem_file(file)
    if not unneeded:
        return user, ""
    return user, f"{file.name}: {unneeded} not needed here: docs/migrating.md says why"


def iter_hints(project: Project, profile: str) -> Iterator[str]:
    """Yield what a user should know at the start of a server; "" for nothing."""
    yield config.read_web_settings().unneeded_note
    if profile.startswith("mama"):
        yield _build_import_hint(project)
    if sys.stdin.isatty():
        yield (
            "waiting for an MCP client on standard input;"
            " docs/mcp.md says how to connect one; Ctrl-C ends"
        )


def _build_import_hint(project: Project) -> str:
    """Build a hint on an old database of MAMA; "" if there is none, or if it was shown before."""
    if project.personal:
        return ""
    database = config.find_usual_source("mama", project.working_folder)
    if database is None:
        return ""
    with suppress(FilememError), closing(Repo.discover(project.working_folder)) as repo:
        if repo.claim_notice("mama"):
            command = "`filemem import mama --dry-run` shows what of them belongs here"
            return f"{database} holds memories of MAMA; {command}"
    return ""
