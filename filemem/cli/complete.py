"""Shell completion of topics, ids and files; click completes commands and options.

Topics and ids are read from the names of files, so completion never waits for an index.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
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
_PLAIN_WORD = r"(?!-)[\w./@+\-\u0300-\U0010ffff]+"  # needs no quotes in any shell
_RECORD_NAME = re.compile(r"\d{8}-(?P<title>[^/]*)-(?P<short_id>[0-9a-z]{8})\.md$")
_CUT_LENGTH = 20  # bytes; a topic of this length may be cut in the name of a file
_HEADER_SIZE = 4096  # bytes at the start of a file that are searched for its topic
_MAX_CANDIDATES = 200  # words that are shown


def enable_completion(command: click.Command) -> None:
    """Let the shell complete the values of a command's parameters."""
    for parameter in command.params:
        if type(parameter.type) is click.types.StringParamType:
            parameter.type = CompletedType()


class Candidate(NamedTuple):
    """A word that the shell offers, and the title that it shows beside it."""

    word: str
    title: str

    def is_plain(self) -> bool:
        """Return whether no shell must quote it, and no character can control a terminal."""
        for part in (self.word, self.title or "_"):
            if not part.isprintable() or not re.fullmatch(_PLAIN_WORD, part):
                return False
        return True


class CompletedType(click.types.StringParamType):
    """The type of a text parameter: its name tells what the shell completes."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Complete topics or ids, of the newest records first; files are left to the shell."""
        if param.name in _FILES:
            return [CompletionItem(incomplete, type="file")]
        items: list[CompletionItem[str]] = []
        for candidate in _iter_candidates(param.name, ctx.find_root().params, incomplete):
            if candidate.is_plain():
                items.append(CompletionItem(candidate.word, help=candidate.title))
            if len(items) == _MAX_CANDIDATES:
                break
        return items


def _iter_candidates(
    parameter: str | None, options: Mapping[str, Any], prefix: str
) -> Iterator[Candidate]:
    """Yield the topics or ids that begin with `prefix`, if the parameter takes some."""
    if parameter in _TOPICS:
        yield from _iter_topics(_find_store(options), prefix)
    elif parameter in _IDS:
        yield from _iter_ids(_find_store(options), prefix)


def _find_store(options: Mapping[str, Any]) -> str:
    """Return the folder of records that the options name; Git is not asked."""
    start_folder = Path(options["folder"] or ".").absolute()
    if options["personal"]:
        start_folder = config.get_personal_folder()
    work_tree = _find_work_tree(start_folder)
    store = options["store"] or config.load(work_tree).store
    return f"{work_tree}/{store}"


def _find_work_tree(start_folder: Path) -> Path:
    """Return the nearest folder with `.git`; without one the folder itself."""
    for folder in (start_folder, *start_folder.parents):
        if (folder / ".git").exists():
            return folder
    return start_folder


def _iter_record_files(store: str) -> Iterator[tuple[str, str]]:
    """Yield the folder and the name of each record's file, folders with newer days first."""
    for folder, subfolders, names in os.walk(store):
        shown_subfolders = [name for name in subfolders if not name.startswith(".")]
        subfolders[:] = sorted(shown_subfolders, reverse=True)  # the order of the walk
        for name in names:
            if name.endswith(".md") and name != "README.md":
                yield folder, name


def _iter_ids(store: str, prefix: str) -> Iterator[Candidate]:
    """Yield the short id of each record; the name of its file if that has none."""
    for _, name in _iter_record_files(store):
        match = _RECORD_NAME.search(name)
        candidate = Candidate(name, "")
        if match:
            candidate = Candidate(match["short_id"], match["title"])
        if candidate.word.startswith(prefix):
            yield candidate


def _iter_topics(store: str, prefix: str) -> Iterator[Candidate]:
    """Yield the topics of decisions, each once, in a form that no shell must quote."""
    seen_topics: set[str] = set()
    for folder, name in _iter_record_files(store):
        topic = name.rpartition("--")[0]
        match = _RECORD_NAME.search(name)
        if not topic or match is None:
            continue
        if topic in seen_topics or not topic.startswith(prefix):
            continue
        seen_topics.add(topic)
        yield Candidate(_read_full_topic(f"{folder}/{name}", topic), match["title"])


def _read_full_topic(path: str, topic: str) -> str:
    """Return the topic as its file states it, if the name of the file may have cut it."""
    if len(os.fsencode(topic)) < _CUT_LENGTH:
        return topic
    with open(path, "rb") as file:  # noqa: PTH123 - the name of a file may be any bytes
        header = file.read(_HEADER_SIZE)
    match = re.search(rb"(?m)^topic: *[\"']?([^\"'\n]+)", header)
    if not match:
        return topic
    stated_topic = match[1].decode(errors="replace").casefold()
    return re.sub(r"[\s_\-/.:]+", "-", stated_topic).strip("-")
