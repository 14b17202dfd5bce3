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
from filemem.hints import format_closest
from filemem.memory.fields import validate_line
from filemem.memory.store import FORGOTTEN, Store, compute_tombstone
from filemem.query import parse_moment
from filemem.record import (
    DECISION,
    ParsedRecord,
    Problem,
    Record,
    build_reference_index,
    format_time,
    parse_record,
    resolve_own_status,
    resolve_reference,
)
from filemem.repo.remote import Clash, merge_commits

if TYPE_CHECKING:
    from filemem.record import ReferenceIndex

MOMENT_FORMS = "a commit, tag or branch, a date such as 2025-11-20, or an age such as 2w"
_UNDATED = 1 << 62  # sorts what nobody knows a date of behind all else
RecordParser = Callable[[bytes, str], ParsedRecord]  # of the bytes and the path of a file


class Moment(NamedTuple):
    """The commit that a revision, a date or an age means."""

    id: str  # of the commit
    name: str  # as it was asked for
    committed_at: int  # when it was committed, epoch milliseconds


@dataclass(eq=False, repr=False)
class Snapshot:
    """One state of the memory."""

    store: Store  # the parts
    files: Mapping[str, str]  # blob id by store path of every regular file, records and others
    tombstones: frozenset[str] = frozenset()  # the names of the tombstones
    tips: tuple[str, ...] = ("HEAD",)  # commits whose history dates what states no date
    is_on_disk: bool = False  # the bytes of records are those of the work tree
    scan_problems: tuple[Problem, ...] = ()  # what a scan could not read
    untracked_paths: frozenset[str] = frozenset()  # files that Git does not have
    lost_paths: tuple[str, ...] = ()  # records that Git has and the work tree has not
    conflicts: tuple[Clash, ...] = ()  # what Git could not merge
    parser: RecordParser = (
        parse_record  # how a file is read: `parse`, or `lint` where its problems are wanted
    )

    @cached_property
    def data(self) -> Mapping[str, bytes]:
        """The bytes of every record by path.

        Raises BrokenStore if the repository lacks some: a partial clone.
        """
        paths = [path for path in self.files if is_listed(path)]
        if self.is_on_disk:
            files = self.store.files.read_all(paths)  # one may have gone since it was listed
            return {path: data for path, data in files if isinstance(data, bytes)}
        blobs = self._read_blobs({self.files[path] for path in paths}) if paths else {}
        return {path: blobs[self.files[path]] for path in paths}

    def _read_blobs(self, oids: Collection[str]) -> dict[str, bytes]:
        repo = self.store.repo
        blobs: dict[str, bytes] = {}
        for oid, data in repo.iter_blobs(sorted(oids)):
            if data is None:
                message = "the repository does not have all versions of its records"
                hint = repo.describe_missing_history() or "look at the repository with git fsck"
                raise BrokenStore(f"{message}: {oid[:10]} is missing", hint)
            blobs[oid] = data
        return blobs

    @cached_property
    def parsed_files(self) -> Mapping[str, ParsedRecord]:
        """Every record file as parsed, by path; files over 1 MiB are left out."""
        return {
            path: resolve_own_status(self.parser(data, path), self.store.status_words)
            for path, data in self.data.items()
            if len(data) <= MAX_SIZE
        }

    @cached_property
    def records(self) -> Mapping[str, Record]:
        """The records by path, without unreadable and forgotten ones."""
        records = ((path, parsed_files.record) for path, parsed_files in self.parsed_files.items())
        return {path: row for path, row in records if row and not self.is_forgotten(row.id)}

    def is_forgotten(self, record_id: str) -> bool:
        """Whether there is a tombstone for a record."""
        return bool(self.tombstones) and compute_tombstone(record_id) in self.tombstones

    @cached_property
    def dates(self) -> Mapping[str, int]:
        """When each record was made, by path: as stated, else its first commit; 0 if unknown."""
        undated_paths = [path for path, record in self.records.items() if record.created is None]
        files = self.store.files
        commit_dates: dict[str, int] = {}
        for tip in self.tips if undated_paths else ():
            dates = self.store.history.read_dates(map(files.to_work_tree_path, undated_paths), tip)
            for name, at in dates.items():
                path = files.to_store_path(name)
                commit_dates[path] = min(at, commit_dates.get(path, at))
        return {
            path: commit_dates.get(path, 0) if record.created is None else record.created
            for path, record in self.records.items()
        }

    @cached_property
    def records_by_id(self) -> Mapping[str, Record]:
        """The records by id: of two with one id the older, then the one whose path sorts first."""
        records: dict[str, Record] = {}
        for path in sorted(self.records, key=lambda path: (self.dates[path] or _UNDATED, path)):
            records.setdefault(self.records[path].id, self.records[path])
        return records

    @cached_property
    def nodes(self) -> Mapping[str, chain.Node]:
        """The decisions by id, with their references resolved to ids and their dates filled in."""
        decisions = (record for record in self.records_by_id.values() if record.type == DECISION)
        nodes: dict[str, chain.Node] = {}
        for unresolved_node in map(chain.Node.from_record, decisions):
            ids = {name: self.resolve_id(name) or name for name in unresolved_node.references}
            node = unresolved_node.resolve_references(ids)
            nodes[node.id] = node._replace(created=self.dates[node.path])
        return nodes

    @cached_property
    def _reference_index(self) -> ReferenceIndex:
        return build_reference_index(self.records_by_id.values())

    def resolve_id(self, reference: str) -> str:
        """The id of the record that a reference means; "" if there is none, or several."""
        if reference in self.records_by_id:
            return reference
        return resolve_reference(reference, self._reference_index) or ""

    @cached_property
    def graph(self) -> chain.Graph:
        """Which decision holds."""
        removed_references = set(filter(self.is_forgotten, self.missing_references))
        return chain.build_graph(self.nodes.values(), known_removed=removed_references)

    @cached_property
    def missing_references(self) -> frozenset[str]:
        """The references of decisions that lead to no record."""
        references = (name for node in self.nodes.values() for name in node.references)
        return frozenset(name for name in references if name not in self.records_by_id)


def read_work_tree(store: Store, parser: RecordParser = parse_record) -> Snapshot:
    """The records of the work tree, and what else Git has of the store."""
    records, _, scan_problems = store.scan({})
    staged = store.repo.read_staged([store.files.store])
    tracked_blobs = {store.files.to_store_path(path): oid for path, oid in staged.items()}
    files = {path: oid for path, oid in tracked_blobs.items() if not is_listed(path)}
    files |= {path: entry.blob for path, entry in records.items()}
    return Snapshot(
        store,
        files,
        store.tombstones,
        is_on_disk=True,
        scan_problems=tuple(scan_problems),
        untracked_paths=frozenset(records.keys() - tracked_blobs.keys()),
        lost_paths=tuple(
            path for path in tracked_blobs if path not in files and not store.files.exists(path)
        ),
        parser=parser,
    )


def list_all_records(store: Store, *, include_private: bool) -> list[Record]:
    """The records of the work tree, oldest first, dated, paths as people see them.

    `private` ones are among them if asked for.
    """
    snapshot = read_work_tree(store)
    reader = store.reader._replace(owner=include_private)
    records = []
    for path, at in sorted(snapshot.dates.items(), key=lambda row: (row[1], row[0])):
        record = snapshot.records[path]
        if reader.can_see(chain.Node.from_record(record).audience):
            created = at or record.created
            records.append(record._replace(created=created, path=store.to_display_path(path)))
    return records


def read_commit(store: Store, commit: str, parser: RecordParser = parse_record) -> Snapshot:
    """The records of a commit."""
    return _read_tree(store, commit, (commit,), parser)


def read_merge(
    store: Store, base: str, head: str = "HEAD", parser: RecordParser = parse_record
) -> Snapshot:
    """The records after merging one commit into another; uncommitted changes are not part of it.

    Raises Conflict: the two have no history in common; BrokenStore: Git is too old for this.
    """
    tree, clashes = merge_commits(store.repo, base, store.repo.resolve_revision(head) or head)
    return replace(_read_tree(store, tree, (base, head), parser), conflicts=clashes)


def _read_tree(store: Store, tree: str, tips: tuple[str, ...], parser: RecordParser) -> Snapshot:
    listing = store.repo.list_files(tree, store.files.store)
    files = {store.files.to_store_path(path): oid for path, oid in listing.items()}
    folder = f"{FORGOTTEN}/"
    tombstones = frozenset(path.removeprefix(folder) for path in files if path.startswith(folder))
    return Snapshot(store, files, tombstones, tips, parser=parser)


def read_moment(store: Store, commit: str, name: str) -> Moment:
    """A commit as a moment."""
    seconds = store.repo.git.run("log", "-1", "--format=%ct", commit, "--")
    return Moment(commit, name, int(seconds) * 1000)


def resolve_moment(store: Store, when: object, field: str = "at") -> Moment:
    """Return the commit that `when` means; `field`: the caller's name for it, for messages.

    `when` is a commit, tag, branch or expression such as `HEAD~3`; else a date, a time or an age:
    the last commit by then on this branch, a day, week or month without a time meaning its end
    (UTC). Raises BadInput, NotFound.
    """
    name = validate_line(field, when).strip()
    head = store.repo.read_head()
    if not name:
        raise BadInput(f"{field} is empty", f"give {MOMENT_FORMS}", field=field)
    if head is None:
        raise NotFound("nothing is committed yet, so there is no history", f"leave `{field}` out")
    revision = store.code.resolve_revision(name)
    if revision:
        resolved_moment = read_moment(store, revision, name)
        if store.repo is store.code or store.history.is_ancestor(revision, "HEAD"):
            return resolved_moment
        time = resolved_moment.committed_at
    else:
        time = _require_time(store, name, field)
    commit = store.repo.find_commit_at(head, time)
    if not commit:
        message = f"{field} {name}: nothing was committed by {format_time(time)[:10]}"
        raise NotFound(message, store.repo.describe_missing_history() or "ask for a later moment")
    return read_moment(store, commit, name)


def _require_time(store: Store, name: str, field: str) -> int:
    """The end of a date, a time or an age. Raises NotFound: it is none."""
    time = parse_moment(name, store.clock(), end=True)
    if time is None:
        refs = store.code.git.run("for-each-ref", "--format=%(refname:short)")
        hint = format_closest(name, refs.decode(errors="replace").split(), f"give {MOMENT_FORMS}")
        raise NotFound(f"{field}: no commit, tag, branch or date {name!r}", hint)
    return time


class PastStore(Store):
    """The memory at a commit: a store whose files are Git objects."""

    branch = ""  # a commit is on no branch in particular
    is_absent = False
    tombstones = frozenset()  # the snapshot leaves out what was forgotten then

    def __init__(self, present: Store, snapshot: Snapshot, past_moment: Moment) -> None:
        vars(self).update(
            vars(present), serving=False, tip=past_moment.id, clock=lambda: past_moment.committed_at
        )
        self._present = present
        self.listing = snapshot.files
        self.past_tombstones = snapshot.tombstones
        try:
            self.index: index.Index = present.index.open_past(self.read_dates)
            self._fill_index(self.index)
        except (BrokenStore, Locked):  # what is not known of the past cannot be kept
            self.index = self.from_files().index

    def _fill_index(self, past_index: index.Index) -> None:
        """Let the index be what the commit holds."""
        files = {path: Entry(blob) for path, blob in self.listing.items() if is_listed(path)}
        differences = list(changes.iter_changes(past_index.read_manifest(), files))
        if self.past_tombstones or self._present.tombstones:
            differences += changes.list_visibility_changes(
                past_index.read_ids(), files, differences, self._is_hidden
            )
        changed_blobs = {change.path: change.entry.blob for change in differences if change.entry}

        @cache  # all are read at once, where the index lacks one
        def read_documents() -> Mapping[str, index.Doc | None]:
            return dict(self._iter_documents(changed_blobs))

        past_index.apply_changes(
            differences, lambda path: read_documents().get(path), is_hidden=self._is_hidden
        )

    def _is_hidden(self, name: str) -> bool:
        """Whether a record was forgotten then."""
        return bool(self.past_tombstones) and compute_tombstone(name) in self.past_tombstones

    def _iter_documents(self, files: Mapping[str, str]) -> Iterator[tuple[str, index.Doc | None]]:
        """The documents of some files by path.

        It is None for one that is not a record or was forgotten.
        """
        records = Snapshot(self._present, files, self.past_tombstones).records
        for path, blob in files.items():
            yield path, index.build_document(records[path], blob) if path in records else None

    def from_files(self) -> Store:
        """Return the same store answering from the commit alone, without the index."""
        other = copy.copy(self)
        other.index = index.Index(None, None, self.read_dates)
        self._fill_index(other.index)
        return other

    def parse_files(self, paths: Iterable[str]) -> Mapping[str, ParsedRecord]:
        """Records of that commit as parsed, by path."""
        return Snapshot(self._present, {path: self.listing[path] for path in paths}).parsed_files

    def read(self, path: str) -> ParsedRecord:
        """Read one record of that commit."""
        blob = self.listing.get(path)
        data = self.repo.read_blob(blob, MAX_SIZE) if blob else None
        return ParsedRecord(None) if data is None else self.parse(data, path)

    def is_unchanged(self, path: str, entry: Entry) -> bool:  # noqa: ARG002
        """What was committed stays."""
        return True

    def is_edited(self, path: str) -> bool:  # noqa: ARG002
        """Committed records have no edits."""
        return False

    def find_obstacle(self) -> str:
        """Objects can always be read."""
        return ""

    def refuse_missing(self) -> None:
        """A store that is missing now may have existed then."""

    def close(self) -> None:
        """Close the index; the rest belongs to the present store."""
        self.index.close()
