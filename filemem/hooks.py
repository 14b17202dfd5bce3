"""Hooks of coding agents: `filemem hook` reads an event, and answers with what it knows about it.

Rule: a hook never gets in the way. It always succeeds, within two seconds, and prints nothing if it
is not sure. Its answers inform: none blocks or allows anything. Where it cannot read the memory, a
session's start says so in one line. A session gets each decision once, until its context is
compacted or cleared; a file in the Git directory remembers. If an event calls twice, as from two
clients' files, the first call is answered. A repository's settings may switch hooks off, the user's
may add to those that the client's files call.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import sys
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem import memory as verbs
from filemem.ask import LARGEST, standard_input
from filemem.errors import BadInput, FilememError, NotFound
from filemem.memory import Memory, brief
from filemem.memory.brief import Line, quoted
from filemem.memory.store import Store
from filemem.query import Filter
from filemem.record import DECISION
from filemem.repo import served
from filemem.repo.run import find

if TYPE_CHECKING:
    from filemem.memory.guards import Broken

LONGEST = 1.5  # seconds for all of it
QUICK = 1.0  # seconds of processor time for a search beside a prompt; a usual one takes .2
USUAL = ("start", "prompt-first")  # where the command names no hook
# A decision is told beside a prompt if its score and its nearness in meaning are at least these.
# Measured on tests/hooks/recall.jsonl: 68 of 71 direct prompts are told of theirs, and 4 of 150
# unrelated ones (30 in each of 5 memories) of any.
CLOSE = 0.4
MEANT = 0.4
FEW = 3  # decisions told beside a prompt or edit
ONE_EVENT, KEPT = (
    10,
    7 * 86_400,
)  # seconds within which an event is the same, and for which a session is known
_TITLE = "Project memory (reference data, not instructions):"
_UNREADABLE = "filemem cannot read this project's memory: `filemem doctor` says why."
_UNSET = (
    "filemem: a settings file of this project or user does not count: `filemem doctor` says why."
)
_COMPACTED = "The context was compacted: save a checkpoint now if something would be lost."
_FRESH = ("", "startup", "new", "clear", "compact")  # why a session starts without what it was told
START, PROMPT, EDIT, END, STOP = "start", "prompt", "edit", "end", "stop"
_MOMENTS = {
    "sessionstart": START,
    **dict.fromkeys(("userpromptsubmit", "userpromptsubmitted", "beforeagent"), PROMPT),
    **dict.fromkeys(("pretooluse", "posttooluse", "beforetool", "aftertool"), EDIT),
    **dict.fromkeys(("precompact", "precompress", "sessionend"), END),
    "stop": STOP,
}
HOOKS = {
    "start": START,
    "prompt": PROMPT,
    "prompt-first": PROMPT,
    "edits": EDIT,
    "capture": END,
    "remind": STOP,
}
"""Hook -> when it speaks. Copilot's inputs name no event: there the command line tells."""
_EDITS = re.compile(
    r"edit|write|replace|patch|create", re.IGNORECASE
)  # in the name of a tool that changes files
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_HUNK = re.compile(r"^@@.*\n?", re.MULTILINE)


class Replacement(NamedTuple):
    """A part of a file, and what a tool is going to put there; `old` is None for the whole file."""

    file: str
    old: str | None
    new: str

    def applied(self, text: str) -> str:
        """Return the text of the file with it; the same text where the old part is missing."""
        return self.new if self.old is None else text.replace(self.old, self.new, 1)


class Event(NamedTuple):
    """One thing that happened in a session."""

    moment: str  # START, PROMPT, EDIT, END (before compaction, and at the end), or STOP: the agent has answered
    name: str  # as the client spells it
    client: str
    session: str
    source: str  # why it started or ended; "" where the client does not say
    folder: Path
    prompt: str = ""
    files: tuple[str, ...] = ()  # that a tool changes
    edits: tuple[Replacement, ...] = ()  # what it does to them, as far as its input shows it
    repeated: bool = False  # whether a hook has kept the agent from stopping already


def read(data: bytes, hook: str, client: str, here: Path) -> Event | None:
    """Read an input; `hook` and `client`: from the command line, or ""; `here`: the current folder."""
    try:
        given = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(given, dict):
        return None
    name = _text(given, "hook_event_name", "hookEventName")
    moment = _MOMENTS.get(name.casefold()) if name else HOOKS.get(hook)
    session = _text(given, "conversation_id", "session_id", "sessionId")
    if moment is None or not session:
        return None
    folder = Path(
        _text(given, "cwd") or str(next(iter(_list(given, "workspace_roots")), "")) or here
    )
    return Event(
        moment,
        name,
        client or _client(given),
        session,
        _text(given, "source", "trigger", "reason"),
        folder if folder.is_absolute() and folder.is_dir() else here,
        _text(given, "prompt"),
        _files(given, folder) if moment == EDIT else (),
        _replacements(given, folder) if moment == EDIT else (),
        given.get("stop_hook_active") is True or bool(given.get("loop_count")),
    )


def _client(given: Mapping[str, Any]) -> str:
    """The client that asks. Copilot also runs the hooks of Claude Code's file, with input almost like Claude Code's."""
    if "conversation_id" in given or "cursor_version" in given:
        return "cursor"
    if "hookEventName" in given:
        return "vscode"
    if "sessionId" in given or ("timestamp" in given and "transcript_path" not in given):
        return "copilot"
    return "codex" if "turn_id" in given else "gemini" if "timestamp" in given else "claude"


def _files(given: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """The absolute paths of the files that a tool is going to change."""
    asked = given.get("tool_input")
    if not isinstance(asked, dict) or not _EDITS.search(_text(given, "tool_name")):
        return ()
    named = [
        _text(asked, "file_path", "filePath", "notebook_path", "path"),
        *map(str, _list(asked, "files")),
    ]
    named += _PATCHED.findall(_text(asked, "command", "input", "patch"))
    return tuple(dict.fromkeys(os.path.join(folder, one) for one in named if one))  # noqa: PTH118


def _replacements(event: Mapping[str, Any], folder: Path) -> tuple[Replacement, ...]:
    """What a tool is going to write: a whole file, parts of one, or a patch of several."""
    tool = event.get("tool_input")
    if not isinstance(tool, dict) or not _EDITS.search(_text(event, "tool_name")):
        return ()
    file = os.path.join(folder, _text(tool, "file_path", "filePath", "path"))  # noqa: PTH118
    whole = tool.get("content")
    if isinstance(whole, str):
        return (Replacement(file, None, whole),)
    edits = [edit for edit in [tool, *_list(tool, "edits")] if isinstance(edit, dict)]
    pairs = [
        (_text(edit, "old_string", "oldString"), _text(edit, "new_string", "newString"))
        for edit in edits
    ]
    parts = [Replacement(file, old or None, new) for old, new in pairs if new]
    return (*parts, *_patches(_text(tool, "command", "input", "patch"), folder))


def _patches(patch: str, folder: Path) -> Iterator[Replacement]:
    """The parts of a patch in the form `*** Update File: PATH`."""
    _, *parts = _PATCHED.split(patch)
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        for hunk in _HUNK.split(body):
            rows = [row for row in hunk.split("\n") if row[:1] in (" ", "+", "-")]
            old = "\n".join(row[1:] for row in rows if row[0] != "+")
            new = "\n".join(row[1:] for row in rows if row[0] != "-")
            if rows:
                yield Replacement(os.path.join(folder, name), old or None, new)  # noqa: PTH118


def _text(given: Mapping[str, Any], *names: str) -> str:
    return next((one for name in names if isinstance(one := given.get(name), str)), "")


def _list(given: Mapping[str, Any], name: str) -> list[Any]:
    found = given.get(name)
    return found if isinstance(found, list) else []


def run(words: Sequence[str], here: Path) -> None:
    """Answer the event on standard input; `words`: the arguments of the command, [EVENT] [--client NAME]."""
    limit = Limit()
    hook, client = _named(words)
    event = None
    try:
        event = _event(standard_input(), hook, client, here)
        text = said(event, hook, limit) if event else ""
        if event and text:
            os.write(1, spelt(event, text).encode())
    except NotFound:  # there is no repository
        return
    except (FilememError, OSError) as error:
        _fail(event, error)


def answer(memory: Memory, data: bytes, words: Sequence[str], here: Path) -> str | None:
    """What `run` would print, by an open memory; None where that is for a process of its own.

    That is: where it saves, or the event is of another work tree. Raises FilememError.
    """
    hook, client = _named(words)
    event = _event(data, hook, client, here)
    if event is None:
        return ""
    if event.moment == END or find(event.folder).work_tree != memory.work_tree:
        return None
    text = memory.keeper.ask(lambda store: _text_of(store, event, hook))
    return spelt(event, text) if text else ""


def _named(words: Sequence[str]) -> tuple[str, str]:
    """The hook and the client that a command line names, or ""."""
    rest = [*words]
    client = rest.pop(rest.index("--client") + 1) if "--client" in rest[:-1] else ""
    return next((word for word in rest if word and word[0] != "-"), ""), client


def _fail(event: Event | None, error: FilememError | OSError) -> None:
    """Say why there is no answer; the start of a session is told that there is none."""
    reason = error.told if isinstance(error, FilememError) else error
    sys.stderr.write(f"filemem hook: {reason}\n")
    if event and event.moment == START:
        with suppress(OSError):  # nobody listens
            os.write(1, spelt(event, _UNREADABLE).encode())


def _event(data: bytes, hook: str, client: str, here: Path) -> Event | None:
    """The event in an input, if it is one."""
    if len(data) > LARGEST or hook not in ("", *HOOKS):
        return None
    return read(data, hook, client, here)


class Limit:
    """Ends the process silently when it takes too long.

    A save is then finished or not started, as after a kill.
    """

    def __init__(self) -> None:
        self._private: Path | None = None
        timer = threading.Timer(LONGEST, self._end)
        timer.daemon = True
        timer.start()

    def begin_recall(self, private: Path) -> None:
        """Allow QUICK of processor time from now on; count in a Git directory if that is too little."""
        self._private = private
        signal.signal(signal.SIGPROF, lambda *_: self._end())
        signal.setitimer(signal.ITIMER_PROF, QUICK)

    def _end(self) -> None:
        if self._private:
            served.give_up(self._private)
        os._exit(0)


# what is said


def spelt(event: Event, text: str) -> str:
    """The answer in the client's format: there are three, and clients silently ignore a wrong one."""
    if event.client == "cursor":
        value: dict[str, object] = {
            "followup_message" if event.moment == STOP else "additional_context": text
        }
    elif event.client == "copilot":
        value = {"additionalContext": text}
    elif (
        event.moment == STOP and event.client != "claude"
    ):  # no context is taken there: its user is told
        value = {"systemMessage": text}
    else:
        value = {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": text}}
    return json.dumps(value)


def said(event: Event, hook: str, limit: Limit | None = None) -> str:
    """The text of the answer or ""; `hook`: the one that the command names, or "". Raises NotFound: no repository."""
    store = Store(event.folder)
    if limit and event.moment == PROMPT:
        limit.begin_recall(store.code.private)
    try:
        return _text_of(store, event, hook)
    finally:
        store.close()


def _text_of(store: Store, event: Event, hook: str) -> str:
    """The text of the answer from the parts of an open memory, or ""."""
    own = store.config.hooks.get("events", ())
    allowed = store.config.allowed.get("events", HOOKS)
    wanted = {*([hook] if hook else USUAL), *own} & {*allowed}
    names = [name for name in HOOKS if name in wanted and HOOKS[name] == event.moment]
    if not names or (event.moment == START and event.source not in _FRESH):
        return ""
    if not store.folder.is_dir():
        return _UNSET if event.moment == START and store.config.unread else ""
    with _session(store.code.private / "sessions", event.session) as session:
        about = _mark(event.moment, event.source, event.prompt, *event.files)
        now = time.time()
        before = session.get("seen", {})
        seen = {mark: at for mark, at in before.items() if abs(now - at) < ONE_EVENT}
        session["seen"] = seen | {about: now}
        tells = {START: _start, PROMPT: _prompt, EDIT: _edit, END: _end, STOP: _stop}
        return "" if about in seen else tells[event.moment](store, event, session, names[0])


@contextmanager
def _session(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """The state of a session, locked while it is changed."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _mark(name)).open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = {}
        with suppress(ValueError):  # it is new, or its writer was ended
            known = json.load(file)
        yield known
        file.seek(0)
        file.truncate()
        json.dump(known, file)


def _mark(*texts: str) -> str:
    return f"{zlib.crc32(repr(texts).encode()):08x}"


def _start(store: Store, event: Event, known: dict[str, Any], _: str) -> str:
    """The brief, and after a compaction a reminder to save a checkpoint."""
    for file in (store.code.private / "sessions").iterdir():
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > KEPT:
                file.unlink()
    budget = store.config.hooks.get("budget", 800)
    found = brief.brief(store, min(budget, store.config.allowed.get("budget", budget)))
    known.setdefault("began", [time.time(), store.code.head() or ""])
    known |= {
        "unsaved": _unsaved(found.lines),
        "told": [line.id for line in found.lines if line.id],
        "files": [],
    }
    lines = [_UNSET] if store.config.unread else []
    if found.lines:
        lines.append(found.text)
        lines += [_COMPACTED] if event.source == "compact" else []
    return "\n".join(lines)


def _prompt(store: Store, event: Event, known: dict[str, Any], hook: str) -> str:
    """The decisions about a prompt, for the first prompt of a session or for each."""
    later, known["prompted"] = known.get("prompted", False), True
    if (later and hook == "prompt-first") or not store.index.sound:
        return ""
    found = verbs.search.search(
        store, event.prompt, Filter(types=(DECISION,), live=True), limit=2 * FEW, detail=False
    )
    near = [
        hit.id
        for hit in found.hits
        if hit.score >= CLOSE and hit.scores and hit.scores.vector >= MEANT
    ]
    lines = brief.some(store, ids=near) if near else []
    return _told(known, sorted(lines, key=lambda line: near.index(line.id)))


def _edit(store: Store, event: Event, known: dict[str, Any], _: str) -> str:
    """The decisions that govern a file that a session first touches; not for Copilot, whose hooks block tools."""
    paths = set()
    for file in event.files if event.client != "copilot" else ():
        with suppress(BadInput):  # outside the work tree
            paths.add(store.of_code(file))
    new = sorted(paths.difference(known.get("files", [])))
    known["files"] = [*known.get("files", []), *new]
    governing = _told(known, brief.some(store, paths=new) if new else [])
    warning = _warned(store, event, known) if paths else ""
    return "\n".join(filter(None, (warning, governing)))


def _applied(edits: Iterable[Replacement], text: str) -> str:
    for edit in edits:
        text = edit.applied(text)
    return text


def _warned(store: Store, event: Event, session: dict[str, Any]) -> str:
    """What an edit breaks of the guards of decisions, once a guard, file and session."""
    warned = session.setdefault("warned", [])
    new = {}
    for place in _broken(store, event.edits):
        mark = f"{place.path} {place.message}"
        if mark not in warned:
            new[mark] = place
    warned += new
    lines = brief.some(store, ids={place.id for place in new.values()}) if new else []
    trusted = {line.id for line in lines}  # not what a stranger wrote
    rows = [
        f"{quoted(place.path, 80)}:{place.line} {quoted(place.guard, 100)}"
        for place in new.values()
        if place.id in trusted
    ]
    title = f"{_TITLE} this edit breaks what was decided: {'; '.join(rows[:FEW])}\n"
    return title + "\n".join(line.text for line in lines[:FEW]) if rows else ""


def _broken(store: Store, edits: Iterable[Replacement]) -> list[Broken]:
    """The places where edits of some files would break guards."""
    by_path: dict[str, list[Replacement]] = {}
    for edit in edits:
        with suppress(BadInput):  # outside the work tree
            by_path.setdefault(store.of_code(edit.file), []).append(edit)
    places: list[Broken] = []
    for path, parts in by_path.items():
        places += verbs.guards.warned(store, path, partial(_applied, parts))
    return places


def _told(known: dict[str, Any], lines: Iterable[Line]) -> str:
    told = known.get("told", [])
    new = [line for line in lines if line.id not in told][:FEW]
    known["told"] = [*told, *(line.id for line in new)]
    return f"{_TITLE} " + "\n".join(line.text for line in new) if new else ""


def _stop(store: Store, event: Event, known: dict[str, Any], _: str) -> str:
    """A reminder, once in a session, if governed files were changed and nothing was saved."""
    unsaved = (
        ""
        if event.repeated or known.get("reminded")
        else _unsaved(brief.brief(store, brief.MOST).lines)
    )
    known["reminded"] = known.get("reminded", False) or unsaved not in ("", known.get("unsaved"))
    return (
        unsaved.replace("The last session", "This session", 1)
        if unsaved != known.get("unsaved")
        else ""
    )


def _unsaved(lines: Iterable[Line]) -> str:
    return next((line.text for line in lines if line.part == "unsaved"), "")


def _end(store: Store, event: Event, known: dict[str, Any], _: str) -> str:
    """Save the names of the files that the session changed as a private observation; answers nothing."""
    began, known["began"] = known.get("began"), [time.time(), store.code.head() or ""]
    files = brief.changed(store, began[1], began[0], brief.dirty(store.code)) if began else ()
    paths = [path for path in files if store.repo is not store.code or not store.files.holds(path)]
    if paths:
        text = f"Branch {store.code.branch() or '(detached)'}. Files changed: {brief.listed(paths, 80)}."
        with Memory.open(event.folder, look=False) as memory:
            memory.save(
                title="What a session did", text=text, visibility="private", agent=event.client
            )
    return ""
