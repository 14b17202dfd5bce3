"""What a shell completes besides commands and options, which click knows: topics, ids and files.

Rule: nobody waits for a completion, so neither index nor Git is asked: topics and ids are those in the names of files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from filemem import config

_IDS = frozenset(("id", "ids", "other", "supersedes", "builds_on", "debates", "synthesizes"))
_FILES = frozenset(("affects", "file", "files", "files_modified", "files_read", "open_files", "path", "paths", "was"))
_TOPICS = frozenset(("topic", "word"))
_PLAIN = re.compile(r"(?!-)[\w./@+\-\u0300-\U0010ffff]+")  # what no shell takes for more than a word
_OURS = re.compile(r"\d{8}-([^/]*)-([0-9a-z]{8})\.md$")  # how a file of ours ends: day, title, short id
_CUT = 20  # bytes from which on the topic in a file's name may be cut
_HEAD = 4096  # bytes of a file in which its topic stands
_MOST = 200  # words that are shown


class Value(click.types.StringParamType):
    """What can be completed of a parameter by its name."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Files, which the shell knows itself; topics or ids, of the newest records first."""
        if param.name in _FILES:
            return [CompletionItem(incomplete, type="file")]
        words = _topics if param.name in _TOPICS else _ids if param.name in _IDS else None
        named = words(_store(ctx.find_root().params), incomplete) if words else ()
        found = (one for one in named if all(part.isprintable() and _PLAIN.fullmatch(part or "_") for part in one))
        return [CompletionItem(word, help=title) for word, title in islice(found, _MOST)]


def _store(given: Mapping[str, Any]) -> str:
    """The folder of records that a command line means, as far as names of folders show it."""
    here = config.personal_folder() if given["personal"] else Path(given["folder"] or ".").absolute()
    top = next((one for one in (here, *here.parents) if (one / ".git").exists()), here)
    return f"{top}/{given['store'] or config.load(top).store}"


def _records(store: str) -> Iterator[tuple[str, list[str]]]:
    """Each folder below the store, and the records in it: the newest first, as folders and files are named by day."""
    for at, folders, names in os.walk(store):
        folders[:] = sorted((name for name in folders if name[0] != "."), reverse=True)
        yield at[len(store) + 1 :], [name for name in names if name.endswith(".md") and name != "README.md"]


def _ids(store: str, start: str) -> Iterator[tuple[str, str]]:
    """What names a record on the command line, its short id or else the name of its file; and its title."""
    for _, names in _records(store):
        for name in names:
            ours = _OURS.search(name)
            word = ours[2] if ours else name
            if word.startswith(start):
                yield word, ours[1] if ours else ""


def _topics(store: str, start: str) -> Iterator[tuple[str, str]]:
    """The topics of decisions, in the form in which no shell needs quotes; and the title of a decision."""
    told = set()
    for folder, names in _records(store):
        for name in names:
            topic = name.rpartition("--")[0]
            if topic and topic not in told and topic.startswith(start) and (ours := _OURS.search(name)):
                told.add(topic)
                yield _whole(f"{store}/{folder}/{name}", topic), ours[1]


def _whole(path: str, topic: str) -> str:
    """A topic as the file states it, if it may be cut in the name of the file."""
    if len(os.fsencode(topic)) < _CUT:
        return topic
    with open(path, "rb") as file:  # noqa: PTH123 - the name of a file may be any bytes
        stated = re.search(rb"(?m)^topic: *[\"']?([^\"'\n]+)", file.read(_HEAD))
    return re.sub(r"[\s_\-/.:]+", "-", stated[1].decode(errors="replace").casefold()).strip("-") if stated else topic
