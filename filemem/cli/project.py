"""The project that a command works on, and how it asks and prints; search and status, which run without click."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from filemem import config
from filemem.cli import console, show
from filemem.dialects.present import counted
from filemem.errors import BadInput, NotFound

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.org.client import Service

Answer = Mapping[str, Any]
_MANY = 200  # records whose indexing shows a bar


class Project:
    """What a command works on: the folder of `-C` and the store of `--store`, or the user's `--personal` memory."""

    def __init__(self, folder: str, store: str | None = None, *, personal: bool = False) -> None:
        """Raises BadInput if there is no such folder; "" is the current one."""
        try:
            self.here = (
                console.here() / folder
            )  # now: a server must not look elsewhere once it is gone
        except FileNotFoundError:
            raise BadInput("the current folder was deleted", "go to a folder that exists") from None
        if not self.here.is_dir():
            raise BadInput(f"-C {folder}: no such folder")
        self.stated, self.store, self.personal = bool(folder), store, personal
        self.asks: Callable[[Memory], object] = lambda _: (
            None
        )  # what is done with the memory before it is asked
        self.service: Service | None = None  # that is asked in its place

    @property
    def folder(self) -> Path:
        """The folder of the memory. Raises NotFound for a personal memory that does not exist yet."""
        folder = config.personal_folder() if self.personal else self.here
        if self.personal and not (folder / ".git").exists():
            told = f"nothing is saved yet in your personal memory, {folder}"
            raise NotFound(told, "`filemem --personal save decision ...` begins it")
        return folder

    def named(self, given: str, work_tree: Path) -> str:
        """An existing file, glob or PATH:LINE as a path from the top of the tree; anything else as it is given."""
        fixed = re.sub(r"/[^/]*[*?\[].*|[:#].*", "", given, flags=re.DOTALL)
        if not (fixed and any(os.path.lexists(self.folder / one) for one in (given, fixed))):
            return given
        parent, name = os.path.split(os.path.normpath(self.folder.resolve() / given))
        found = Path(os.path.relpath(Path(os.path.realpath(parent), name), work_tree)).as_posix()
        return given if os.path.isabs(given) and found.startswith("../") else found  # noqa: PTH117

    def page_of(self, name: str) -> tuple[str, list[str]]:
        """What follows the address of the page to show a record, and where such pages are now."""
        with self.memory() as memory:
            return f"#id={quote(memory.id_of(name))}", memory.status().get("pages", [])

    @contextmanager
    def memory(self, *, look: bool = True) -> Iterator[Memory]:
        """Open the memory of this project, and close it at the end; `look`: as for `Memory.open`.

        For a client of a server it is the open one.
        """
        if client := console.CLIENT.get():
            yield client.memory
            return
        from filemem.memory import Memory

        with Memory.open(
            self.folder, store=self.store, progress=bar("indexing"), look=look
        ) as memory:
            self.asks(memory)
            yield memory


def bar(work: str) -> Callable[[int, int], None]:
    """Return a function that shows on a terminal the progress of some work on many records, its rate and time left."""
    began = time.monotonic()

    def show(done: int, total: int) -> None:
        if total >= _MANY and sys.stderr.isatty():
            rate = max(done, 1) / max(time.monotonic() - began, 0.001)
            left = f"{rate:,.0f} a second, {(total - done) / rate:,.0f} s left"
            sys.stderr.write(
                f"\r{work} {done:,} of {total:,} records, {left}\x1b[K" + "\n" * (done >= total)
            )

    return show


def emit(answer: Answer, as_json: bool, shape: Callable[[Answer], str] = str) -> None:
    """Print an answer as JSON, or as text by `shape`."""
    text = (
        json.dumps(answer, ensure_ascii=False, indent=2) if as_json else shape(show.plain(answer))
    )
    console.out().write(f"{text}\n")
    console.out().flush()


def one_line(answer: Answer) -> str:
    """A line for each record of a search, decision of a history or topic: short id, date, title, topic."""
    rows = show.head(answer)
    for one in answer.get("results") or answer.get("chain") or answer.get("topics") or ():
        named = one.get("id") or next(iter(one.get("ids", ())), "")
        day = str(one.get("created") or one.get("date") or one.get("latest") or "")[:10]
        state = "superseded" if one.get("superseded_by") else ""
        cells = (
            named.rpartition("_")[2],
            day,
            one["title"],
            one.get("topic"),
            state,
            one.get("repository"),
        )
        rows.append("  ".join(filter(None, cells)))
    return "\n".join([*rows, *show.more(answer)]) or "nothing found"


_PATHS = frozenset(("affects", "files_modified", "files_read", "open_files", "path", "paths"))
_RECORDS = frozenset(("files", "id", "ids", "topic"))  # of these only what ends so is a file:
_FILES = (".md", ".adoc", ".rst")


def perform(
    verb: str,
    project: Project,
    as_json: bool,
    options: Mapping[str, Any],
    shape: Callable[[Answer], str] | None = None,
) -> Answer:
    """Call the native tool of that name, print its answer by `shape`, and return it."""
    if project.service:
        answer: Answer = project.service.ask(verb, _stated(options))
    else:
        with project.memory() as memory:
            answer = ask(verb, project, memory, options)
    emit(answer, as_json, shape or getattr(show, verb))
    return answer


def _stated(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options given, without switches that are off."""
    return {
        name: one
        for name, one in options.items()
        if one is not None and one is not False and one != ()
    }


def search(project: Project, as_json: bool, options: Mapping[str, Any]) -> None:
    """Search; `explain` and `oneline`: how it is shown. With a limit weak hits are shown too."""
    from filemem import query

    given = {"detail": True, **options}
    oneline = given.pop("oneline", False)
    explain = given.pop("explain", False)
    share = query.WEAK if given.get("limit") is None else 0.0
    shape = one_line if oneline else partial(show.search, share=share)
    if explain and not oneline:
        reasons = partial(explained, mode=given.get("mode") or "hybrid")
        shape = partial(show.search, share=share, explain=reasons)
    perform("search", project, as_json, given, shape)


_PARTS = {
    "keyword": "its words, compared with the record that has them best",
    "vector": "how near its nearest passage is in meaning",
    "title": "how near its title is in meaning",
    "wording": "how well one passage has each word, or one of like meaning",
    "recency": "its age: 1 for today, half after 180 days; always 1 for a decision",
}


def explained(hit: Mapping[str, Any], mode: str) -> Iterator[str]:
    """Yield how the score of a search result came about, in `mode`: hybrid, keyword or vector."""
    from filemem import query

    scores = hit.get("scores") or dict.fromkeys((*_PARTS, "final"), 0.0)
    worded = mode == "keyword" or not any(scores[name] for name in ("vector", "title", "wording"))
    by_meaning = query.MEANING_ONLY if mode == "vector" else query.HYBRID
    weights = query.KEYWORD_ONLY if worded else by_meaning
    counted = {
        name: weight for name, weight in weights._asdict().items() if weight and "scores" in hit
    }
    for name, weight in counted.items():
        yield f"{name:<7} {scores[name]:.2f} x {weight:.2f}: {_PARTS[name]}"
    mean = sum(scores[name] * weight for name, weight in counted.items()) / (
        sum(counted.values()) or 1.0
    )
    told = f"the mean of these by weight is {mean:.2f}{_moved(scores['final'] - mean, hit.get('type', ''))}"
    yield f"score   {scores['final']:.2f}: {told if counted else 'not found itself, it holds today for one that was'}"
    for typed, said in hit.get("instead", {}).items():
        yield f'instead of "{typed}" it says: {", ".join(said)}'


def _moved(by: float, kind: str) -> str:
    """Why a score is not the mean of its parts: see `query.score`."""
    few = "few records hold this word"
    halved = "halved: a checkpoint" if kind == "checkpoint" else f"halved: {few}, and it does not"
    return "" if abs(by) < 0.01 else f", raised to above a half: {few}" if by > 0 else f", {halved}"


_TODO = {
    "forks": "topic/ forked, several decisions hold at once: end it with one that replaces them",
    "broken": "record/ with a header that cannot be read: filemem check says why",
    "not_understood": "decision/ with a status that is not understood: filemem check says more",
    "edited": "record/ edited, not committed: {0}",
    "new": "record/ not in Git yet: {0}",
    "gone": "record/ missing, although no commit deleted it",
}
"""What is left to the user, each with the command that ends it."""
_SHOWN = 3  # of each
_ASIDE = (
    "note",
    "trouble",
    "incomplete",
    "not_read",
    "left",
    "settings",
    "degraded",
)  # what is said of a memory besides


def _standing(answer: Mapping[str, Any], *, verbose: bool = False) -> str:
    """The state of the memory, and what to do."""
    counts, index, todo, store = answer["records"], answer["index"], list[str](), answer["store"]
    for name, form in _TODO.items():
        found = [one if isinstance(one, str) else one["restore"] for one in answer.get(name, ())]
        thing, _, told = form.format(answer.get("commit")).partition("/")
        todo += [show.styled(f"{counted(len(found), thing)}{told}", "yellow")] * bool(found)
        most = len(found) if verbose else _SHOWN
        todo += [f"    {row}" for row in found[:most]]
        todo += (
            [f"    and {len(found) - most} more: filemem status -v"] if len(found) > most else []
        )
    todo += [
        f"waits: {one['path']}, saved {one['age']} ago: {one['reason']}"
        for one in answer["pending"]
    ]
    todo += (
        ["    filemem commits it when that is over, at its next command or call"]
        if answer["pending"]
        else []
    )
    apart = ", ".join(f"{answer[side]} {side}" for side in ("ahead", "behind") if answer.get(side))
    todo += (
        [f"commits: {apart}, compared with {answer['upstream']}: {answer['share']}"]
        if apart
        else []
    )
    if index["state"] != "in step":
        todo.append(show.styled(f"the index is {index['state']}: filemem index", "yellow"))
    todo += [
        show.styled(f"{name.replace('_', ' ')}: {answer[name]}", "yellow")
        for name in _ASIDE
        if answer.get(name)
    ]
    holding, last = answer["holding"], answer.get("checkpoint")
    said = [
        f"{store}: " + ", ".join(counted(counts[kind], kind) for kind in counts),
        f"{counted(holding, 'decision')} {'holds' if holding == 1 else 'hold'}"
        if counts["decision"]
        else "",
        f"last checkpoint: {last['created'][:10]}  {last['title']}" if last else "",
        *(f"page: {one}" for one in answer.get("pages", ())),
        f"memories that powermem's tools add are of {answer['owners']}"
        if answer.get("owners")
        else "",
    ]
    if verbose:
        read = counted(index["records"], "record")
        said += [
            f"index: {read}, {index['model'] or 'words alone'}: {index['state']}",
            f"    {index['folder']}",
        ]
        if lost := answer.get("recalls_given_up"):
            said.append(f"recall: {counted(lost, 'prompt')} given up, each took too long")
    return show.rows_of(*said, *(todo or ["nothing to do"]))


def status(project: Project, as_json: bool, *, verbose: bool = False) -> None:
    """Show the state of the memory; `verbose`: with the index, and everything that is else only counted."""
    perform("status", project, as_json, {}, partial(_standing, verbose=verbose))


def ask(verb: str, project: Project, memory: Memory, options: Mapping[str, Any]) -> Answer:
    """Call the native tool of that name with the options given, without switches that are off."""
    from filemem.dialects import native

    def named(option: str, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [named(option, one) for one in value]
        whole = option in _PATHS or (option in _RECORDS and value.endswith(_FILES))
        return project.named(value, memory.work_tree) if whole else value

    given = {name: named(name, one) for name, one in _stated(options).items()}
    answer: Answer = getattr(native, verb)(memory, given)
    return answer
