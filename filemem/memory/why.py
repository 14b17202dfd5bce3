"""Why code is as it is: the decisions that govern a file, those of its commits, and similar ones.

Each result shows its reason, the most certain first: a path that the decision states, a commit,
similarity. Only live decisions are shown, except those that a commit added or names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from filemem.errors import BadInput, NotFound
from filemem.files import can_exist
from filemem.hints import format_closest
from filemem.index import Node
from filemem.memory import search
from filemem.memory.evidence import Testimony, add_evidence
from filemem.memory.hits import build_hits
from filemem.memory.store import Store
from filemem.query import (
    Filter,
    Hit,
    get_literal_prefix,
    has_overlap,
    is_included,
    split_identifiers,
)
from filemem.record import DECISION, list_numbers

GOVERNS = "governs"  # the decision states the path
TOUCHED = "touched"  # the decision came with a commit of the code, or the commit names it
NEAR = "near"  # the decision is similar
MIN_SCORE = 0.45  # score of a similar decision, at least
MAX_NEARBY = 3  # similar decisions
GIST_LENGTH = 400  # characters of a file or lines that are searched for
CONTEXT_LINES = 3  # lines on either side of a line that are searched for
MAX_DECISIONS = 1_000  # decisions that state a path
MAX_COMMIT_RECORDS = 3  # a commit with more records moved or imported them
MAX_FILE_SIZE = 2_000_000  # bytes
# PATH:LINE, PATH:FIRST-LAST and PATH#L1-L2; a column after the line is passed over.
_PLACE = re.compile(r"(?s)(?P<path>.+?)(?::|#L)(?P<first>\d{1,9})(?:-L?(?P<last>\d{1,9})|:\d+)?")
_LOG_OPTIONS = ("--no-color", "--no-ext-diff", "--no-textconv")


class Reason(NamedTuple):
    """A decision behind some code."""

    hit: Hit  # the decision, with the drift of the code that it governs
    kind: str  # GOVERNS, TOUCHED or NEAR
    because: str  # the reason in words


class Explanation(NamedTuple):
    """The decisions behind a file or some of its lines, the most certain first."""

    path: str  # of the file, from the top of the work tree
    lines: tuple[int, int] | None  # the first and the last, from 1; None for the whole file
    reasons: tuple[Reason, ...]  # decisions, as many as were wanted
    total: int = 0  # how many there are
    note: str = ""  # what is unknown


class CodeLocation(NamedTuple):
    """A file, or some of its lines."""

    path: str
    lines: tuple[int, int] | None  # the first and the last; None for the whole file
    text: str | None  # in the work tree; None without a file, or if it is too large

    @property
    def description(self) -> str:
        """The lines in words."""
        if self.lines is None:
            return "this file"
        first, last = self.lines
        return f"line {first}" if first == last else f"lines {first} to {last}"


class _Closeness(NamedTuple):
    """How closely a decision states a path; greater is closer."""

    is_path: bool  # it states a path, not a glob
    literal_length: int  # characters before the first wildcard; -1 if only a guard covers it
    created: int


def explain_code(store: Store, name: str, limit: int) -> Explanation:
    """Return at most `limit` decisions behind a file or some of its lines.

    Args:
        store: the memory.
        name: a path from the top of the work tree, `PATH:LINE` or `PATH:FIRST-LAST`.
        limit: the maximum number of decisions.

    Raises:
        BadInput: the path is outside, or has no such lines.
        NotFound: the file never existed, and no decision mentions it.
    """
    location = _read_location(store, name)
    testimony = Testimony(store)
    commits, paths = _read_commits(store, location, testimony.tip)
    reasons = _list_stating(store, paths)
    reasons += _list_touched(store, location, commits, testimony, _list_ids(reasons))
    note = "" if commits else _explain_no_commits(store, location)
    if location.text is None and note and not reasons:
        files = list(store.code.list_files(testimony.tip, ".")) if testimony.tip else []
        hint = format_closest(location.path, files, "name a file of the project, from its top")
        raise NotFound(f"{note}, and no decision mentions it", hint)
    total = len(reasons)
    nearby_limit = min(MAX_NEARBY, limit - total)
    reasons += _search_near(store, location, _list_ids(reasons), nearby_limit)
    shown_reasons = _update_hits(store, reasons[:limit], testimony)
    return Explanation(
        path=location.path,
        lines=location.lines,
        reasons=tuple(shown_reasons),
        total=max(total, len(shown_reasons)),
        note=note,
    )


def _update_hits(store: Store, reasons: Sequence[Reason], testimony: Testimony) -> list[Reason]:
    hits = add_evidence(store, [reason.hit for reason in reasons], testimony)
    return [reasons[number]._replace(hit=hit) for number, hit in enumerate(hits)]


def _list_ids(reasons: Iterable[Reason]) -> set[str]:
    return {reason.hit.id for reason in reasons}


def _explain_no_commits(store: Store, location: CodeLocation) -> str:
    """Explain why no commit made a place; "" if that needs no note."""
    if location.text is not None:
        return f"not committed yet: {location.description}" if location.lines else ""
    exists = os.path.lexists(store.code.work_tree / location.path)
    return "" if exists else f"there is no file {location.path}"


def _read_location(store: Store, name: str) -> CodeLocation:
    """Read a place; an existing file of that name wins, since `notes:3` can be a file name."""
    if not can_exist(name):
        message = f"{name[:80]}... is too long for the name of a file"
        raise BadInput(message, "name a file of the project", "path")
    top = store.code.work_tree
    path = store.validate_code_path(name)
    lines = None
    match = _PLACE.fullmatch(name)
    if match and not os.path.lexists(top / path):
        path = store.validate_code_path(match["path"])
        first = int(match["first"])
        last = int(match["last"]) if match["last"] else first
        lines = first, last
    real_path = Path(os.path.realpath(top / path))
    real_top = os.path.realpath(top)
    if not real_path.is_relative_to(real_top):
        raise BadInput(f"{path} leads out of the work tree", "name a file of the project", "path")
    text = None
    if real_path.is_file() and real_path.stat().st_size <= MAX_FILE_SIZE:
        text = real_path.read_bytes().decode("utf-8", "replace")
    location = CodeLocation(real_path.relative_to(real_top).as_posix(), lines, text)
    _refuse_missing_lines(location)
    return location


def _refuse_missing_lines(location: CodeLocation) -> None:
    if location.lines is None or location.text is None:
        return
    first, last = location.lines
    count = len(location.text.splitlines())
    if not 1 <= first <= last <= count:
        unit = "line" if count == 1 else "lines"
        message = f"{location.path} has {count} {unit}, not {first} to {last}"
        raise BadInput(message, "give lines that are there", "path")


def _read_commits(
    store: Store, location: CodeLocation, tip: str
) -> tuple[dict[str, str], set[str]]:
    """Read the commits that made a place, and all names of its file.

    The commits are subjects by id, newest first; a folder has none, as every commit touches some.
    """
    commits: dict[str, str] = {}
    names = {location.path}
    if not tip or (store.code.work_tree / location.path).is_dir():
        return commits, names
    options = ("--follow", "-M", "--name-status", "-z", "--format=%x01%H%x00%s", *_LOG_OPTIONS)
    output = store.code.git.run("log", *options, tip, "--", location.path)
    blamed_ids = _read_blamed(store, location, tip)
    entries = output.decode("utf-8", "replace").split("\x01")
    for entry in entries[1:]:
        commit, subject, *rows = entry.split("\0")
        if blamed_ids is None or commit in blamed_ids:
            commits[commit] = subject
        for name in rows[1:]:  # behind the status
            if name:
                names.add(name)
    return commits, names


def _read_blamed(store: Store, location: CodeLocation, tip: str) -> set[str] | None:
    """Read the commits that made the lines of a place; None if Git cannot be asked for them."""
    code = store.code
    # With a filter, Git would run it on the file of the work tree.
    unfiltered_config = code.settings.no_filter_settings
    if not location.lines or location.text is None or unfiltered_config is None:
        return None
    if code.find_item(location.path, tip) is None:
        return None
    config = (*unfiltered_config, "blame.ignoreRevsFile=")  # which may name a file that is missing
    first, last = location.lines
    options = ("--no-textconv", "--porcelain", "-w", f"-L{first},{last}")
    output = code.git.run("blame", *options, "--", location.path, config=config)
    rows = output.decode("utf-8", "replace").splitlines()
    return {row.partition(" ")[0] for row in rows}


def _list_stating(store: Store, paths: Collection[str]) -> list[Reason]:
    """List live decisions that state or guard one of some paths, the closest and newest first."""
    nodes: dict[str, Node] = {}
    for path in paths:
        criteria = Filter(types=(DECISION,), path=path, live=True)
        for node in store.index.read_newest_nodes(criteria, MAX_DECISIONS, 0):
            nodes[node.id] = node
    for node in store.list_guarding(paths):
        nodes[node.id] = node
    ranked: list[tuple[_Closeness, Reason]] = []
    for hit in build_hits(store, nodes.values()):
        stated_paths = [path for path in hit.record.affects if _is_matching(path, paths)]
        because = _format_because(hit, stated_paths, paths)
        if because:
            closeness = _compute_closeness(stated_paths, hit.created)
            ranked.append((closeness, Reason(hit, GOVERNS, because)))
    ranked.sort(key=itemgetter(0), reverse=True)
    return [reason for _, reason in ranked]


def _is_matching(stated_path: str, paths: Collection[str]) -> bool:
    return any(has_overlap(stated_path, path) for path in paths)


def _compute_closeness(stated_paths: Collection[str], created: int) -> _Closeness:
    """Return a sort key: decisions that state a path, then a glob, then those with a guard."""
    is_path = False
    literal_length = -1
    for path in stated_paths:
        rank = ("*" not in path and "?" not in path, len(get_literal_prefix(path)))
        if rank > (is_path, literal_length):
            is_path, literal_length = rank
    return _Closeness(is_path, literal_length, created)


def _format_because(hit: Hit, stated_paths: Collection[str], paths: Collection[str]) -> str:
    """Say why a decision governs some paths: it states them, or its guards cover them."""
    phrases: dict[str, None] = {}
    if stated_paths:
        phrases[f"affects {', '.join(stated_paths)}"] = None
    for guard in hit.record.guards:
        if any(is_included(guard.globs, path) for path in paths):
            phrases[str(guard)] = None
    return "; ".join(phrases)


def _list_touched(
    store: Store,
    location: CodeLocation,
    commits: Mapping[str, str],
    testimony: Testimony,
    known_ids: Collection[str],
) -> list[Reason]:
    """List decisions that came with the commits of a place, or are named by them."""
    causes = _find_causes(store, location, commits, testimony)
    nodes: dict[str, Node] = {}
    for node in store.index.read_nodes_by_field("id", causes.keys() - known_ids):
        is_itself = store.to_display_path(node.path) == location.path
        if node.type == DECISION and not is_itself:
            nodes[node.id] = node
    ordered_nodes = [nodes[id_] for id_ in causes if id_ in nodes]
    hits = build_hits(store, ordered_nodes)
    return [Reason(hit, TOUCHED, causes[hit.id]) for hit in hits]


def _find_causes(
    store: Store, location: CodeLocation, commits: Mapping[str, str], testimony: Testimony
) -> dict[str, str]:
    """Say how records are related to the commits of a place: by id, in the order of the commits."""
    causes: dict[str, str] = {}
    added_files: Mapping[str, Collection[str]] = {}
    if store.repo is store.code:
        added_files = store.history.read_added_files(commits)
    for commit, subject in commits.items():
        source = f"{commit[:10]}, which changed {location.description}: {subject}"
        full_paths = added_files.get(commit, ())
        if len(full_paths) <= MAX_COMMIT_RECORDS:
            paths = [store.files.to_store_path(path) for path in full_paths]
            for node in store.index.read_nodes_by_field("path", paths):
                causes.setdefault(node.id, f"came with {source}")
        numbers = list_numbers(subject)
        for id_ in testimony.list_named_decisions(commit, numbers):
            causes.setdefault(id_, f"named by {source}")
    return causes


def _search_near(
    store: Store, location: CodeLocation, known_ids: Collection[str], limit: int
) -> list[Reason]:
    """Search live decisions about the topics of a file or its lines."""
    if limit <= 0:
        return []
    criteria = Filter(types=(DECISION,), live=True)
    query = _build_query(location)
    reasons: list[Reason] = []
    for hit in search.search(store, query, criteria, limit=limit + len(known_ids)):
        if hit.id in known_ids or hit.score < MIN_SCORE or hit.superseded_by:
            continue
        because = f"near in meaning ({hit.score:.2f})"
        reasons.append(Reason(hit._replace(already_rejected=()), NEAR, because))
    return reasons[:limit]


def _build_query(location: CodeLocation) -> str:
    """Return the words of a path and of the beginning of its text or lines."""
    gist = location.text or ""
    if location.lines:
        first, last = location.lines
        start = max(0, first - 1 - CONTEXT_LINES)
        gist = "\n".join(gist.splitlines()[start : last + CONTEXT_LINES])
    path = location.path
    names = split_identifiers(path) or path
    # Code must not be read as phrases, exclusions or restrictions.
    words = re.findall(r"\w+", f"{names} {path} {gist[:GIST_LENGTH]}")
    return " ".join(words)
