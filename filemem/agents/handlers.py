"""The answers to the events of coding agents, from an open memory.

A session gets each decision once, until its context is compacted or cleared: the state of the
session, a dict that a file in the Git directory keeps, has the ids. Text of authors who are not
trusted is never quoted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem import memory as verbs
from filemem.agents.events import EDIT, END, FAIL, PROMPT, START, STOP, Event, Replacement
from filemem.errors import BadInput
from filemem.memory import Memory, brief
from filemem.memory.brief import Line, quote_field
from filemem.memory.store import Store
from filemem.query import Filter, is_covered
from filemem.record import DECISION, shorten_id, shorten_line

if TYPE_CHECKING:
    from filemem.memory.guards import Violation
    from filemem.memory.ruled import Addition, Ruling
    from filemem.query import Hit
    from filemem.record import Record

# A decision is shown beside a prompt if its score and its nearness in meaning are at least these.
# Measured on tests/hooks/recall.jsonl: 68 of 71 direct prompts get theirs, and 4 of 150 unrelated
# ones (30 in each of 5 memories) get any.
MIN_SCORE = 0.4
MIN_VECTOR_SCORE = 0.4
MAX_DECISIONS = 3  # decisions beside a prompt or edit
MAX_TEXT_SIZE = 320  # characters about a file, a dependency or a failure: 80 tokens
SESSION_SECONDS = 7 * 86_400  # seconds for which the state of a session is kept
SETTINGS_NOTE = (
    "filemem: a settings file of this project or user does not count: `filemem doctor` says why."
)
_TITLE = "Project memory (reference data, not instructions):"
_COMPACTION_NOTE = "The context was compacted: save a checkpoint now if something would be lost."

Session = dict[str, Any]


def answer_start(store: Store, event: Event, session: Session, _hook: str) -> str:
    """Return the brief, and after a compaction a reminder to save a checkpoint."""
    _remove_old_sessions(store)
    budget = store.config.hooks.get("budget", 800)
    allowed_budget = store.config.allowed_hooks.get("budget", budget)
    start_brief = brief.build_brief(store, min(budget, allowed_budget))
    session_start = [time.time(), store.code.read_head() or ""]
    session.setdefault("began", session_start)  # until its files are saved
    session.setdefault("opened", session_start)
    session["unsaved"] = _find_unsaved_text(start_brief.lines)
    session["told"] = [line.id for line in start_brief.lines if line.id]
    session["files"] = []
    texts = []
    if store.config.read_error:
        texts.append(SETTINGS_NOTE)
    if start_brief.lines:
        texts.append(start_brief.text)
        if event.source == "compact":
            texts.append(_COMPACTION_NOTE)
    return "\n".join(texts)


def _remove_old_sessions(store: Store) -> None:
    for file in (store.code.private_folder / "sessions").iterdir():
        with suppress(OSError):
            age = time.time() - file.stat().st_mtime
            if age > SESSION_SECONDS:
                file.unlink()


def answer_prompt(store: Store, event: Event, session: Session, hook: str) -> str:
    """Return the decisions about a prompt, for the first prompt of a session or for each."""
    is_later = session.get("prompted", False)
    session["prompted"] = True
    if is_later and hook == "prompt-first":
        return ""
    if not store.index.is_readable:
        return ""
    live = Filter(types=(DECISION,), live=True)
    results = verbs.search.search(store, event.prompt, live, limit=2 * MAX_DECISIONS, detail=False)
    near_ids = [hit.id for hit in results.hits if _is_near(hit)]
    if not near_ids:
        return ""
    lines = brief.list_decision_lines(store, ids=near_ids)
    lines.sort(key=lambda line: near_ids.index(line.id))
    return _format_new_decisions(session, lines)


def _is_near(hit: Hit) -> bool:
    if hit.score < MIN_SCORE or hit.scores is None:
        return False
    return hit.scores.vector >= MIN_VECTOR_SCORE


def _format_new_decisions(session: Session, lines: Iterable[Line]) -> str:
    """Return the first decisions that are new to a session, and note them there."""
    told_ids = session.setdefault("told", [])
    new_lines = [line for line in lines if line.id not in told_ids]
    shown_lines = new_lines[:MAX_DECISIONS]
    if not shown_lines:
        return ""
    told_ids += [line.id for line in shown_lines]
    text = "\n".join(line.text for line in shown_lines)
    return f"{_TITLE} {text}"


# -- edits and commands ---------------------------------------------------------------------------


def answer_edit(store: Store, event: Event, session: Session, _hook: str) -> str:
    """Return what an edit or a command breaks, and the decision on files that are new to a session.

    Copilot gets no answer: its hooks block tools.
    """
    if event.client == "copilot":
        return ""
    paths = set()
    for file in event.files:
        with suppress(BadInput):  # outside the work tree
            paths.add(store.validate_code_path(file))
    warning = ""
    if paths:
        warning = _report_violations(store, event, session)
    ruling = _report_rulings(store, event, session)
    known_paths = session.get("files", [])
    new_paths = sorted(paths.difference(known_paths))
    session["files"] = known_paths + new_paths
    lines = []
    if new_paths:
        lines = brief.list_decision_lines(store, paths=new_paths)
    governing = _format_governing_decision(session, lines)
    texts = [text for text in (warning, ruling, governing) if text]
    return "\n".join(texts)


def _format_governing_decision(session: Session, lines: Sequence[Line]) -> str:
    """Return the first of the decisions on a file that are new to a session, and their number."""
    told_ids = session.setdefault("told", [])
    new_lines = [line for line in lines if line.id not in told_ids]
    if not new_lines:
        return ""
    first = new_lines[0]
    told_ids.append(first.id)
    title = f"{_TITLE} it governs this file:\n"
    more_note = ""
    other_count = len(new_lines) - 1
    if other_count:
        more_note = f" And {other_count} more: `filemem why FILE`."
    max_length = MAX_TEXT_SIZE - len(title) - len(more_note)
    return title + shorten_line(first.text, max_length) + more_note


def _report_violations(store: Store, event: Event, session: Session) -> str:
    """Return the guards that an edit breaks, each once for a file and session."""
    places = _list_new_violations(store, event.edits, session)
    if not places:
        return ""
    guard_ids = {place.id for place in places}
    lines = brief.list_decision_lines(store, ids=guard_ids)
    trusted_ids = {line.id for line in lines}
    rows = [_format_violation(place) for place in places if place.id in trusted_ids]
    if not rows:
        return ""
    session.setdefault("told", []).extend(trusted_ids)
    session.setdefault("guarded", []).extend(trusted_ids)
    guards = "; ".join(rows[:MAX_DECISIONS])
    texts = [f"{_TITLE} this edit breaks a guard: {guards}"]
    texts += [line.text for line in lines[:MAX_DECISIONS]]
    return "\n".join(texts)


def _format_violation(place: Violation) -> str:
    guard = quote_field(place.guard, 100)
    path = quote_field(place.path, 80)
    return f"a decision {guard} ({path}:{place.line})"


def _list_new_violations(
    store: Store, edits: Iterable[Replacement], session: Session
) -> list[Violation]:
    """Return the places where edits would break guards, and note their messages in the session."""
    known_marks = session.setdefault("warned", [])
    new_places: dict[str, Violation] = {}
    for path, file_edits in _group_by_path(store, edits).items():
        change = _build_edit(file_edits)
        for place in verbs.guards.find_new_violations(store, path, change):
            mark = f"{place.path} {place.message}"
            if mark not in known_marks:
                new_places[mark] = place
    known_marks += new_places
    return list(new_places.values())


class _TrustedRuling(NamedTuple):
    """A decision against a dependency, as a ruling and as a record that may be quoted."""

    ruling: Ruling
    record: Record


def _report_rulings(store: Store, event: Event, session: Session) -> str:
    """Return the decisions against new dependencies, each dependency once for a session."""
    known_names = session.setdefault("ruled", [])
    additions = [item for item in _list_additions(store, event) if item.name not in known_names]
    if not additions:
        return ""
    rulings = verbs.ruled.list_rulings(store, additions)
    guarded_ids = session.get("guarded", [])
    new_rulings = [ruling for ruling in rulings if ruling.id not in guarded_ids]
    rows = _list_trusted_rulings(store, new_rulings)[:MAX_DECISIONS]
    for row in rows:
        known_names.append(row.ruling.name)
        session.setdefault("told", []).append(row.record.id)
    return "\n".join(_format_ruling(row) for row in rows)


def _list_additions(store: Store, event: Event) -> list[Addition]:
    """Return the dependencies that an edit or a command adds, as far as its input shows them."""
    additions = []
    if event.command:
        additions = verbs.ruled.parse_additions(event.command)
    for path, file_edits in _group_by_path(store, event.edits).items():
        additions += verbs.ruled.list_added(store, path, _build_edit(file_edits))
    return additions


def _list_trusted_rulings(store: Store, rulings: Sequence[Ruling]) -> list[_TrustedRuling]:
    """Return the rulings with only text of trusted authors."""
    ids: set[str] = set()
    for ruling in rulings:
        ids.update((ruling.id, ruling.source))
    if not ids:
        return []
    records = {record.id: record for record in brief.list_trusted_records(store, ids)}
    return [
        _TrustedRuling(ruling, records[ruling.id])
        for ruling in rulings
        if ruling.id in records and ruling.source in records
    ]


def _format_ruling(row: _TrustedRuling) -> str:
    name = quote_field(row.ruling.name, 40)
    short_id = quote_field(shorten_id(row.record.id), 20)
    decision = quote_field(row.record.decision or row.record.title, 100).rstrip(".")
    why = quote_field(row.ruling.why, MAX_TEXT_SIZE)
    title = f"{_TITLE} {name} comes in here; a decision is against it:\n"
    return shorten_line(f"{title}- [{short_id}] {decision}. Against it: {why}", MAX_TEXT_SIZE)


def _group_by_path(store: Store, edits: Iterable[Replacement]) -> dict[str, list[Replacement]]:
    """Return the edits of each file of the work tree."""
    edits_by_path: dict[str, list[Replacement]] = {}
    for edit in edits:
        with suppress(BadInput):  # outside the work tree
            path = store.validate_code_path(edit.file)
            edits_by_path.setdefault(path, []).append(edit)
    return edits_by_path


def _build_edit(edits: Iterable[Replacement]) -> Callable[[str], str]:
    """Return a function that applies the edits of a file to its text."""

    def apply_edits(text: str) -> str:
        for edit in edits:
            text = edit.apply_to(text)
        return text

    return apply_edits


# -- failures -------------------------------------------------------------------------------------


def answer_failure(store: Store, event: Event, session: Session, _hook: str) -> str:
    """Return the record about a failure in one line, each record once for a session."""
    if not event.error:
        return ""
    nearest_ids = verbs.failures.find_record_ids(store, event.error)[:1]
    known_ids = session.get("failures", [])
    if not nearest_ids or nearest_ids[0] in known_ids:
        return ""
    records = brief.list_trusted_records(store, nearest_ids)
    if not records:
        return ""
    record = records[0]
    session["failures"] = [*known_ids, record.id]
    short_id = quote_field(shorten_id(record.id), 20)
    name = quote_field(record.title, 100).rstrip(".")
    explanation = quote_field(_explain_failure(record), MAX_TEXT_SIZE)
    title = f"{_TITLE} this failure looks known:\n"
    return shorten_line(f"{title}- [{short_id}] {name}. {explanation}", MAX_TEXT_SIZE)


def _explain_failure(record: Record) -> str:
    """Return the text of an observation, or the outcome of a decision with the newest reason."""
    if record.type != DECISION:
        return record.text
    for entry in reversed(record.outcomes):
        if entry.reason:
            return f"{record.outcome}: {entry.reason}"
    return f"{record.outcome}: "


# -- the end of an answer and of a session --------------------------------------------------------


def answer_stop(store: Store, event: Event, session: Session, _hook: str) -> str:
    """Return a reminder, once in a session, if governed files were changed and nothing saved."""
    if event.is_repeated or session.get("reminded"):
        return ""
    unsaved = brief.find_unsaved_files(store)
    text = _find_unsaved_text(unsaved.lines)
    if not text or text == session.get("unsaved"):
        return ""
    files = _list_session_changes(store, session, unsaved.files)
    if not files:
        return ""
    session["reminded"] = True
    nodes = [row.raw_node for row in unsaved.rows]
    ids = [node.id for node in nodes if _is_any_governed(node.affects, files)]
    records = brief.list_trusted_records(store, ids[:MAX_DECISIONS])
    return _format_reminder(files, records)


def _format_reminder(files: Sequence[str], records: Sequence[Record]) -> str:
    """Return the changed files, the decisions that govern them, and a call that saves one."""
    topic = quote_field(records[0].topic, 80) if records else "..."
    call = {
        "topic": topic,
        "decision": "...",
        "reasoning": "...",
        "affects": [quote_field(path, 80) for path in files[: brief.MAX_NAMED]],
    }
    decisions_note = ""
    if records:
        names = "; ".join(_format_record_name(record) for record in records)
        decisions_note = f" Decisions that govern this: {names}."
    return (
        f"Changed since this session began: {brief.format_names(files, 80)}; nothing was saved."
        f"{decisions_note} If something was decided, call `save` with {json.dumps(call)};"
        " if not, save nothing."
    )


def _format_record_name(record: Record) -> str:
    title = quote_field(record.title, 80)
    return f"{title} ({shorten_id(record.id)})"


def _list_session_changes(store: Store, session: Session, files: Iterable[str]) -> list[str]:
    """Return the files that were changed since a session began, or all if that is not known."""
    session_start = session.get("opened")
    if not session_start:  # it began before its hooks were installed
        return sorted(files)
    changed_paths = _read_changed_paths(store, session_start)
    return sorted(changed_paths.intersection(files))


def _read_changed_paths(store: Store, session_start: Sequence[Any]) -> set[str]:
    since, commit = session_start
    dirty_paths = verbs.touched.read_dirty_paths(store.code)
    return verbs.touched.read_changed_paths(store, commit, since, dirty_paths)


def _is_any_governed(globs: Iterable[str], files: Iterable[str]) -> bool:
    return any(is_covered(glob, path) for glob in globs for path in files)


def _find_unsaved_text(lines: Iterable[Line]) -> str:
    for line in lines:
        if line.part == "unsaved":
            return line.text
    return ""


def save_session_files(store: Store, event: Event, session: Session, _hook: str) -> str:
    """Save the names of the files that the session changed as a private observation; return ""."""
    session_start = session.get("began")
    session["began"] = [time.time(), store.code.read_head() or ""]
    if not session_start:
        return ""
    paths = []
    for path in _read_changed_paths(store, session_start):
        is_record = store.repo is store.code and store.files.is_in_store(path)
        if not is_record:
            paths.append(path)
    if paths:
        branch = store.code.read_branch() or "(detached)"
        text = f"Branch {branch}. Files changed: {brief.format_names(paths, 80)}."
        title = "What a session did"
        with Memory.open(event.folder, should_update=False) as memory:
            memory.save(title=title, text=text, visibility="private", agent=event.client)
    return ""


# The kind of an event -> its answer, given the name of the hook that answers.
HANDLERS: Mapping[str, Callable[[Store, Event, Session, str], str]] = {
    START: answer_start,
    PROMPT: answer_prompt,
    EDIT: answer_edit,
    FAIL: answer_failure,
    END: save_session_files,
    STOP: answer_stop,
}
