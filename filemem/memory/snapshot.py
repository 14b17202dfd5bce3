"""The records of one state: the work tree, a commit, or the merge of two; and the memory as it was.

Rule: a snapshot is blob ids by path and a way to their bytes, which are all read at once. To ask a
past memory as the present one, what differs is laid over the present index, in memory: nothing is
written, the work tree is not read.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple

from filemem import chain, changes, index
from filemem.changes import Entry
from filemem.errors import BadInput, BrokenStore, Locked, NotFound
from filemem.files import MAX_SIZE, is_listed
from filemem.hints import closest
from filemem.memory.fields import line
from filemem.memory.store import FORGOTTEN, Store, mark_of
from filemem.query import parse_moment
from filemem.record import (
    DECISION,
    Parsed,
    Problem,
    Record,
    explained,
    format_time,
    parse,
    reference_index,
    resolve_reference,
)
from filemem.repo.remote import Clash, merged_tree

if TYPE_CHECKING:
    from filemem.record import ReferenceIndex

FORMS = "a commit, tag or branch, a date such as 2025-11-20, or an age such as 2w"
_UNDATED = 1 << 62  # sorts what nobody knows a date of behind all else
Reading = Callable[[bytes, str], Parsed]  # of the bytes and the path of a file


class Moment(NamedTuple):
    """The commit that a revision, a date or an age means."""

    id: str  # of the commit
    name: str  # as it was asked for
    at: int  # when it was committed, epoch milliseconds


@dataclass(eq=False, repr=False)
class Snapshot:
    """One state of the memory."""

    store: Store  # the parts
    files: Mapping[str, str]  # blob id by store path of every regular file, records and others
    forgotten: frozenset[str] = frozenset()  # the names of the tombstones
    tips: tuple[str, ...] = ("HEAD",)  # commits whose history dates what states no date
    on_disk: bool = False  # the bytes of records are those of the work tree
    skipped: tuple[Problem, ...] = ()  # what a scan could not read
    untracked: frozenset[str] = frozenset()  # files that Git does not have
    lost: tuple[str, ...] = ()  # records that Git has and the work tree has not
    conflicts: tuple[Clash, ...] = ()  # what Git could not merge
    reading: Reading = parse  # how a file is read: `parse`, or `lint` where its problems are wanted

    @cached_property
    def data(self) -> Mapping[str, bytes]:
        """The bytes of every record by path.

        Raises BrokenStore if the repository lacks some: a partial clone.
        """
        paths = [path for path in self.files if is_listed(path)]
        if self.on_disk:
            files = self.store.files.read_all(paths)  # one may have gone since it was listed
            return {path: data for path, data in files if isinstance(data, bytes)}
        blobs = self._blobs({self.files[path] for path in paths}) if paths else {}
        return {path: blobs[self.files[path]] for path in paths}

    def _blobs(self, oids: Collection[str]) -> dict[str, bytes]:
        repo = self.store.repo
        blobs: dict[str, bytes] = {}
        for oid, data in repo.blobs(sorted(oids)):
            if data is None:
                message = "the repository does not have all versions of its records"
                hint = repo.incomplete() or "look at the repository with git fsck"
                raise BrokenStore(f"{message}: {oid[:10]} is missing", hint)
            blobs[oid] = data
        return blobs

    @cached_property
    def parsed(self) -> Mapping[str, Parsed]:
        """Every record file as parsed, by path; files over 1 MiB are left out."""
        return {
            path: explained(self.reading(data, path), self.store.words)
            for path, data in self.data.items()
            if len(data) <= MAX_SIZE
        }

    @cached_property
    def records(self) -> Mapping[str, Record]:
        """The records by path, without unreadable and forgotten ones."""
        records = ((path, parsed.record) for path, parsed in self.parsed.items())
        return {path: row for path, row in records if row and not self.is_forgotten(row.id)}

    def is_forgotten(self, record_id: str) -> bool:
        """Whether there is a tombstone for a record."""
        return bool(self.forgotten) and mark_of(record_id) in self.forgotten

    @cached_property
    def dates(self) -> Mapping[str, int]:
        """When each record was made, by path: as stated, else its first commit; 0 if unknown."""
        undated = [path for path, record in self.records.items() if record.created is None]
        files = self.store.files
        committed: dict[str, int] = {}
        for tip in self.tips if undated else ():
            dates = self.store.history.dates(map(files.named, undated), tip)
            for name, at in dates.items():
                path = files.inside(name)
                committed[path] = min(at, committed.get(path, at))
        return {
            path: committed.get(path, 0) if record.created is None else record.created
            for path, record in self.records.items()
        }

    @cached_property
    def by_id(self) -> Mapping[str, Record]:
        """The records by id: of two with one id the older, then the one whose path sorts first."""
        records: dict[str, Record] = {}
        for path in sorted(self.records, key=lambda path: (self.dates[path] or _UNDATED, path)):
            records.setdefault(self.records[path].id, self.records[path])
        return records

    @cached_property
    def nodes(self) -> Mapping[str, chain.Node]:
        """The decisions by id, with their references resolved to ids and their dates filled in."""
        decisions = (record for record in self.by_id.values() if record.type == DECISION)
        nodes: dict[str, chain.Node] = {}
        for written in map(chain.Node.of_record, decisions):
            ids = {name: self.resolve(name) or name for name in written.references}
            node = written.meaning(ids)
            nodes[node.id] = node._replace(created=self.dates[node.path])
        return nodes

    @cached_property
    def _names(self) -> ReferenceIndex:
        return reference_index(self.by_id.values())

    def resolve(self, reference: str) -> str:
        """The id of the record that a reference means; "" if there is none, or several."""
        if reference in self.by_id:
            return reference
        return resolve_reference(reference, self._names) or ""

    @cached_property
    def graph(self) -> chain.Graph:
        """Which decision holds."""
        removed = set(filter(self.is_forgotten, self.missing))
        return chain.resolve(self.nodes.values(), known_removed=removed)

    @cached_property
    def missing(self) -> frozenset[str]:
        """The references of decisions that lead to no record."""
        references = (name for node in self.nodes.values() for name in node.references)
        return frozenset(name for name in references if name not in self.by_id)


def of_work_tree(store: Store, reading: Reading = parse) -> Snapshot:
    """The records of the work tree, and what else Git has of the store."""
    records, _, skipped = store.scan({})
    staged = store.repo.staged([store.files.store])
    tracked = {store.files.inside(path): oid for path, oid in staged.items()}
    files = {path: oid for path, oid in tracked.items() if not is_listed(path)}
    files |= {path: entry.blob for path, entry in records.items()}
    return Snapshot(
        store,
        files,
        store.tombstones,
        on_disk=True,
        skipped=tuple(skipped),
        untracked=frozenset(records.keys() - tracked.keys()),
        lost=tuple(path for path in tracked if path not in files and not store.files.exists(path)),
        reading=reading,
    )


def everything(store: Store, *, private: bool) -> list[Record]:
    """The records of the work tree, oldest first, dated, paths as people see them.

    `private` ones are among them if asked for.
    """
    snapshot = of_work_tree(store)
    reader = store.reader._replace(owner=private)
    records = []
    for path, at in sorted(snapshot.dates.items(), key=lambda row: (row[1], row[0])):
        record = snapshot.records[path]
        if reader.sees(chain.Node.of_record(record).audience):
            created = at or record.created
            records.append(record._replace(created=created, path=store.display_path(path)))
    return records


def of_commit(store: Store, commit: str, reading: Reading = parse) -> Snapshot:
    """The records of a commit."""
    return _of_tree(store, commit, (commit,), reading)


def of_merge(store: Store, base: str, head: str = "HEAD", reading: Reading = parse) -> Snapshot:
    """The records after merging one commit into another; uncommitted changes are not part of it.

    Raises Conflict: the two have no history in common; BrokenStore: Git is too old for this.
    """
    tree, clashes = merged_tree(store.repo, base, store.repo.resolve(head) or head)
    return replace(_of_tree(store, tree, (base, head), reading), conflicts=clashes)


def _of_tree(store: Store, tree: str, tips: tuple[str, ...], reading: Reading) -> Snapshot:
    listing = store.repo.listing(tree, store.files.store)
    files = {store.files.inside(path): oid for path, oid in listing.items()}
    folder = f"{FORGOTTEN}/"
    forgotten = frozenset(path.removeprefix(folder) for path in files if path.startswith(folder))
    return Snapshot(store, files, forgotten, tips, reading=reading)


def moment_of(store: Store, commit: str, name: str) -> Moment:
    """A commit as a moment."""
    seconds = store.repo.git.run("log", "-1", "--format=%ct", commit, "--")
    return Moment(commit, name, int(seconds) * 1000)


def moment(store: Store, when: object, field: str = "at") -> Moment:
    """Return the commit that `when` means; `field`: the caller's name for it, for messages.

    `when` is a commit, tag, branch or expression such as `HEAD~3`; else a date, a time or an age:
    the last commit by then on this branch, a day, week or month without a time meaning its end
    (UTC). Raises BadInput, NotFound.
    """
    name = line(field, when).strip()
    head = store.repo.head()
    if not name:
        raise BadInput(f"{field} is empty", f"give {FORMS}", field=field)
    if head is None:
        raise NotFound("nothing is committed yet, so there is no history", f"leave `{field}` out")
    revision = store.code.resolve(name)
    if revision:
        then = moment_of(store, revision, name)
        if store.repo is store.code or store.history.is_ancestor(revision, "HEAD"):
            return then
        at = then.at
    else:
        at = _time(store, name, field)
    commit = store.repo.at_time(head, at)
    if not commit:
        message = f"{field} {name}: nothing was committed by {format_time(at)[:10]}"
        raise NotFound(message, store.repo.incomplete() or "ask for a later moment")
    return moment_of(store, commit, name)


def _time(store: Store, name: str, field: str) -> int:
    """The end of a date, a time or an age. Raises NotFound: it is none."""
    at = parse_moment(name, store.clock(), end=True)
    if at is None:
        refs = store.code.git.run("for-each-ref", "--format=%(refname:short)")
        hint = closest(name, refs.decode(errors="replace").split(), f"give {FORMS}")
        raise NotFound(f"{field}: no commit, tag, branch or date {name!r}", hint)
    return at


class PastStore(Store):
    """The memory at a commit: a store whose files are Git objects."""

    branch = ""  # a commit is on no branch in particular
    absent = False
    tombstones = frozenset()  # the snapshot leaves out what was forgotten then

    def __init__(self, present: Store, snapshot: Snapshot, then: Moment) -> None:
        vars(self).update(vars(present), serving=False, tip=then.id, clock=lambda: then.at)
        self._present = present
        self.listing = snapshot.files
        self.forgotten = snapshot.forgotten
        try:
            self.index: index.Index = present.index.past(self.dates)
            self._fill(self.index)
        except (BrokenStore, Locked):  # what is not known of the past cannot be kept
            self.index = self.from_files().index

    def _fill(self, past: index.Index) -> None:
        """Let the index be what the commit holds."""
        files = {path: Entry(blob) for path, blob in self.listing.items() if is_listed(path)}
        differing = list(changes.diff(past.manifest(), files))
        if self.forgotten or self._present.tombstones:
            differing += changes.turned(past.ids(), files, differing, self._hides)
        wanted = {change.path: change.entry.blob for change in differing if change.entry}

        @cache  # all are read at once, where the index lacks one
        def documents() -> Mapping[str, index.Doc | None]:
            return dict(self._documents(wanted))

        past.apply(differing, lambda path: documents().get(path), hidden=self._hides)

    def _hides(self, name: str) -> bool:
        """Whether a record was forgotten then."""
        return bool(self.forgotten) and mark_of(name) in self.forgotten

    def _documents(self, files: Mapping[str, str]) -> Iterator[tuple[str, index.Doc | None]]:
        """The documents of some files by path.

        It is None for one that is not a record or was forgotten.
        """
        records = Snapshot(self._present, files, self.forgotten).records
        for path, blob in files.items():
            yield path, index.document(records[path], blob) if path in records else None

    def from_files(self) -> Store:
        """Return the same store answering from the commit alone, without the index."""
        other = copy.copy(self)
        other.index = index.Index(None, None, self.dates)
        self._fill(other.index)
        return other

    def parsed(self, paths: Iterable[str]) -> Mapping[str, Parsed]:
        """Records of that commit as parsed, by path."""
        return Snapshot(self._present, {path: self.listing[path] for path in paths}).parsed

    def read(self, path: str) -> Parsed:
        """Read one record of that commit."""
        blob = self.listing.get(path)
        data = self.repo.blob(blob, MAX_SIZE) if blob else None
        return Parsed(None) if data is None else self.parse(data, path)

    def is_as(self, path: str, entry: Entry) -> bool:  # noqa: ARG002
        """What was committed stays."""
        return True

    def edited(self, path: str) -> bool:  # noqa: ARG002
        """Committed records have no edits."""
        return False

    def obstacle(self) -> str:
        """Objects can always be read."""
        return ""

    def refuse_missing(self) -> None:
        """A store that is missing now may have existed then."""

    def close(self) -> None:
        """Close the index; the rest belongs to the present store."""
        self.index.close()
