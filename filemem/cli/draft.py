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

_CUT = "------------------------ >8 ------------------------"  # Git's own: no text below it
_KEY = "filemem.draft"  # under which click keeps the path of the draft


def drafted(text: bytes, field: str = "text") -> bytes:
    """Let the user edit a text; the draft is kept until the command succeeds. Raises BadInput."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput(
            f"no {field} given, and no terminal for an editor",
            "pass it with -F FILE",
            field,
        )
    context = click.get_current_context()
    with closing(Repo.discover(context.obj.folder)) as repo:
        editor = _editor(repo)
    path = context.meta[_KEY] = _new_file(repo.private)
    path.write_bytes(text)
    sys.stderr.write(f"waiting for your editor; the text is in {path}\n")
    click.edit(filename=str(path), editor=editor)
    edited = path.read_bytes()
    if edited == text or not edited.partition(b"\n" + _CUT.encode())[0].strip():
        path.unlink()
        sys.stderr.write("nothing was saved: the text is empty or unchanged\n")
        raise click.exceptions.Exit(1)
    return edited


def discard(context: click.Context) -> None:
    """Delete the draft of a command that succeeded."""
    if _KEY in context.meta:
        context.meta[_KEY].unlink()


def _editor(repo: Repo) -> str | None:
    """The editor that `git commit` opens; the settings of a repository alone cannot name one."""
    variable = repo.environment.get("GIT_EDITOR")
    return variable or repo.settings.text("core.editor", user_only=True) or None


def _new_file(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(".md", "draft-", folder)
    os.close(handle)
    return Path(name)


def filled(options: Mapping[str, Any], name: str, heading: str = "") -> Fields:
    """The fields of a save. A missing text comes from -F or from the editor.

    `name` is the field of the text, `heading` that of its first line. Raises BadInput.
    """
    fields = {**options}
    whole = fields.pop("file")
    if fields[name] is not None:
        if whole is not None:
            raise BadInput(f"-F and --{name} both give the {name}", "use one of them", field=name)
        return fields
    if whole is None:
        whole = _written(fields, name, heading)
    return {**fields, **_divided(whole.strip(), fields, name, heading)}


def _written(fields: Fields, name: str, heading: str) -> str:
    """What the user writes in the editor, above the line that ends the text."""
    instruction = f"Write the {name}."
    field = name
    if heading and not fields[heading]:
        instruction = f"Write the {heading} in the first line, the {name} below it."
        field = heading
    topic = "Topic: \n" if _lacks_topic(fields) else ""
    template = (
        f"{topic}\n\n{_CUT}\nEverything below this line is ignored. {instruction}"
        " An empty text saves nothing.\n"
    )
    draft = drafted(template.encode(), field)
    return draft.decode(errors="replace").partition(f"\n{_CUT}")[0]


def _divided(text: str, fields: Fields, name: str, heading: str) -> dict[str, str]:
    """The topic, the heading and the text that a text states."""
    parts: dict[str, str] = {}
    topic = re.match(r"(?i)topic:[ \t]*(.*)", text) if _lacks_topic(fields) else None
    if topic:
        parts["topic"] = topic[1]
        text = text[topic.end() :].strip()
    body = text.removeprefix("# ")
    if heading and not fields[heading] and (body != text or heading == "decision"):
        first, _, rest = body.partition("\n")
        parts[heading] = first.strip()
        body = rest.strip()
    return {**parts, name: body}


def _lacks_topic(fields: Fields) -> bool:
    """Whether a record takes a topic, and none is stated."""
    return "topic" in fields and fields["topic"] is None
