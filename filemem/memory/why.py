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
from filemem.files import fits
from filemem.hints import closest
from filemem.index import Node
from filemem.memory import search
from filemem.memory.evidence import Testimony, with_code
from filemem.memory.hits import present
from filemem.memory.store import Store
from filemem.query import Filter, Hit, among, fixed, split_identifiers, touches
from filemem.record import DECISION, numbers_in

GOVERNS = "governs"  # it states the path
TOUCHED = "touched"  # its commit made the code, or names it
NEAR = "near"  # in meaning
ENOUGH = 0.45  # score of a decision that is near enough to be named
NEARBY = 3  # of those, at most
GIST = 400  # characters of a file that say what it is about
AROUND = 3  # lines on either side of one, for the same
MOST = 1_000  # decisions that state a path, at most
IMPORT = 3  # records; a commit that brought more moved or imported them, and decided nothing
LONGEST = 2_000_000  # bytes of a file whose lines are looked at
# PATH:LINE, PATH:FIRST-LAST and PATH#L1-L2; a column after the line is passed over.
_PLACE = re.compile(r"(?s)(?P<path>.+?)(?::|#L)(?P<first>\d{1,9})(?:-L?(?P<last>\d{1,9})|:\d+)?")
_QUIET = ("--no-color", "--no-ext-diff", "--no-textconv")


class Reason(NamedTuple):
    """A decision behind some code."""

    hit: Hit  # the decision, with how the code stands that it governs
    kind: str  # GOVERNS, TOUCHED or NEAR
    because: str  # the same in words


class Why(NamedTuple):
    """The decisions behind a file or some of its lines, the surest first."""

    path: str  # of the file, from the top of the work tree
    lines: tuple[int, int] | None  # the first and the last, from 1; None for the whole file
    reasons: tuple[Reason, ...]  # decisions, as many as were wanted
    total: int = 0  # how many there are
    note: str = ""  # what is not known


class Place(NamedTuple):
    """A file, or some of its lines."""

    path: str
    lines: tuple[int, int] | None  # the first and the last; None for the whole file
    text: str | None  # of the work tree; None if it is not there

    @property
    def what(self) -> str:
        """The place in words."""
        if self.lines is None:
            return "this file"
        first, last = self.lines
        return f"line {first}" if first == last else f"lines {first} to {last}"


def why(store: Store, name: str, limit: int) -> Why:
    """Return at most `limit` decisions behind a file or some of its lines.

    `name` is a path from the top of the work tree, `PATH:LINE` for a line, `PATH:FIRST-LAST` for
    several. Raises BadInput: it is outside, or has no such lines; NotFound: there was no such file,
    and no decision mentions it.
    """
    place = _place(store, name)
    testimony = Testimony(store)
    commits, paths = _commits(store, place, testimony.tip)
    reasons = _stating(store, paths)
    reasons += _touched(store, place, commits, testimony, _ids(reasons))
    note = "" if commits else _without_commits(store, place)
    if place.text is None and note and not reasons:
        files = [*store.code.listing(testimony.tip, ".")] if testimony.tip else []
        hint = closest(place.path, files, "name a file of the project, from its top")
        raise NotFound(f"{note}, and no decision mentions it", hint)
    total = len(reasons)
    reasons += _near(store, place, _ids(reasons), min(NEARBY, limit - total))
    first = reasons[:limit]
    hits = with_code(store, [reason.hit for reason in first], testimony)
    whole = tuple(reason._replace(hit=hit) for reason, hit in zip(first, hits, strict=True))
    return Why(place.path, place.lines, whole, max(total, len(whole)), note)


def _ids(reasons: Iterable[Reason]) -> set[str]:
    return {reason.hit.id for reason in reasons}


def _without_commits(store: Store, place: Place) -> str:
    """What is not known of a place that no commit made."""
    if place.text is not None:
        return f"not committed yet: {place.what}" if place.lines else ""
    exists = os.path.lexists(store.code.work_tree / place.path)
    return "" if exists else f"there is no file {place.path}"


def _place(store: Store, name: str) -> Place:
    """Read a place; an existing file of that name wins, since `notes:3` can be a file name."""
    if not fits(name):
        message = f"{name[:80]}... is too long for the name of a file"
        raise BadInput(message, "name a file of the project", "path")
    top = store.code.work_tree
    path = store.of_code(name)
    lines = None
    match = None if os.path.lexists(top / path) else _PLACE.fullmatch(name)
    if match:
        path = store.of_code(match["path"])
        lines = int(match["first"]), int(match["last"] or match["first"])
    real = Path(os.path.realpath(top / path))
    real_top = os.path.realpath(top)
    if not real.is_relative_to(real_top):
        raise BadInput(f"{path} leads out of the work tree", "name a file of the project", "path")
    text = None
    if real.is_file() and real.stat().st_size <= LONGEST:
        text = real.read_bytes().decode("utf-8", "replace")
    place = Place(real.relative_to(real_top).as_posix(), lines, text)
    _refuse_missing_lines(place)
    return place


def _refuse_missing_lines(place: Place) -> None:
    if place.lines is None or place.text is None:
        return
    first, last = place.lines
    count = len(place.text.splitlines())
    if not 1 <= first <= last <= count:
        has = f"{place.path} has {count} line{'s' * (count != 1)}"
        raise BadInput(f"{has}, not {first} to {last}", "give lines that are there", "path")


def _commits(store: Store, place: Place, tip: str) -> tuple[dict[str, str], set[str]]:
    """The commits that made a place, subjects by id, newest first; and the names of its file."""
    if not tip or (store.code.work_tree / place.path).is_dir():  # every commit touches some folder
        return {}, {place.path}
    how = ("--follow", "-M", "--name-status", "-z", "--format=%x01%H%x00%s", *_QUIET)
    log = store.code.git.run("log", *how, tip, "--", place.path).decode("utf-8", "replace")
    commits: dict[str, str] = {}
    names = {place.path}
    for entry in log.split("\x01")[1:]:
        commit, subject, *rows = entry.split("\0")
        commits[commit] = subject
        names.update(filter(None, rows[1:]))
    blamed = _blamed(store, place, tip)
    if blamed is not None:
        commits = {id_: subject for id_, subject in commits.items() if id_ in blamed}
    return commits, names


def _blamed(store: Store, place: Place, tip: str) -> set[str] | None:
    """The commits that made the lines of a place; None if Git cannot be asked for them."""
    code = store.code
    unfiltered = code.settings.unfiltered  # Git would run a filter on the file of the work tree
    if not place.lines or place.text is None or unfiltered is None:
        return None
    if code.item(place.path, tip) is None:
        return None
    config = (*unfiltered, "blame.ignoreRevsFile=")  # which may name a file that is missing
    how = ("--no-textconv", "--porcelain", "-w", "-L{},{}".format(*place.lines))
    output = code.git.run("blame", *how, "--", place.path, config=config)
    return {row.partition(" ")[0] for row in output.decode("utf-8", "replace").splitlines()}


def _stating(store: Store, paths: Collection[str]) -> list[Reason]:
    """Live decisions that state or guard one of these paths, the closest first, then the newest."""
    nodes: dict[str, Node] = {}
    for path in paths:
        wanted = Filter(types=(DECISION,), path=path, live=True)
        nodes |= {node.id: node for node in store.index.newest(wanted, MOST, 0)}
    nodes |= {node.id: node for node in store.guarding(paths)}
    ranked: list[tuple[tuple[bool, int], Reason]] = []
    for hit in present(store, nodes.values()):
        stated = [path for path in hit.record.affects if _meets(path, paths)]
        because = _because(hit, stated, paths)
        if because:
            ranked.append((_closeness(stated), Reason(hit, GOVERNS, because)))
    ranked.sort(key=lambda row: (row[0], row[1].hit.created), reverse=True)
    return [reason for _, reason in ranked]


def _meets(stated: str, paths: Collection[str]) -> bool:
    return any(touches(stated, path) for path in paths)


def _closeness(stated: Collection[str]) -> tuple[bool, int]:
    """How close a decision states a file: a path comes before a glob, a guard behind both."""
    ranks = ((not set("*?") & set(path), len(fixed(path))) for path in stated)
    return max(ranks, default=(False, -1))


def _because(hit: Hit, stated: Collection[str], paths: Collection[str]) -> str:
    """Why a decision governs some paths: it states them, or its guards look into them."""
    affects = [f"affects {', '.join(stated)}"] if stated else []
    pairs = product(hit.record.guards, paths)
    guards = dict.fromkeys(str(guard) for guard, path in pairs if among(guard.globs, path))
    return "; ".join((*affects, *guards))


def _touched(
    store: Store,
    place: Place,
    commits: Mapping[str, str],
    testimony: Testimony,
    others: Collection[str],
) -> list[Reason]:
    """Decisions that came with the commits of a place, or are named by them."""
    because: dict[str, str] = {}
    brought = store.history.brought(commits) if store.repo is store.code else {}
    for commit, subject in commits.items():
        source = f"{commit[:10]}, which changed {place.what}: {subject}"
        paths = [store.files.inside(path) for path in brought.get(commit, ())]
        for node in store.index.lookup("path", paths) if len(paths) <= IMPORT else ():
            because.setdefault(node.id, f"came with {source}")
        for id_ in testimony.named_by(commit, numbers_in(subject)):
            because.setdefault(id_, f"named by {source}")
    nodes = store.index.lookup("id", because.keys() - others)
    decisions = [node for node in nodes if node.type == DECISION]
    behind = [node for node in decisions if store.display_path(node.path) != place.path]
    order = list(because)
    behind.sort(key=lambda node: order.index(node.id))
    return [Reason(hit, TOUCHED, because[hit.id]) for hit in present(store, behind)]


def _near(store: Store, place: Place, others: Collection[str], limit: int) -> list[Reason]:
    """Live decisions about the same things as a file or its lines."""
    if limit <= 0:
        return []
    gist = place.text or ""
    if place.lines:
        first, last = place.lines
        gist = "\n".join(gist.splitlines()[max(0, first - 1 - AROUND) : last + AROUND])
    words = f"{split_identifiers(place.path) or place.path} {place.path} {gist[:GIST]}"
    # Code must not be read as phrases, exclusions or restrictions.
    plain = " ".join(re.findall(r"\w+", words))
    wanted = Filter(types=(DECISION,), live=True)
    hits = search.search(store, plain, wanted, limit=limit + len(others)).hits
    return [
        Reason(hit._replace(already_rejected=()), NEAR, f"near in meaning ({hit.score:.2f})")
        for hit in hits
        if hit.id not in others and hit.score >= ENOUGH and not hit.superseded_by
    ][:limit]
