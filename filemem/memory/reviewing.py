"""What only Git can say against a record: it was changed after it was superseded, its code changed, it was reverted.

All of it is advice but the first, and that is asked only of what a person can still mend: edits of this branch, and
edits that are not committed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from filemem.documents import Node
from filemem.memory import claims, governing
from filemem.memory.merging import Merge
from filemem.memory.store import Store
from filemem.memory.surveying import Survey
from filemem.query.drift import CHANGED, Drift
from filemem.record import Problem, Record, parse
from filemem.record.revising import nearest, revised
from filemem.record.saying import merge_says_otherwise, says_otherwise
from filemem.repo import arrivals

_NAMED = 5  # files that a message names


def problems(store: Store, read: Survey, merge: Merge | None, drift: bool) -> Iterable[Problem]:
    """What Git says against the records.

    Args:
        store: the parts.
        read: the records.
        merge: only what it brings; None for everything.
        drift: tell also of code that changed but has not left its decision behind.
    """
    called = claims.Called(read.nodes.values, read.past.removed)
    yield from _edited(store, read, merge)
    if merge is not None:
        yield from _unknown(store, called, read.past.removed, merge)
    live = [node for node in read.nodes.values() if read.resolved.is_head(node.id)]
    yield from _drifted(store, read, live, merge, called, drift)
    every = claims.every(store, called)
    for node in live:
        for found in claims.evidence_of(store, node, read.records[node.path], every):
            if merge is None or not store.code.history.is_ancestor(found.commit, merge.code):
                text = f"{found}; if so: filemem update {node.id} --outcome {found.outcome} --reason ..."
                yield Problem(node.path, 1, "evidence", "warning", text)


def _unknown(store: Store, called: claims.Called, removed: Iterable[str], merge: Merge) -> Iterable[Problem]:
    """Commits of this branch that name what is no decision, or not in trailers, or say nothing clear: that is lost."""
    gone = {path.removesuffix(".md").rpartition("-")[2] for path in removed}
    for claim in arrivals.claims(store.code.history, merge.code):
        commit = f"{claim.commit[:10]} ({claim.subject})"
        names = [name for said in claim.said.names for name in called.names(said)]
        if lost := ", ".join(one for said in claim.said.names for one in _lost(called, said, gone)):
            told = f"{commit} names the decision {lost}, which no decision is called, or several are"
            yield Problem("", 1, "unknown-decision", "warning", f"{told}, so its trailers are passed over")
        for why in dict.fromkeys(why for _, why in claim.said.unclear):
            of = ", ".join(name for name, each in claim.said.unclear if each == why)
            told = f"{commit} says nothing clear of what came of {of}: {why}"
            yield Problem("", 1, "unclear-outcome", "warning", f"{told}; its trailers on that are passed over")
        for one, said in _at_odds(called, claim.said.outcomes).items():
            told = f"{commit} says nothing clear of what came of {one}: it says {' and '.join(said)}, by several names"
            yield Problem("", 1, "unclear-outcome", "warning", f"{told}; its trailers on that are passed over")
        known = {*map(called.meant, names), None}
        aside = (one for one in claim.aside if known.isdisjoint(map(called.meant, called.names(one))))
        if quoted := ", ".join(aside):
            told = f"{commit} names the decision {quoted} outside of its trailers, the last block of the message"
            yield Problem("", 1, "no-trailer", "hint", f"{told}, so that counts for nothing")


def _at_odds(called: claims.Called, outcomes: Iterable[tuple[str, str, str]]) -> dict[str, list[str]]:
    """The outcomes of each decision of which trailers tell several, by the names that they call it."""
    told: dict[str, list[str]] = {}
    for name, outcome, _ in outcomes:
        for one in called.every(name):
            told[one] = list(dict.fromkeys([*told.get(one, ()), *filter(None, [outcome])]))
    return {one: said for one, said in told.items() if len(said) > 1}


def _lost(called: claims.Called, said: str, gone: Collection[str]) -> list[str]:
    """The names in a trailer that mean nothing; all of it as it stands where none of them does."""
    names = called.names(said)
    lost = [name for name in names if called.meant(name) is None and name not in gone]
    return [said] if lost == names else lost


def _drifted(
    store: Store, read: Survey, live: Iterable[Node], merge: Merge | None, called: claims.Called, every: bool
) -> Iterable[Problem]:
    """Code that has left its decision behind; with `every`, as a hint, also code that only changed.

    A decision that this branch brings lands with the code that the branch has: its merge lets nothing drift from it.
    """
    records = {node: read.records[node.path] for node in live if merge is None or not _brings(store, node, merge)}
    drifts = governing.drifted(store, ((node, record.affects) for node, record in records.items()), called)
    grown = {one for one, drift in drifts.items() if governing.outgrown(store, drift)}
    seen = governing.since_outcome(
        store, ((node, record) for node, record in records.items() if node.id in grown), called
    )
    grown -= {one for one, drift in seen.items() if not governing.outgrown(store, drift)}
    for one, whole in drifts.items():
        outgrown = one in grown
        drift = seen.get(one, whole) if outgrown else whole
        if not drift.drifted or (merge is not None and merge.files.isdisjoint((*drift.changed, *drift.missing))):
            continue
        if outgrown or every:
            how = "was largely rewritten:" if outgrown and drift.verdict == CHANGED else "is"
            text = f"the code that it governs {how} {_told(drift, merge)}"
            yield Problem(read.nodes[one].path, 1, "drift", "warning" if outgrown else "hint", text)


def _brings(store: Store, node: Node, merge: Merge) -> bool:
    """Whether merging the branch would bring this decision; what has a branch of its own is there already."""
    if store.repo is not store.code or node.path not in merge.records:
        return False
    return not node.birth.commit or not store.repo.history.is_ancestor(node.birth.commit, merge.base)


def _told(drift: Drift, merge: Merge | None) -> str:
    files = [file for file in drift.changed if merge is None or file in merge.files]
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    here = "; here: " if merge is not None else "; changed: " if drift.missing else ": "
    return f"{drift}{here}{', '.join(files[:_NAMED])}{more}" if files else str(drift)


def _edited(store: Store, read: Survey, merge: Merge | None) -> Iterable[Problem]:
    """What a superseded decision says was changed: on this branch, or in the work tree.

    The commit that brings the successor may change both: no edit is after it but those of later commits.
    A merge changes only what it says by itself, beside all that it merges.
    """
    for node in read.nodes.values():
        successors = (read.nodes[one] for one in read.resolved.superseded_by(node.id))
        by = next((one for one in successors if one.birth.commit), None)
        if by is None or not node.birth.commit:
            continue
        now = read.records[node.path]
        head = store.repo.show(store.files.named(node.path))
        before = _at(head, node.path)
        if before is not None and says_otherwise(before, now):
            yield rewritten(node.path, by, before, now, "")
        for edit in read.past.edits.get(node.path, ()) if merge is not None else ():
            if merge is None or store.repo.history.is_ancestor(edit.commit.id, merge.base):
                continue
            if edit.commit.id == by.birth.commit or not store.repo.history.is_ancestor(by.birth.commit, edit.commit.id):
                continue
            new = _at(store.repo.blob(edit.after), node.path)
            sides = edit.sides or (edit.before,)
            old = [one for blob in sides if (one := _at(store.repo.blob(blob), node.path))]
            if new and old and (says_otherwise(old[0], new) if len(old) == 1 else merge_says_otherwise(old, new)):
                where = f" in {edit.commit.id[:10]} by {edit.commit.author}"
                yield rewritten(node.path, by, nearest(old, new), new, where)


def rewritten(path: str, by: Node, before: Record, after: Record, where: str) -> Problem:
    """Say that a decision was changed after another had superseded it."""
    what = ", ".join(revised(before, after)[:3])
    text = (
        f"changed{where} after {by.title} ({by.id}) superseded it: {what}; "
        "leave it as it was decided, and say what is new in a decision of its own"
    )
    return Problem(path, 1, "edited-superseded", "warning", text)


def _at(data: bytes | None, path: str) -> Record | None:
    return parse(data, path).record if data is not None else None
