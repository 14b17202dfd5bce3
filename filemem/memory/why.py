"""Why is this code as it is? The decisions that govern a file, those of the commits that made it, and similar ones.

Rule: each result shows its reason, the surest first: a path that the decision states, a commit, similarity. Only live
decisions are shown, except those that a commit brought or names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
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

GOVERNS, TOUCHED, NEAR = "governs", "touched", "near"
ENOUGH = 0.45  # score of a decision that is near enough to be named
NEARBY = 3  # of those, at most
GIST = 400  # characters of a file that say what it is about
AROUND = 3  # lines on either side of one, for the same
MOST = 1_000  # decisions that state a path, at most
IMPORT = 3  # records; a commit that brought more moved or imported them, and decided nothing
LONGEST = 2_000_000  # bytes of a file whose lines are looked at
_PLACE = re.compile(
    r"(?s)(?P<path>.+?)(?::|#L)(?P<first>\d{1,9})(?:-L?(?P<last>\d{1,9})|:\d+)?"
)  # :LINE:COLUMN too
_QUIET = ("--no-color", "--no-ext-diff", "--no-textconv")


class Reason(NamedTuple):
    """A decision behind some code."""

    hit: Hit  # the decision, with how the code stands that it governs
    kind: str  # `governs` (it states the path), `touched` (its commit made the code, or names it), `near` (in meaning)
    because: str  # the same in words


class Why(NamedTuple):
    """The decisions behind a file or some of its lines, the surest first."""

    path: str  # of the file, from the top of the work tree
    lines: tuple[int, int] | None  # the first and the last, from 1; None for the whole file
    reasons: tuple[Reason, ...]  # decisions, as many as were asked for
    total: int = 0  # how many there are
    note: str = ""  # what is not known


class Place(NamedTuple):
    """A file, the first and last line in question or None, and its text in the work tree or None."""

    path: str
    lines: tuple[int, int] | None
    text: str | None

    @property
    def what(self) -> str:
        """The place in words."""
        first, last = self.lines or (0, 0)
        return (
            "this file"
            if not last
            else f"line {first}"
            if first == last
            else f"lines {first} to {last}"
        )


def why(store: Store, asked: str, limit: int) -> Why:
    """Return at most `limit` decisions behind a file or some of its lines.

    `asked` is a path from the top of the work tree, `PATH:LINE` for a line, `PATH:FIRST-LAST` for several. Raises
    BadInput: it is outside, or has no such lines; NotFound: there was no such file, and no decision mentions it.
    """
    place, testimony = _place(store, asked), Testimony(store)
    note, (commits, names) = "", _made(store, place, testimony.tip)
    reasons = _stating(store, names)
    reasons += _touched(store, place, commits, testimony, {one.hit.id for one in reasons})
    if (
        place.text is None
        and not commits
        and not os.path.lexists(store.code.work_tree / place.path)
    ):
        note = f"there is no file {place.path}"
        if not reasons:
            known = [*store.code.listing(testimony.tip, ".")] if testimony.tip else []
            hint = closest(place.path, known, "name a file of the project, from its top")
            raise NotFound(f"{note}, and no decision speaks of it", hint)
    elif place.lines and place.text is not None and not commits:
        note = f"not committed yet: {place.what}"
    total, known_ids = len(reasons), {one.hit.id for one in reasons}
    reasons += _near(store, place, known_ids, min(NEARBY, limit - total))
    shown = reasons[:limit]
    hits = with_code(store, [one.hit for one in shown], testimony)
    whole = tuple(one._replace(hit=hit) for one, hit in zip(shown, hits, strict=True))
    return Why(place.path, place.lines, whole, max(total, len(whole)), note)


def _place(store: Store, asked: str) -> Place:
    """Read a place; an existing file of that name wins, since `notes:3` can be a file name."""
    if not fits(asked):
        raise BadInput(
            f"{asked[:80]}... is too long for the name of a file",
            "name a file of the project",
            "path",
        )
    top, path, lines = store.code.work_tree, store.of_code(asked), None
    if not os.path.lexists(top / path) and (found := _PLACE.fullmatch(asked)):
        path = store.of_code(found["path"])
        lines = int(found["first"]), int(found["last"] or found["first"])
    real = Path(os.path.realpath(top / path))
    if not real.is_relative_to(os.path.realpath(top)):
        raise BadInput(f"{path} leads out of the work tree", "name a file of the project", "path")
    path = real.relative_to(os.path.realpath(top)).as_posix()
    text = None
    if real.is_file() and real.stat().st_size <= LONGEST:
        text = real.read_bytes().decode("utf-8", "replace")
        count = len(text.splitlines())
        if lines and not 1 <= lines[0] <= lines[1] <= count:
            has = f"{path} has {count} line{'' if count == 1 else 's'}"
            raise BadInput(
                f"{has}, not {lines[0]} to {lines[1]}", "give lines that are there", "path"
            )
    return Place(path, lines, text)


def _made(store: Store, place: Place, tip: str) -> tuple[dict[str, str], set[str]]:
    """The commits that made a place, subjects by id, newest first; and the names that its file had."""
    if not tip or (store.code.work_tree / place.path).is_dir():  # every commit touches some folder
        return {}, {place.path}
    how = ("--follow", "-M", "--name-status", "-z", "--format=%x01%H%x00%s", *_QUIET)
    told = store.code.git.run("log", *how, tip, "--", place.path).decode("utf-8", "replace")
    commits, names = dict[str, str](), {place.path}
    for chunk in told.split("\x01")[1:]:
        commit, subject, *rows = chunk.split("\0")
        commits[commit] = subject
        names.update(row for row in rows[1:] if row)
    unfiltered = (
        store.code.settings.unfiltered
    )  # Git would run a filter on the file of the work tree
    if (
        not place.lines
        or place.text is None
        or unfiltered is None
        or store.code.item(place.path, tip) is None
    ):
        return commits, names
    config = (*unfiltered, "blame.ignoreRevsFile=")  # which may name a file that is missing
    span = f"-L{place.lines[0]},{place.lines[1]}"
    asked = ("--no-textconv", "--porcelain", "-w", span, "--", place.path)
    told = store.code.git.run("blame", *asked, config=config).decode("utf-8", "replace")
    blamed = {line.partition(" ")[0] for line in told.splitlines()}
    return {one: subject for one, subject in commits.items() if one in blamed}, names


def _stating(store: Store, paths: Collection[str]) -> list[Reason]:
    """Live decisions that state or guard one of these paths, the closest first, then the newest."""
    nodes: dict[str, Node] = {}
    for path in paths:
        wanted = Filter(types=(DECISION,), path=path, live=True)
        nodes |= {node.id: node for node in store.index.newest(wanted, MOST, 0)}
    nodes |= {node.id: node for node in store.guarding(paths)}
    found: list[tuple[tuple[bool, int], Reason]] = []
    for hit in present(store, nodes.values()):
        stated = [path for path in hit.record.affects if _meets(path, paths)]
        because = _because(hit, stated, paths)
        if because:
            found.append((_closest(stated), Reason(hit, GOVERNS, because)))
    found.sort(key=lambda one: (one[0], one[1].hit.created), reverse=True)
    return [reason for _, reason in found]


def _meets(stated: str, paths: Collection[str]) -> bool:
    return any(touches(stated, path) for path in paths)


def _closest(stated: Collection[str]) -> tuple[bool, int]:
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
    known: Collection[str],
) -> list[Reason]:
    """Decisions that came with the commits of a place, or are named by them."""
    because: dict[str, str] = {}
    came = store.history.brought(commits) if store.repo is store.code else {}
    for commit, subject in commits.items():
        told = f"{commit[:10]}, which changed {place.what}: {subject}"
        paths = [store.files.inside(path) for path in came.get(commit, ())]
        for node in store.index.lookup("path", paths) if len(paths) <= IMPORT else ():
            because.setdefault(node.id, f"came with {told}")
        for one in testimony.named_by(commit, numbers_in(subject)):
            because.setdefault(one, f"named by {told}")
    nodes = {
        node.id: node
        for node in store.index.lookup("id", because.keys() - known)
        if node.type == DECISION
    }
    listed = [
        nodes[one]
        for one in because
        if one in nodes and store.display_path(nodes[one].path) != place.path
    ]
    return [Reason(hit, TOUCHED, because[hit.id]) for hit in present(store, listed)]


def _near(store: Store, place: Place, known: Collection[str], limit: int) -> list[Reason]:
    """Live decisions about the same things as a file or its lines."""
    if limit <= 0:
        return []
    gist = place.text or ""
    if place.lines:
        first, last = place.lines
        gist = "\n".join(gist.splitlines()[max(0, first - 1 - AROUND) : last + AROUND])
    words = f"{split_identifiers(place.path) or place.path} {place.path} {gist[:GIST]}"
    plain = " ".join(
        re.findall(r"\w+", words)
    )  # code must not be read as phrases, exclusions or restrictions
    found = search.search(
        store, plain, Filter(types=(DECISION,), live=True), limit=limit + len(known)
    )
    near = [
        hit
        for hit in found.hits
        if hit.id not in known and hit.score >= ENOUGH and not hit.superseded_by
    ]
    return [
        Reason(hit._replace(already_rejected=()), NEAR, f"near in meaning ({hit.score:.2f})")
        for hit in near[:limit]
    ]
