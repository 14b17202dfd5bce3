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
_PLAIN_WORD = r"(?!-)[\w./@+\-\u0300-\U0010ffff]+"  # what every shell takes for one word
_RECORD_NAME = re.compile(r"\d{8}-([^/]*)-([0-9a-z]{8})\.md$")  # day, title, short id
_CUT_LENGTH = 20  # bytes from which on the topic in the name of a file may be cut
_HEADER_SIZE = 4096  # bytes of a file in which its topic stands
_MAX_CANDIDATES = 200  # words that are shown


def enable_completion(command: click.Command) -> None:
    """Let the shell complete the values of a command's parameters."""
    for parameter in command.params:
        if type(parameter.type) is click.types.StringParamType:
            parameter.type = CompletedType()


class Candidate(NamedTuple):
    """A word that names something, and the title that the shell shows beside it."""

    word: str
    title: str

    def is_plain(self) -> bool:
        """Whether no shell has to quote it, and no character of it can control a terminal."""
        parts = (self.word, self.title or "_")
        return all(part.isprintable() and re.fullmatch(_PLAIN_WORD, part) for part in parts)


class CompletedType(click.types.StringParamType):
    """What can be completed of a parameter by its name."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Files, which the shell knows itself; topics or ids, of the newest records first."""
        if param.name in _FILES:
            return [CompletionItem(incomplete, type="file")]
        names: Iterable[Candidate] = ()
        if param.name in _TOPICS:
            names = _iter_topics(_find_store(ctx.find_root().params), incomplete)
        elif param.name in _IDS:
            names = _iter_ids(_find_store(ctx.find_root().params), incomplete)
        plain_names = (name for name in names if name.is_plain())
        return [
            CompletionItem(word, help=title) for word, title in islice(plain_names, _MAX_CANDIDATES)
        ]


def _find_store(options: Mapping[str, Any]) -> str:
    """The folder of records that a command line means, as far as names of folders show it."""
    start_folder = Path(options["folder"] or ".").absolute()
    if options["personal"]:
        start_folder = config.get_personal_folder()
    work_tree = next(
        (folder for folder in (start_folder, *start_folder.parents) if (folder / ".git").exists()),
        start_folder,
    )
    return f"{work_tree}/{options['store'] or config.load(work_tree).store}"


def _iter_record_files(store: str) -> Iterator[tuple[str, str]]:
    """The folder and the name of each record's file: the newest first, as both begin with a day."""
    for folder, folders, names in os.walk(store):
        folders[:] = sorted((name for name in folders if name[0] != "."), reverse=True)
        for name in names:
            if name.endswith(".md") and name != "README.md":
                yield folder, name


def _iter_ids(store: str, prefix: str) -> Iterator[Candidate]:
    """The short id of each record, or else the name of its file."""
    for _, name in _iter_record_files(store):
        match = _RECORD_NAME.search(name)
        record = Candidate(match[2], match[1]) if match else Candidate(name, "")
        if record.word.startswith(prefix):
            yield record


def _iter_topics(store: str, prefix: str) -> Iterator[Candidate]:
    """The topics of decisions, in the form in which no shell needs quotes, each once."""
    topics: set[str] = set()
    for folder, name in _iter_record_files(store):
        topic = name.rpartition("--")[0]
        match = _RECORD_NAME.search(name)
        if topic and match and topic not in topics and topic.startswith(prefix):
            topics.add(topic)
            yield Candidate(_read_full_topic(f"{folder}/{name}", topic), match[1])


def _read_full_topic(path: str, topic: str) -> str:
    """A topic as the file states it, if it may be cut in the name of the file."""
    if len(os.fsencode(topic)) < _CUT_LENGTH:
        return topic
    with open(path, "rb") as file:  # noqa: PTH123 - the name of a file may be any bytes
        match = re.search(rb"(?m)^topic: *[\"']?([^\"'\n]+)", file.read(_HEADER_SIZE))
    if not match:
        return topic
    stated_topic = match[1].decode(errors="replace").casefold()
    return re.sub(r"[\s_\-/.:]+", "-", stated_topic).strip("-")
