"""The records of one state: the work tree, a commit, or the merge of two; and past memories.

A snapshot has blob ids by path and reads all their bytes at once. A past memory is searched like
the present one: its differences are laid over the present index, in memory. Nothing is written, and
the work tree is not read.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
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
_UNDATED = 1 << 62  # sorts records without a date last
RecordParser = Callable[[bytes, str], ParsedRecord]  # from the bytes and the path of a file


class Moment(NamedTuple):
    """The commit that a revision, a date or an age means."""

    id: str  # of the commit
    name: str  # as the caller named it
    committed_at: int  # when it was committed, epoch milliseconds

    def get_time(self) -> int:
        """Return the time of the moment: the clock of a past memory."""
        return self.committed_at


@dataclass(eq=False, repr=False)
class Snapshot:
    """One state of the memory."""

    store: Store
    files: Mapping[str, str]  # blob id by store path of every regular file, records and others
    tombstones: frozenset[str] = frozenset()  # the names of the tombstones
    tips: tuple[str, ...] = ("HEAD",)  # commits whose history dates records without a date
    is_on_disk: bool = False  # whether the bytes of records are read from the work tree
    scan_problems: tuple[Problem, ...] = ()  # files that a scan could not read
    untracked_paths: frozenset[str] = frozenset()  # files that Git does not have
    lost_paths: tuple[str, ...] = ()  # records of Git that the work tree lacks
    conflicts: tuple[Clash, ...] = ()  # files that Git could not merge
    parser: RecordParser = parse_record  # `CheckCache.lint` to find all problems

    @cached_property
    def data(self) -> Mapping[str, bytes]:
        """The bytes of every record by path.

        Raises BrokenStore if the repository lacks some: a partial clone.
        """
        blob_ids = {path: blob_id for path, blob_id in self.files.items() if is_listed(path)}
        if self.is_on_disk:
            files = self.store.files.read_all(list(blob_ids))
            # A file may have been deleted since it was listed.
            return {path: data for path, data in files if isinstance(data, bytes)}
        if not blob_ids:
            return {}
        blobs = self._read_blobs(set(blob_ids.values()))
        return {path: blobs[blob_id] for path, blob_id in blob_ids.items()}

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
        parsed_files: dict[str, ParsedRecord] = {}
        for path, data in self.data.items():
            if len(data) <= MAX_SIZE:
                parsed = self.parser(data, path)
                parsed_files[path] = resolve_own_status(parsed, self.store.status_words)
        return parsed_files

    @cached_property
    def records(self) -> Mapping[str, Record]:
        """The records by path, without unreadable and forgotten ones."""
        records: dict[str, Record] = {}
        for path, parsed in self.parsed_files.items():
            record = parsed.record
            if record and not self.is_forgotten(record.id):
                records[path] = record
        return records

    def is_forgotten(self, record_id: str) -> bool:
        """Return whether there is a tombstone for a record."""
        return bool(self.tombstones) and compute_tombstone(record_id) in self.tombstones

    @cached_property
    def dates(self) -> Mapping[str, int]:
        """When each record was made, by path: as stated, else its first commit; 0 if unknown."""
        undated_paths = [path for path, record in self.records.items() if record.created is None]
        commit_dates = self._read_commit_dates(undated_paths) if undated_paths else {}
        dates: dict[str, int] = {}
        for path, record in self.records.items():
            if record.created is None:
                dates[path] = commit_dates.get(path, 0)
            else:
                dates[path] = record.created
        return dates

    def _read_commit_dates(self, paths: Iterable[str]) -> dict[str, int]:
        """Read the first commit dates of some records over all tips, by path."""
        files = self.store.files
        full_paths = [files.to_work_tree_path(path) for path in paths]
        commit_dates: dict[str, int] = {}
        for tip in self.tips:
            for full_path, date in self.store.history.read_dates(full_paths, tip).items():
                path = files.to_store_path(full_path)
                commit_dates[path] = min(date, commit_dates.get(path, date))
        return commit_dates

    @cached_property
    def records_by_id(self) -> Mapping[str, Record]:
        """The records by id: of two with one id the older, then the one whose path sorts first."""

        def get_age_key(path: str) -> tuple[int, str]:
            return self.dates[path] or _UNDATED, path

        records: dict[str, Record] = {}
        for path in sorted(self.records, key=get_age_key):
            record = self.records[path]
            records.setdefault(record.id, record)
        return records

    @cached_property
    def nodes(self) -> Mapping[str, chain.Node]:
        """The decisions by id, with their references resolved to ids and their dates filled in."""
        nodes: dict[str, chain.Node] = {}
        for record in self.records_by_id.values():
            if record.type != DECISION:
                continue
            stated_node = chain.Node.from_record(record)
            ids = {name: self.resolve_id(name) or name for name in stated_node.references}
            node = stated_node.resolve_references(ids)
            nodes[node.id] = node._replace(created=self.dates[node.path])
        return nodes

    @cached_property
    def _reference_index(self) -> ReferenceIndex:
        return build_reference_index(self.records_by_id.values())

    def resolve_id(self, reference: str) -> str:
        """Return the id of the record that a reference means; "" if there is none, or several."""
        if reference in self.records_by_id:
            return reference
        return resolve_reference(reference, self._reference_index) or ""

    @cached_property
    def graph(self) -> chain.Graph:
        """The decisions with their chains."""
        forgotten_ids = {name for name in self.missing_references if self.is_forgotten(name)}
        return chain.build_graph(self.nodes.values(), known_removed=forgotten_ids)

    @cached_property
    def missing_references(self) -> frozenset[str]:
        """The references of decisions to missing records."""
        references = set[str]()
        for node in self.nodes.values():
            references.update(node.references)
        return frozenset(references - self.records_by_id.keys())


def read_work_tree(store: Store, parser: RecordParser = parse_record) -> Snapshot:
    """Read the records of the work tree, and the other files of the store in Git."""
    scan = store.scan({})
    staged = store.repo.read_staged([store.files.store])
    tracked_blobs = {store.files.to_store_path(path): blob for path, blob in staged.items()}
    files = {path: blob for path, blob in tracked_blobs.items() if not is_listed(path)}
    for path, entry in scan.files.items():
        files[path] = entry.blob
    missing_paths = [path for path in tracked_blobs if path not in files]
    lost_paths = [path for path in missing_paths if not store.files.exists(path)]
    return Snapshot(
        store=store,
        files=files,
        tombstones=store.tombstones,
        is_on_disk=True,
        scan_problems=tuple(scan.problems),
        untracked_paths=frozenset(scan.files.keys() - tracked_blobs.keys()),
        lost_paths=tuple(lost_paths),
        parser=parser,
    )


def list_all_records(store: Store, *, include_private: bool) -> list[Record]:
    """List the records of the work tree, oldest first, with dates and paths as users see them."""
    snapshot = read_work_tree(store)
    dates = snapshot.dates
    reader = store.reader._replace(owner=include_private)

    def get_age_key(path: str) -> tuple[int, str]:
        return dates[path], path

    records: list[Record] = []
    for path in sorted(dates, key=get_age_key):
        record = snapshot.records[path]
        audience = chain.Node.from_record(record).audience
        if reader.can_see(audience):
            created = dates[path] or record.created
            records.append(record._replace(created=created, path=store.to_display_path(path)))
    return records


def read_commit(store: Store, commit: str, parser: RecordParser = parse_record) -> Snapshot:
    """Read the records of a commit."""
    return _read_tree(store, commit, (commit,), parser)


def read_merge(
    store: Store, base: str, head: str = "HEAD", parser: RecordParser = parse_record
) -> Snapshot:
    """Read the records after merging one commit into another, without uncommitted changes.

    Raises Conflict: the two have no common history; BrokenStore: Git is too old for this.
    """
    head_id = store.repo.resolve_revision(head) or head
    tree, clashes = merge_commits(store.repo, base, head_id)
    snapshot = _read_tree(store, tree, (base, head), parser)
    return replace(snapshot, conflicts=clashes)


def _read_tree(store: Store, tree: str, tips: tuple[str, ...], parser: RecordParser) -> Snapshot:
    listing = store.repo.list_files(tree, store.files.store)
    files = {store.files.to_store_path(path): blob for path, blob in listing.items()}
    folder = f"{FORGOTTEN}/"
    tombstone_paths = [path for path in files if path.startswith(folder)]
    return Snapshot(
        store=store,
        files=files,
        tombstones=frozenset(path.removeprefix(folder) for path in tombstone_paths),
        tips=tips,
        parser=parser,
    )


def read_moment(store: Store, commit: str, name: str) -> Moment:
    """Read a commit as a moment."""
    seconds = store.repo.git.run("log", "-1", "--format=%ct", commit, "--")
    return Moment(commit, name, int(seconds) * 1000)


def resolve_moment(store: Store, when: object, field: str = "at") -> Moment:
    """Find the commit for a moment.

    Args:
        store: the memory.
        when: a commit, tag, branch or expression such as `HEAD~3`; else a date, a time or an age.
            These mean the last commit by then on this branch; a day, week or month without a time
            means its end (UTC).
        field: the caller's name of `when`, for messages.

    Raises BadInput, NotFound.
    """
    name = validate_line(field, when).strip()
    head = store.repo.read_head()
    if not name:
        raise BadInput(f"{field} is empty", f"give {MOMENT_FORMS}", field=field)
    if head is None:
        raise NotFound("nothing is committed yet, so there is no history", f"leave `{field}` out")
    revision = store.code.resolve_revision(name)
    if revision:
        moment = read_moment(store, revision, name)
        if store.repo is store.code or store.history.is_ancestor(revision, "HEAD"):
            return moment
        time = moment.committed_at
    else:
        time = _require_time(store, name, field)
    commit = store.repo.find_commit_at(head, time)
    if not commit:
        message = f"{field} {name}: nothing was committed by {format_time(time)[:10]}"
        raise NotFound(message, store.repo.describe_missing_history() or "ask for a later moment")
    return read_moment(store, commit, name)


def _require_time(store: Store, name: str, field: str) -> int:
    """Read the end of a date, a time or an age. Raises NotFound: it is none."""
    time = parse_moment(name, store.clock(), end=True)
    if time is None:
        output = store.code.git.run("for-each-ref", "--format=%(refname:short)")
        refs = output.decode(errors="replace").split()
        hint = format_closest(name, refs, f"give {MOMENT_FORMS}")
        raise NotFound(f"{field}: no commit, tag, branch or date {name!r}", hint)
    return time


class PastStore(Store):
    """The memory at a commit: a store whose files are Git objects."""

    branch = ""  # a commit is on no branch in particular
    is_absent = False
    tombstones = frozenset()  # the snapshot leaves out records that were forgotten then

    def __init__(self, present: Store, snapshot: Snapshot, past_moment: Moment) -> None:
        """Take the parts of the present store; only files, index and clock are of the past."""
        self.config = present.config
        self.code = present.code
        self.repo = present.repo
        self.name = present.name
        self.is_configured = present.is_configured
        self.files = present.files
        self.history = present.history
        self.status_words = present.status_words
        self.serving = False
        self.clock = past_moment.get_time
        self.entropy = present.entropy
        self.reader = present.reader
        self.tip = past_moment.id
        self._present = present
        self.listing = snapshot.files
        self.past_tombstones = snapshot.tombstones
        try:
            self.index: index.Index = present.index.open_past(self.read_dates)
            self._fill_index(self.index)
        except (BrokenStore, Locked):  # without the index, the memory answers from the commit
            self.index = self.from_files().index

    def _fill_index(self, past_index: index.Index) -> None:
        """Change an index to the records of the commit."""
        files = {path: Entry(blob) for path, blob in self.listing.items() if is_listed(path)}
        differences = list(changes.iter_changes(past_index.read_manifest(), files))
        if self.past_tombstones or self._present.tombstones:
            differences += changes.list_visibility_changes(
                past_index.read_ids(), files, differences, self._is_hidden
            )
        changed_blobs: dict[str, str] = {}
        for change in differences:
            if change.entry:
                changed_blobs[change.path] = change.entry.blob
        documents: dict[str, index.Doc | None] = {}

        def read_document(path: str) -> index.Doc | None:
            if not documents:  # all are read at once, if the index lacks one
                documents.update(self._iter_documents(changed_blobs))
            return documents.get(path)

        past_index.apply_changes(differences, read_document, is_hidden=self._is_hidden)

    def _is_hidden(self, name: str) -> bool:
        """Return whether a record was forgotten then."""
        return bool(self.past_tombstones) and compute_tombstone(name) in self.past_tombstones

    def _iter_documents(self, files: Mapping[str, str]) -> Iterator[tuple[str, index.Doc | None]]:
        """Yield the documents of some files by path; None for other files and forgotten records."""
        records = Snapshot(self._present, files, self.past_tombstones).records
        for path, blob in files.items():
            record = records.get(path)
            yield path, index.build_document(record, blob) if record else None

    def from_files(self) -> Store:
        """Return the same store answering from the commit alone, without the index."""
        other = copy.copy(self)
        other.index = index.Index(None, None, self.read_dates)
        self._fill_index(other.index)
        return other

    def parse_files(self, paths: Iterable[str]) -> Mapping[str, ParsedRecord]:
        """Return records of that commit as parsed, by path."""
        files = {path: self.listing[path] for path in paths}
        return Snapshot(self._present, files).parsed_files

    def read(self, path: str) -> ParsedRecord:
        """Read one record of that commit."""
        blob = self.listing.get(path)
        data = self.repo.read_blob(blob, MAX_SIZE) if blob else None
        if data is None:
            return ParsedRecord(None)
        return self.parse(data, path)

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
