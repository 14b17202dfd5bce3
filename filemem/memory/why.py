"""Why is this code as it is? The decisions that govern a file, those whose commits made it, and the nearest in meaning.

Rule: an answer says what it rests on, the surest first: what a decision itself states, what Git shows, what is only
similar. Only what holds today is told, but for what a commit brought or names, which may have been replaced since, and
for a decision that stated the path while what replaced it does not.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence, Set
from difflib import SequenceMatcher, get_close_matches
from typing import NamedTuple

from filemem.documents import Node
from filemem.errors import BadInput, NotFound
from filemem.files import fits
from filemem.memory import claims, governing, phrases, places, searching
from filemem.memory.hits import present
from filemem.memory.origins import brought
from filemem.memory.store import Store
from filemem.memory.values import Reason, Why
from filemem.query import Filter, Hit, split_identifiers, touches
from filemem.query.drift import fixed
from filemem.record import DECISION, numbers_in
from filemem.repo import arrivals
from filemem.repo.git import GitError
from filemem.repo.log import Commit

GOVERNS, TOUCHED, GOVERNED, NEAR = "governs", "touched", "governed", "near"
ENOUGH = 0.45  # score of a decision that is near enough to be named
NEARBY = 3  # of those, at most
GIST = 400  # characters of a file that say what it is about
_SHALLOW = "history is shallow: what made this before is not known here; git fetch --unshallow brings it"
_PARTIAL = (
    "this partial clone lacks older versions: what made this before is not known here; "
    "git fetch --refetch --no-filter brings it"
)
IMPORT = 3  # decisions; a commit that brought more moved or imported them, and decided nothing
AROUND = 3  # lines on either side of one, for the same
LONGEST = 2_000_000  # bytes of a file whose lines are looked at


class Place(NamedTuple):
    """A file, and the first and the last of some lines of it or None.

    Args:
        path, lines: from the top of the work tree; from 1.
        text: what the work tree holds, or None.
        asked: the path that was named, where a link leads from there to this one.
        note: what is to be said of such links, or "".
    """

    path: str
    lines: tuple[int, int] | None
    text: str | None
    asked: str
    note: str

    @property
    def what(self) -> str:
        """What it is in words."""
        if self.lines is None:
            return "this file"
        first, last = self.lines
        return f"line {first}" if first == last else f"lines {first} to {last}"


def why(store: Store, asked: str, limit: int) -> Why:
    """Tell which decisions a file, or some lines of it, rest on.

    Args:
        store: the parts.
        asked: path from the top of the work tree, `PATH:LINE` for a line, `PATH:FIRST-LAST` for several.
        limit: decisions at most.

    Raises:
        BadInput: the path lies outside the work tree, or has no such lines.
        NotFound: there is no such file, was none, and no decision speaks of it.
    """
    place = _place(store, asked)
    commits, names, note = _past(store, place)
    if place.text is None and not commits and _is_folder(store, place.path.rpartition(".")[0]):
        place = place._replace(path=place.path.rpartition(".")[0], lines=None)  # a module that became a package
        note = f"there is no file {asked}; this is about the folder {place.path}"
    governs, replaced = _governing(store, {place.path, place.asked, *names})
    reasons = [Reason(hit, GOVERNS, f"affects {', '.join(stated)}") for hit, stated in governs]
    reasons += _touched(store, place, commits, [reason.hit.id for reason in reasons])
    reasons += _governed(store, replaced, {reason.hit.id for reason in reasons})
    absent = not (commits or note) and not os.path.lexists(store.code.work_tree / place.path)
    elsewhere = places.submodule(store, place.path)
    if absent:
        note, hint = f"there is no file {place.path}", elsewhere or _meant(store, place.path)
        if not reasons:
            led = f"{place.note}; " if place.note else ""
            hint = hint or "name a file of the project, from its top"
            raise NotFound(f"{led}{note}, and no decision speaks of it", hint)
        note = f"{note}; {hint}" if hint else note
    elif elsewhere:
        note = "; ".join(filter(None, (note, elsewhere)))
    itself = [node.id for node in store.lookup("path", [store.asked(place.path)])] if place.text is not None else []
    if itself:
        note = f"this file is a record itself: filemem history {place.path}"
    note = "; ".join(filter(None, (place.note, note)))
    known = [*(reason.hit.id for reason in reasons), *itself]
    total = len(reasons)
    room = 0 if absent else min(NEARBY, limit - total)
    near = _near(store, place, known, room)
    if not near and not reasons and place.lines:  # a few lines may speak of nothing: then what the file is about
        near = _near(store, place._replace(lines=None), known, room, "the whole file is ")
    reasons += near
    shown = reasons[:limit]
    sure = {reason.hit.id for reason in shown if reason.kind in (GOVERNS, TOUCHED)}
    hits = governing.added(store, [reason.hit for reason in shown], sure)
    whole = tuple(reason._replace(hit=hit) for reason, hit in zip(shown, hits, strict=True))
    return Why(place.path, place.lines, whole, max(total, len(whole)), note)


def governing_first(stated: Iterable[str]) -> tuple[int, int]:
    """How closely patterns speak of a file: a path before a glob, a long one before a short one."""
    return max(("*" not in one and "?" not in one, len(fixed(one))) for one in stated)


def _place(store: Store, asked: str) -> Place:
    if not fits(asked):
        raise BadInput(f"{asked[:80]}... is too long for the name of a file", "name a file of the project", "path")
    link, lines = places.named(store, asked)
    path, note = places.led(store, link)
    file = store.code.work_tree / path
    text = None
    if file.is_symlink():
        lines = None  # it leads out of the work tree, and what it is itself is no text
    elif file.is_file() and file.stat().st_size <= LONGEST:
        text = file.read_bytes().decode("utf-8", "replace")
    if text is not None:
        _check_lines(path, text, lines)
    return Place(path, lines, text, link, note)


def _check_lines(path: str, text: str, lines: tuple[int, int] | None) -> None:
    count = len(text.splitlines())
    wrong = next((line for line in lines or () if not 1 <= line <= count), None)
    if wrong is not None:
        told = f"{count} line{'' if count == 1 else 's'}"
        raise BadInput(f"{path} has {told}, not {wrong}", "give lines that are there", field="path")


def _past(store: Store, place: Place) -> tuple[Sequence[Commit], Collection[str], str]:
    """The commits that made a place what it is, the names its file had, and what is to be said of that."""
    if _is_folder(store, place.path):  # every commit touches some folder
        return (), (), ""
    committed = store.code.show(place.path) if store.code.head() else None
    if place.lines is None or committed is None:
        if store.code.head() is None:
            return (), (), ""
        past = arrivals.touching(store.code.history, place.path)
        gone = committed is None and bool(past.commits or past.cut)
        return past.commits, past.names, "; ".join(["the file is gone"] * gone + _cut(store, past))
    before = committed.decode("utf-8", "replace")
    if place.text is None:
        _check_lines(place.path, before, place.lines)
    lines = place.lines if place.text is None else lines_in(place.text, before, place.lines)
    names = arrivals.touching(store.code.history, place.path).names
    if lines is None:
        return (), names, f"not committed yet: {place.what}"
    try:
        past = arrivals.touching(store.code.history, place.path, lines)
        return past.commits, names, "".join(_cut(store, past))
    except GitError as error:
        if not error.unanswered:
            raise
        return (), names, f"its history is too long to follow {place.what} in time"


def _cut(store: Store, past: arrivals.Past) -> list[str]:
    """That what came before is not here, and what brings it."""
    words = _SHALLOW if store.code.history.boundary() else _PARTIAL
    return [words] if past.cut else []


def lines_in(now: str, before: str, lines: tuple[int, int]) -> tuple[int, int] | None:
    """Where lines of a text stood in an earlier version of it, from 1; None where none of them was there."""
    if now == before:
        return lines
    first, last = lines
    matcher = SequenceMatcher(None, before.splitlines(), now.splitlines(), autojunk=False)
    there = [
        (old + max(first, new + 1) - new, old + min(last, new + size) - new)
        for old, new, size in matcher.get_matching_blocks()
        if size and first <= new + size and new < last
    ]
    return (there[0][0], there[-1][1]) if there else None


_Stated = tuple[Hit, list[str]]  # a decision with what it states of a path


def _governing(store: Store, paths: Collection[str]) -> tuple[list[_Stated], list[_Stated]]:
    """Decisions that state one of these paths, the closest first, then the newest: what holds, what is replaced."""
    nodes: dict[str, Node] = {}
    for path in paths:
        listed = store.index.newest(Filter(types=(DECISION,), path=path), 1_000)
        nodes.update((node.id, node) for node in map(Node.loads, listed))
    found = []
    for hit in present(store, nodes.values()):
        stated = [one for one in hit.record.affects if any(touches(one, path) for path in paths)]
        if stated:
            found.append((hit, stated))
    found.sort(key=lambda one: (governing_first(one[1]), one[0].created), reverse=True)
    holding = [one for one in found if nodes[one[0].id].live]
    return holding, [one for one in found if (one[0].superseded_by or one[0].proposed) and not nodes[one[0].id].live]


def _governed(store: Store, replaced: Iterable[_Stated], known: Set[str]) -> list[Reason]:
    """The last of each chain that stated a path, where nothing that replaced it is told of already."""
    last: dict[tuple[str, ...], _Stated] = {}
    for hit, stated in sorted(replaced, key=lambda one: one[0].created):
        if hit.id not in known and known.isdisjoint(hit.heads):
            last[hit.heads] = hit, stated
    holding = {node.id: node for node in store.lookup("id", {head for heads in last for head in heads})}
    reasons = []
    for heads, (hit, stated) in last.items():
        now = " and ".join(phrases.called(holding[one].title, one) for one in heads if one in holding)
        told = f"what holds in its place does not: {now}" if now else "nothing holds in its place"
        reasons.append(Reason(hit, GOVERNED, f"affects {', '.join(stated)}; {told}"))
    return reasons


def _touched(store: Store, place: Place, commits: Sequence[Commit], known: Collection[str]) -> list[Reason]:
    """The decisions that came with the commits of a place, or that these name."""
    if not commits:
        return []
    nodes = [node for node in store.nodes() if node.type == DECISION and store.shown(node.path) != place.path]
    born = Counter(node.birth.commit for node in nodes)
    came = brought(store, [commit.id for commit in commits if born[commit.id]])
    order = {commit.id: number for number, commit in enumerate(commits) if came.get(commit.id, 0) <= IMPORT}
    reasons: dict[str, tuple[int, str]] = {}
    for node in nodes:
        if node.birth.commit in order:
            at = order[node.birth.commit]
            told = f"came with {node.birth.commit[:10]}, which changed {place.what}: {commits[at].subject}"
            reasons[node.id] = at, told
    called = claims.Called(lambda: nodes)
    for at, commit in enumerate(commits):
        for one in _named_by(commit, called):
            told = f"named by {commit.id[:10]}, which changed {place.what}: {commit.subject}"
            if one not in reasons or reasons[one][0] > at:
                reasons[one] = at, told
    by_id = {node.id: node for node in nodes if node.id in reasons and node.id not in known}
    hits = present(store, sorted(by_id.values(), key=lambda node: reasons[node.id][0]))
    return [Reason(hit, TOUCHED, reasons[hit.id][1]) for hit in hits]


def _named_by(commit: Commit, called: claims.Called) -> Iterable[str]:
    """The decisions that a commit names: in `Decision:` trailers, or as ADR-12 in its subject."""
    named = [one for name in commit.said.names for one in called.every(name)]
    found = (*named, *map(called.meant, numbers_in(commit.subject)))
    return dict.fromkeys(one for one in found if one)


def _near(store: Store, place: Place, known: Collection[str], limit: int, subject: str = "") -> list[Reason]:
    """Live decisions that speak of what a file is about; `subject` says what of it, where more than was asked."""
    if limit <= 0:
        return []
    words = " ".join((split_identifiers(place.path) or place.path, place.path.replace("/", " ")))
    asked = f"{words} {_gist(place)}"
    found = searching.search(store, _plain(asked), Filter(types=(DECISION,), live=True), limit=limit + len(known))
    near = [hit for hit in found.hits if hit.id not in known and hit.score >= ENOUGH and not hit.superseded_by]
    hits = [hit._replace(already_rejected=()) for hit in near[:limit]]  # nobody asked for what it rejected
    return [Reason(hit, NEAR, f"{subject}near in meaning ({hit.score:.2f})") for hit in hits]


def _gist(place: Place) -> str:
    if not place.text:
        return ""
    if place.lines is None:
        return place.text[:GIST]
    first, last = place.lines
    return "\n".join(place.text.splitlines()[max(0, first - 1 - AROUND) : last + AROUND])[:GIST]


def _plain(text: str) -> str:
    """Words alone: code must not be read as phrases, exclusions or restrictions."""
    return " ".join(re.findall(r"\w+", text))


def _is_folder(store: Store, path: str) -> bool:
    return bool(path) and (store.code.work_tree / path).is_dir()


def _meant(store: Store, path: str) -> str:
    """The hint that names a file like the one that is not there, or ""."""
    known = arrivals.present(store.code.history, ("",)) if store.code.head() else frozenset[str]()
    name = path.rpartition("/")[2]
    near = get_close_matches(path, known, n=2, cutoff=0.7) or [one for one in known if one.endswith(f"/{name}")][:2]
    return f"did you mean {' or '.join(near)}?" if near else ""
