"""Why code is as it is: the decisions that govern a file, those of its commits, and similar ones.

Rule: each result shows its reason, the surest first: a path that the decision states, a commit,
similarity. Only live decisions are shown, except those that a commit brought or names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from itertools import product
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

GOVERNS = "governs"  # it states the path
TOUCHED = "touched"  # its commit made the code, or names it
NEAR = "near"  # in meaning
MIN_SCORE = 0.45  # score of a decision that is near enough to be named
MAX_NEARBY = 3  # of those, at most
GIST_LENGTH = 400  # characters of a file that say what it is about
CONTEXT_LINES = 3  # lines on either side of one, for the same
MAX_DECISIONS = 1_000  # decisions that state a path, at most
MAX_COMMIT_RECORDS = (
    3  # records; a commit that brought more moved or imported them, and decided nothing
)
MAX_FILE_SIZE = 2_000_000  # bytes of a file whose lines are looked at
# PATH:LINE, PATH:FIRST-LAST and PATH#L1-L2; a column after the line is passed over.
_PLACE = re.compile(r"(?s)(?P<path>.+?)(?::|#L)(?P<first>\d{1,9})(?:-L?(?P<last>\d{1,9})|:\d+)?")
_LOG_OPTIONS = ("--no-color", "--no-ext-diff", "--no-textconv")


class Reason(NamedTuple):
    """A decision behind some code."""

    hit: Hit  # the decision, with how the code stands that it governs
    kind: str  # GOVERNS, TOUCHED or NEAR
    because: str  # the same in words


class Explanation(NamedTuple):
    """The decisions behind a file or some of its lines, the surest first."""

    path: str  # of the file, from the top of the work tree
    lines: tuple[int, int] | None  # the first and the last, from 1; None for the whole file
    reasons: tuple[Reason, ...]  # decisions, as many as were wanted
    total: int = 0  # how many there are
    note: str = ""  # what is not known


class CodeLocation(NamedTuple):
    """A file, or some of its lines."""

    path: str
    lines: tuple[int, int] | None  # the first and the last; None for the whole file
    text: str | None  # of the work tree; None if it is not there

    @property
    def description(self) -> str:
        """The place in words."""
        if self.lines is None:
            return "this file"
        first, last = self.lines
        return f"line {first}" if first == last else f"lines {first} to {last}"


def explain_code(store: Store, name: str, limit: int) -> Explanation:
    """Return at most `limit` decisions behind a file or some of its lines.

    `name` is a path from the top of the work tree, `PATH:LINE` for a line, `PATH:FIRST-LAST` for
    several. Raises BadInput: it is outside, or has no such lines; NotFound: there was no such file,
    and no decision mentions it.
    """
    location = _read_location(store, name)
    testimony = Testimony(store)
    commits, paths = _read_commits(store, location, testimony.tip)
    reasons = _list_stating(store, paths)
    reasons += _list_touched(store, location, commits, testimony, _list_ids(reasons))
    note = "" if commits else _explain_no_commits(store, location)
    if location.text is None and note and not reasons:
        files = [*store.code.list_files(testimony.tip, ".")] if testimony.tip else []
        hint = format_closest(location.path, files, "name a file of the project, from its top")
        raise NotFound(f"{note}, and no decision mentions it", hint)
    total = len(reasons)
    reasons += _search_near(store, location, _list_ids(reasons), min(MAX_NEARBY, limit - total))
    shown_reasons = reasons[:limit]
    hits = add_evidence(store, [reason.hit for reason in shown_reasons], testimony)
    full_reasons = tuple(
        reason._replace(hit=hit) for reason, hit in zip(shown_reasons, hits, strict=True)
    )
    return Explanation(
        location.path, location.lines, full_reasons, max(total, len(full_reasons)), note
    )


def _list_ids(reasons: Iterable[Reason]) -> set[str]:
    return {reason.hit.id for reason in reasons}


def _explain_no_commits(store: Store, location: CodeLocation) -> str:
    """What is not known of a place that no commit made."""
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
    match = None if os.path.lexists(top / path) else _PLACE.fullmatch(name)
    if match:
        path = store.validate_code_path(match["path"])
        lines = int(match["first"]), int(match["last"] or match["first"])
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
        line_count = f"{location.path} has {count} line{'s' * (count != 1)}"
        raise BadInput(f"{line_count}, not {first} to {last}", "give lines that are there", "path")


def _read_commits(
    store: Store, location: CodeLocation, tip: str
) -> tuple[dict[str, str], set[str]]:
    """The commits that made a place, subjects by id, newest first; and the names of its file."""
    if (
        not tip or (store.code.work_tree / location.path).is_dir()
    ):  # every commit touches some folder
        return {}, {location.path}
    options = ("--follow", "-M", "--name-status", "-z", "--format=%x01%H%x00%s", *_LOG_OPTIONS)
    output = store.code.git.run("log", *options, tip, "--", location.path).decode(
        "utf-8", "replace"
    )
    commits: dict[str, str] = {}
    names = {location.path}
    for entry in output.split("\x01")[1:]:
        commit, subject, *rows = entry.split("\0")
        commits[commit] = subject
        names.update(filter(None, rows[1:]))
    blamed_ids = _read_blamed(store, location, tip)
    if blamed_ids is not None:
        commits = {id_: subject for id_, subject in commits.items() if id_ in blamed_ids}
    return commits, names


def _read_blamed(store: Store, location: CodeLocation, tip: str) -> set[str] | None:
    """The commits that made the lines of a place; None if Git cannot be asked for them."""
    code = store.code
    unfiltered_config = (
        code.settings.no_filter_settings
    )  # Git would run a filter on the file of the work tree
    if not location.lines or location.text is None or unfiltered_config is None:
        return None
    if code.find_item(location.path, tip) is None:
        return None
    config = (*unfiltered_config, "blame.ignoreRevsFile=")  # which may name a file that is missing
    options = ("--no-textconv", "--porcelain", "-w", "-L{},{}".format(*location.lines))
    output = code.git.run("blame", *options, "--", location.path, config=config)
    return {row.partition(" ")[0] for row in output.decode("utf-8", "replace").splitlines()}


def _list_stating(store: Store, paths: Collection[str]) -> list[Reason]:
    """Live decisions that state or guard one of these paths, the closest first, then the newest."""
    nodes: dict[str, Node] = {}
    for path in paths:
        criteria = Filter(types=(DECISION,), path=path, live=True)
        nodes |= {
            node.id: node for node in store.index.read_newest_nodes(criteria, MAX_DECISIONS, 0)
        }
    nodes |= {node.id: node for node in store.list_guarding(paths)}
    ranked: list[tuple[tuple[bool, int], Reason]] = []
    for hit in build_hits(store, nodes.values()):
        stated_paths = [path for path in hit.record.affects if _is_matching(path, paths)]
        because = _format_because(hit, stated_paths, paths)
        if because:
            ranked.append((_compute_closeness(stated_paths), Reason(hit, GOVERNS, because)))
    ranked.sort(key=lambda row: (row[0], row[1].hit.created), reverse=True)
    return [reason for _, reason in ranked]


def _is_matching(stated_path: str, paths: Collection[str]) -> bool:
    return any(has_overlap(stated_path, path) for path in paths)


def _compute_closeness(stated_paths: Collection[str]) -> tuple[bool, int]:
    """How close a decision states a file: a path comes before a glob, a guard behind both."""
    ranks = ((not set("*?") & set(path), len(get_literal_prefix(path))) for path in stated_paths)
    return max(ranks, default=(False, -1))


def _format_because(hit: Hit, stated_paths: Collection[str], paths: Collection[str]) -> str:
    """Why a decision governs some paths: it states them, or its guards look into them."""
    affects = [f"affects {', '.join(stated_paths)}"] if stated_paths else []
    pairs = product(hit.record.guards, paths)
    guards = dict.fromkeys(str(guard) for guard, path in pairs if is_included(guard.globs, path))
    return "; ".join((*affects, *guards))


def _list_touched(
    store: Store,
    location: CodeLocation,
    commits: Mapping[str, str],
    testimony: Testimony,
    known_ids: Collection[str],
) -> list[Reason]:
    """Decisions that came with the commits of a place, or are named by them."""
    causes_by_id: dict[str, str] = {}
    brought_paths = store.history.read_added_files(commits) if store.repo is store.code else {}
    for commit, subject in commits.items():
        source = f"{commit[:10]}, which changed {location.description}: {subject}"
        paths = [store.files.to_store_path(path) for path in brought_paths.get(commit, ())]
        for node in (
            store.index.read_nodes_by_field("path", paths)
            if len(paths) <= MAX_COMMIT_RECORDS
            else ()
        ):
            causes_by_id.setdefault(node.id, f"came with {source}")
        for id_ in testimony.list_named_decisions(commit, list_numbers(subject)):
            causes_by_id.setdefault(id_, f"named by {source}")
    nodes = store.index.read_nodes_by_field("id", causes_by_id.keys() - known_ids)
    decisions = [node for node in nodes if node.type == DECISION]
    other_decisions = [
        node for node in decisions if store.to_display_path(node.path) != location.path
    ]
    order = list(causes_by_id)
    other_decisions.sort(key=lambda node: order.index(node.id))
    return [
        Reason(hit, TOUCHED, causes_by_id[hit.id]) for hit in build_hits(store, other_decisions)
    ]


def _search_near(
    store: Store, location: CodeLocation, known_ids: Collection[str], limit: int
) -> list[Reason]:
    """Live decisions about the same things as a file or its lines."""
    if limit <= 0:
        return []
    gist = location.text or ""
    if location.lines:
        first, last = location.lines
        gist = "\n".join(
            gist.splitlines()[max(0, first - 1 - CONTEXT_LINES) : last + CONTEXT_LINES]
        )
    words = (
        f"{split_identifiers(location.path) or location.path} {location.path} {gist[:GIST_LENGTH]}"
    )
    # Code must not be read as phrases, exclusions or restrictions.
    plain_words = " ".join(re.findall(r"\w+", words))
    criteria = Filter(types=(DECISION,), live=True)
    hits = search.search(store, plain_words, criteria, limit=limit + len(known_ids)).hits
    return [
        Reason(hit._replace(already_rejected=()), NEAR, f"near in meaning ({hit.score:.2f})")
        for hit in hits
        if hit.id not in known_ids and hit.score >= MIN_SCORE and not hit.superseded_by
    ][:limit]
