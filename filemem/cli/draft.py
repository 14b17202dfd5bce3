"""The texts of a save: from an option, from a file, or from the user's editor."""

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

_CUT_LINE = "------------------------ >8 ------------------------"  # Git's own: no text below it
_DRAFT_KEY = "filemem.draft"  # under which click keeps the path of the draft


def edit_draft(text: bytes, field: str = "text") -> bytes:
    """Let the user edit a text; the draft is kept until the command succeeds. Raises BadInput."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput(
            f"no {field} given, and no terminal for an editor",
            "pass it with -F FILE",
            field,
        )
    context = click.get_current_context()
    with closing(Repo.discover(context.obj.folder)) as repo:
        editor = _find_editor(repo)
    path = context.meta[_DRAFT_KEY] = _create_file(repo.private_folder)
    path.write_bytes(text)
    sys.stderr.write(f"waiting for your editor; the text is in {path}\n")
    click.edit(filename=str(path), editor=editor)
    edited = path.read_bytes()
    if edited == text or not edited.partition(b"\n" + _CUT_LINE.encode())[0].strip():
        path.unlink()
        sys.stderr.write("nothing was saved: the text is empty or unchanged\n")
        raise click.exceptions.Exit(1)
    return edited


def delete_draft(context: click.Context) -> None:
    """Delete the draft of a command that succeeded."""
    if _DRAFT_KEY in context.meta:
        context.meta[_DRAFT_KEY].unlink()


def _find_editor(repo: Repo) -> str | None:
    """The editor that `git commit` opens; the settings of a repository alone cannot name one."""
    variable = repo.environment.get("GIT_EDITOR")
    return variable or repo.settings.get_text("core.editor", user_only=True) or None


def _create_file(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(".md", "draft-", folder)
    os.close(handle)
    return Path(name)


def fill_fields(options: Mapping[str, Any], text_field: str, heading_field: str = "") -> Fields:
    """The fields of a save. A missing text comes from -F or from the editor.

    `name` is the field of the text, `heading` that of its first line. Raises BadInput.
    """
    fields = {**options}
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
    return {**fields, **_split_text(text.strip(), fields, text_field, heading_field)}


def _edit_text(fields: Fields, text_field: str, heading_field: str) -> str:
    """What the user writes in the editor, above the line that ends the text."""
    instruction = f"Write the {text_field}."
    field = text_field
    if heading_field and not fields[heading_field]:
        instruction = f"Write the {heading_field} in the first line, the {text_field} below it."
        field = heading_field
    topic = "Topic: \n" if _needs_topic(fields) else ""
    template = (
        f"{topic}\n\n{_CUT_LINE}\nEverything below this line is ignored. {instruction}"
        " An empty text saves nothing.\n"
    )
    draft = edit_draft(template.encode(), field)
    return draft.decode(errors="replace").partition(f"\n{_CUT_LINE}")[0]


def _split_text(text: str, fields: Fields, text_field: str, heading_field: str) -> dict[str, str]:
    """The topic, the heading and the text that a text states."""
    parts: dict[str, str] = {}
    topic = re.match(r"(?i)topic:[ \t]*(.*)", text) if _needs_topic(fields) else None
    if topic:
        parts["topic"] = topic[1]
        text = text[topic.end() :].strip()
    body = text.removeprefix("# ")
    if (
        heading_field
        and not fields[heading_field]
        and (body != text or heading_field == "decision")
    ):
        first_line, _, remaining_text = body.partition("\n")
        parts[heading_field] = first_line.strip()
        body = remaining_text.strip()
    return {**parts, text_field: body}


def _needs_topic(fields: Fields) -> bool:
    """Whether a record takes a topic, and none is stated."""
    return "topic" in fields and fields["topic"] is None
