"""Get the texts of a save: from an option, from a file, or from the user's editor."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from filemem.cli.options import Fields
from filemem.errors import BadInput
from filemem.repo import Repo

_CUT_LINE = "------------------------ >8 ------------------------"  # the text ends here, as in Git
_DRAFT_KEY = "filemem.draft"  # key in the click context for the path of the draft


def edit_draft(text: bytes, field: str = "text") -> bytes:
    """Let the user edit a text; the draft is kept until the command succeeds.

    Raises BadInput without a terminal, Exit if the text is empty or unchanged.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput(
            f"no {field} given, and no terminal for an editor",
            "pass it with -F FILE",
            field,
        )
    context = click.get_current_context()
    with closing(Repo.discover(context.obj.folder)) as repo:
        editor = _find_editor(repo)
    path = _create_file(repo.private_folder)
    context.meta[_DRAFT_KEY] = path
    path.write_bytes(text)
    sys.stderr.write(f"waiting for your editor; the text is in {path}\n")
    click.edit(filename=str(path), editor=editor)
    edited = path.read_bytes()
    own_text = edited.partition(b"\n" + _CUT_LINE.encode())[0]
    if edited == text or not own_text.strip():
        path.unlink()
        sys.stderr.write("nothing was saved: the text is empty or unchanged\n")
        raise click.exceptions.Exit(1)
    return edited


def delete_draft(context: click.Context) -> None:
    """Delete the draft of a command that succeeded."""
    if _DRAFT_KEY in context.meta:
        context.meta[_DRAFT_KEY].unlink()


def _find_editor(repo: Repo) -> str | None:
    """Find the editor that `git commit` opens; None lets click choose.

    The settings of a repository cannot name one, only those of the user.
    """
    variable = repo.environment.get("GIT_EDITOR")
    if variable:
        return variable
    return repo.settings.get_text("core.editor", user_only=True) or None


def _create_file(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(suffix=".md", prefix="draft-", dir=folder)
    os.close(handle)
    return Path(name)


def fill_fields(options: Mapping[str, Any], text_field: str, heading_field: str = "") -> Fields:
    """Return the fields of a save; a missing text comes from -F or from the editor.

    Args:
        options: the options of the command.
        text_field: the field of the text.
        heading_field: the field of the first line, if that is another one.

    Raises BadInput.
    """
    fields = dict(options)
    text = fields.pop("file")
    if fields[text_field] is not None:
        if text is not None:
            raise BadInput(
                f"-F and --{text_field} both give the {text_field}",
                "use one of them",
                field=text_field,
            )
        return fields
    if text is None:
        text = _edit_text(fields, text_field, heading_field)
    fields.update(_split_text(text.strip(), fields, text_field, heading_field))
    return fields


def _edit_text(fields: Fields, text_field: str, heading_field: str) -> str:
    """Return what the user writes in the editor, above the cut line."""
    field = text_field
    instruction = f"Write the {text_field}."
    if heading_field and not fields[heading_field]:
        field = heading_field
        instruction = f"Write the {heading_field} in the first line, the {text_field} below it."
    topic_line = "Topic: \n" if _needs_topic(fields) else ""
    template = (
        f"{topic_line}\n\n{_CUT_LINE}\nEverything below this line is ignored. {instruction}"
        " An empty text saves nothing.\n"
    )
    draft = edit_draft(template.encode(), field)
    return draft.decode(errors="replace").partition(f"\n{_CUT_LINE}")[0]


def _split_text(text: str, fields: Fields, text_field: str, heading_field: str) -> dict[str, str]:
    """Split a text into topic, heading and the rest, if these fields are still missing."""
    parts: dict[str, str] = {}
    if _needs_topic(fields):
        topic_line = re.match(r"(?i)topic:[ \t]*(.*)", text)
        if topic_line:
            parts["topic"] = topic_line[1]
            text = text[topic_line.end() :].strip()
    has_heading = text.startswith("# ") or heading_field == "decision"
    body = text.removeprefix("# ")
    if has_heading and heading_field and not fields[heading_field]:
        first_line, _, remaining_text = body.partition("\n")
        parts[heading_field] = first_line.strip()
        body = remaining_text.strip()
    parts[text_field] = body
    return parts


def _needs_topic(fields: Fields) -> bool:
    """Return whether a record takes a topic, and none is stated."""
    return "topic" in fields and fields["topic"] is None
