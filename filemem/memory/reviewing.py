"""What only Git can say against a record: it was changed after it was superseded, its code changed, it was reverted.

All of it is advice but the first, and that is asked only of what a person can still mend: edits of this branch, and
edits that are not committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from filemem.changes import Manifest
from filemem.config import REPOSITORY_FILE, Config, stated_store
from filemem.documents import Node
from filemem.errors import Conflict
from filemem.files import MAX_SIZE, is_listed
from filemem.memory import governing, moments, tombstones
from filemem.memory.store import Store
from filemem.memory.surveying import Survey
from filemem.query.drift import CHANGED, Drift
from filemem.record import DECISION, Problem, Record, parse
from filemem.record.revising import revised
from filemem.repo import arrivals
from filemem.repo.revisions import Moment

_NAMED = 5  # files that a message names


class Since(NamedTuple):
    """What changed since a branch left another.

    Args:
        tip: the commit of that other branch, in the history of the records.
        commit: where it left, in the history of the records.
        code: the same in the history of the code; "" where that has no commit yet.
        records: store paths of the files that are not what they were, are new, or are gone.
        files: the files of the code that are not.
        marks: tombstones that came since.
        moved: files that no scan reads, each with the path of the record that it was.
        left_behind: what the settings leave in a store that they no longer name; "" for nothing.
    """

    tip: str
    commit: str
    code: str
    records: frozenset[str]
    files: frozenset[str]
    marks: frozenset[str] = frozenset()
    moved: Mapping[str, str] = MappingProxyType({})
    left_behind: str = ""


def since(store: Store, base: str, manifest: Manifest) -> Since:
    """Tell what changed since this branch left another.

    Args:
        store: the parts.
        base: a revision or a date.
        manifest: the records as they are now.

    Raises:
        Conflict: the two have no history in common.
        NotFound: there is no such revision; says what was probably meant.
    """
    moment = moments.find(store, base, "base")
    code = _parted(store, base, moment)
    commit = code if store.repo is store.code else moment.commit
    inside, history, folder = store.files.inside, store.repo.history, store.files.store
    records = {inside(path) for path in history.differing(commit, [folder])} | _uncommitted(store, manifest)
    rows = history.between(commit, "HEAD", folder)
    moved = {inside(row.path): inside(row.before) for row in rows if row.status == "R"}
    unread = {path: old for path, old in moved.items() if is_listed(old) and not is_listed(path)}
    marks = store.tombstones - tombstones.at(store, commit)
    left_behind = _left_behind(store, code, manifest) if store.repo is store.code else ""
    files = store.code.history.differing(code) if code else frozenset()
    return Since(moment.commit, commit, code, frozenset(records), files, marks, unread, left_behind)


def _parted(store: Store, base: str, moment: Moment) -> str:
    """The commit of the code at which this branch left another; "" where code beside the memory has none yet.

    What is no commit of the code, but a date or one of the memory's own branch, means what the code was then.
    """
    head = store.code.head()
    if head is None:
        return ""
    named = store.code.revisions.named(base)
    if named is None or (store.repo is not store.code and named.commit == moment.commit):
        line = store.code.revisions.line(head)
        named = line.by(moment.at) or Moment(base, line.commits[0], line.at[0])
    if code := store.code.revisions.base(named.commit, head):
        return code
    shallow = "; history is shallow: git fetch --unshallow" if store.code.history.boundary() else ""
    hint = f"name the branch that this one left, for example main{shallow}"
    raise Conflict(f"base: {base} and HEAD have no history in common", hint)


def _uncommitted(store: Store, manifest: Manifest) -> set[str]:
    """The records that are not what HEAD has, were never committed, or are gone from the work tree."""
    listing = store.repo.history.listing(store.files.store) if store.repo.head() else {}
    left_out = set(store.repo.left_out(store.files.store))
    committed = {store.files.inside(path): blob for path, blob in listing.items() if path not in left_out}
    changed = {path for path, entry in manifest.items() if committed.get(path) != entry.blob}
    unread = {path for path in committed.keys() - manifest.keys() if is_listed(path)}
    gone = {p for p in unread if store.files.seen(p) is None or store.repo.blob(committed[p], MAX_SIZE) is not None}
    return {path for path in changed if path not in committed or store.edited(path)} | gone


def _left_behind(store: Store, commit: str, manifest: Manifest) -> str:
    """That the settings named another store at a commit, and that it had records which are not in this one, or ""."""
    was, now = (
        stated_store(store.repo.show(REPOSITORY_FILE, rev) or b"") or Config().store for rev in (commit, "HEAD")
    )
    if was == now or now != store.files.store:
        return ""
    known = {entry.blob for entry in manifest.values()}
    listing = store.repo.history.listing(was, commit)
    lost = [path for path, blob in listing.items() if is_listed(path.removeprefix(f"{was}/")) and blob not in known]
    told = f"{len(lost)} of its records {'is' if len(lost) == 1 else 'are'} not in {now}"
    return f"{REPOSITORY_FILE} named the store {was}, and {told}" if lost else ""


def problems(store: Store, read: Survey, left: Since | None, drift: bool) -> Iterable[Problem]:
    """What Git says against the records.

    Args:
        store: the parts.
        read: the records.
        left: only what happened since then; None for everything.
        drift: tell also of code that changed but has not left its decision behind.
    """
    yield from _edited(store, read, left)
    if left is not None and left.left_behind:
        yield Problem("", 1, "hidden-record", "warning", f"{left.left_behind}: move them, or name the store as it was")
    for path, old in left.moved.items() if left is not None else ():
        text = (
            f"was the record {store.shown(old)}, and under this name it is read no longer: move it back, or forget it"
        )
        yield Problem(path, 1, "hidden-record", "warning", text)
    yield from _unknown(store, read, left)
    live = [node for node in read.nodes.values() if read.resolved.is_head(node.id)]
    yield from _drifted(store, read, live, left, drift)
    claims = governing.claims(store)
    for node in live:
        for found in governing.evidence_of(store, node, read.records[node.path], claims):
            if left is None or not store.code.history.is_ancestor(found.commit, left.code):
                text = f"{found}; if so: filemem update {node.id} --outcome {found.outcome} --reason ..."
                yield Problem(node.path, 1, "evidence", "warning", text)


def _unknown(store: Store, read: Survey, left: Since | None) -> Iterable[Problem]:
    """Commits of this branch whose trailers name a decision that is none: what they say of it is lost."""
    if left is None:
        return
    known = {name for node in read.nodes.values() for name in governing.names(node)}
    known |= {part for path in read.past.removed for part in (path, *_names(path))}
    for claim in arrivals.claims(store.code.history, left.code):
        if lost := [name for name in claim.decisions if name not in known]:
            text = (
                f"{claim.commit[:10]} ({claim.subject}) names the decision {', '.join(lost)}, which no record has as id"
            )
            yield Problem("", 1, "unknown-decision", "warning", f"{text} or file name, so its trailers are passed over")


def _names(path: str) -> tuple[str, ...]:
    name = path.rpartition("/")[2]
    stem = name.removesuffix(".md")
    return name, stem, stem.rpartition("-")[2]


def _drifted(store: Store, read: Survey, live: Iterable[Node], left: Since | None, every: bool) -> Iterable[Problem]:
    """Code that has left its decision behind; with `every`, as a hint, also code that only changed.

    A decision that this branch brings lands with the code that the branch has: its merge lets nothing drift from it.
    """
    records = {node: read.records[node.path] for node in live if left is None or not _brings(store, node, left)}
    drifts = governing.drifted(store, ((node, record.affects) for node, record in records.items()))
    grown = {one for one, drift in drifts.items() if governing.outgrown(store, drift)}
    seen = governing.since_outcome(store, ((node, record) for node, record in records.items() if node.id in grown))
    grown -= {one for one, drift in seen.items() if not governing.outgrown(store, drift)}
    for one, whole in drifts.items():
        outgrown = one in grown
        drift = seen.get(one, whole) if outgrown else whole
        if not drift.drifted or (left is not None and left.files.isdisjoint((*drift.changed, *drift.missing))):
            continue
        if outgrown or every:
            how = "was largely rewritten:" if outgrown and drift.verdict == CHANGED else "is"
            text = f"the code that it governs {how} {_told(drift, left)}"
            yield Problem(read.nodes[one].path, 1, "drift", "warning" if outgrown else "hint", text)


def _brings(store: Store, node: Node, left: Since) -> bool:
    """Whether merging the branch would bring this decision; what has a branch of its own is there already."""
    if store.repo is not store.code or node.path not in left.records:
        return False
    return not node.birth.commit or not store.repo.history.is_ancestor(node.birth.commit, left.tip)


def _told(drift: Drift, left: Since | None) -> str:
    files = [file for file in drift.changed if left is None or file in left.files]
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    here = "; here: " if left is not None else "; changed: " if drift.missing else ": "
    return f"{drift}{here}{', '.join(files[:_NAMED])}{more}" if files else str(drift)


def _edited(store: Store, read: Survey, left: Since | None) -> Iterable[Problem]:
    """What a superseded decision says was changed: on this branch, or in the work tree."""
    for node in read.nodes.values():
        successors = read.resolved.superseded_by(node.id)
        if not successors or not node.birth.commit:
            continue
        by = read.nodes[successors[0]]
        now = read.records[node.path]
        head = store.repo.show(store.files.named(node.path))
        before = _at(head, node.path)
        if before is not None and said(before) != said(now):
            yield rewritten(node.path, by, before, now, "")
        for edit in read.past.edits.get(node.path, ()) if left is not None else ():
            if left is None or store.repo.history.is_ancestor(edit.commit.id, left.commit):
                continue
            if not by.birth.commit or not store.repo.history.is_ancestor(by.birth.commit, edit.commit.id):
                continue
            old, new = (_at(store.repo.blob(blob), node.path) for blob in (edit.before, edit.after))
            if old is not None and new is not None and said(old) != said(new):
                yield rewritten(node.path, by, old, new, f" in {edit.commit.id[:10]} by {edit.commit.author}")


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


def said(record: Record) -> tuple[object, ...]:
    """What was decided and why: outcomes, status and tags may still change."""
    if record.type != DECISION:
        return ()
    return record.topic, record.title, record.decision, record.text, record.rejected
