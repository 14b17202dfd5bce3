"""What a shell completes besides commands and options: topics, ids and files.

Topics and ids are those in the names of files: nobody waits for an index.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from filemem import config

_IDS = frozenset(("id", "ids", "other", "supersedes", "builds_on", "debates", "synthesizes"))
_FILES = frozenset(
    (
        "affects",
        "file",
        "files",
        "files_modified",
        "files_read",
        "open_files",
        "path",
        "paths",
        "was",
    )
)
_TOPICS = frozenset(("topic", "word"))
_PLAIN = r"(?!-)[\w./@+\-\u0300-\U0010ffff]+"  # what every shell takes for one word
_OURS = re.compile(r"\d{8}-([^/]*)-([0-9a-z]{8})\.md$")  # day, title, short id
_LONG = 20  # bytes from which on the topic in the name of a file may be cut
_HEAD = 4096  # bytes of a file in which its topic stands
_MOST = 200  # words that are shown


def values_of(command: click.Command) -> None:
    """Let the shell complete the values of a command's parameters."""
    for parameter in command.params:
        if type(parameter.type) is click.types.StringParamType:
            parameter.type = Value()


class Name(NamedTuple):
    """A word that names something, and the title that the shell shows beside it."""

    word: str
    title: str

    def is_plain(self) -> bool:
        """Whether no shell has to quote it, and no character of it can control a terminal."""
        parts = (self.word, self.title or "_")
        return all(part.isprintable() and re.fullmatch(_PLAIN, part) for part in parts)


class Value(click.types.StringParamType):
    """What can be completed of a parameter by its name."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Files, which the shell knows itself; topics or ids, of the newest records first."""
        if param.name in _FILES:
            return [CompletionItem(incomplete, type="file")]
        names: Iterable[Name] = ()
        if param.name in _TOPICS:
            names = _topics(_store(ctx.find_root().params), incomplete)
        elif param.name in _IDS:
            names = _ids(_store(ctx.find_root().params), incomplete)
        plain_names = (name for name in names if name.is_plain())
        return [CompletionItem(word, help=title) for word, title in islice(plain_names, _MOST)]


def _store(options: Mapping[str, Any]) -> str:
    """The folder of records that a command line means, as far as names of folders show it."""
    here = Path(options["folder"] or ".").absolute()
    if options["personal"]:
        here = config.personal_folder()
    top = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)
    return f"{top}/{options['store'] or config.load(top).store}"


def _records(store: str) -> Iterator[tuple[str, str]]:
    """The folder and the name of each record's file: the newest first, as both begin with a day."""
    for folder, folders, names in os.walk(store):
        folders[:] = sorted((name for name in folders if name[0] != "."), reverse=True)
        for name in names:
            if name.endswith(".md") and name != "README.md":
                yield folder, name


def _ids(store: str, start: str) -> Iterator[Name]:
    """The short id of each record, or else the name of its file."""
    for _, name in _records(store):
        match = _OURS.search(name)
        record = Name(match[2], match[1]) if match else Name(name, "")
        if record.word.startswith(start):
            yield record


def _topics(store: str, start: str) -> Iterator[Name]:
    """The topics of decisions, in the form in which no shell needs quotes, each once."""
    topics: set[str] = set()
    for folder, name in _records(store):
        topic = name.rpartition("--")[0]
        match = _OURS.search(name)
        if topic and match and topic not in topics and topic.startswith(start):
            topics.add(topic)
            yield Name(_whole_topic(f"{folder}/{name}", topic), match[1])


def _whole_topic(path: str, topic: str) -> str:
    """A topic as the file states it, if it may be cut in the name of the file."""
    if len(os.fsencode(topic)) < _LONG:
        return topic
    with open(path, "rb") as file:  # noqa: PTH123 - the name of a file may be any bytes
        match = re.search(rb"(?m)^topic: *[\"']?([^\"'\n]+)", file.read(_HEAD))
    if not match:
        return topic
    stated = match[1].decode(errors="replace").casefold()
    return re.sub(r"[\s_\-/.:]+", "-", stated).strip("-")
