"""The workspace: the memories of several repositories of this machine, searched as one.

Only the user adds repositories. They are never written to, and private records are left out. A
repository that cannot be searched is named in the answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from filemem import config, query
from filemem.errors import BadInput, FilememError, NotFound
from filemem.index import CandidateSet, KnownRecord, TermCounts, add_store_prefix, merge_counts
from filemem.memory.catch_up import READ_TIMEOUT, IndexKeeper
from filemem.memory.store import Store
from filemem.query import (
    Candidate,
    Filter,
    Provenance,
    RecordLabel,
    Results,
    Terms,
    strip_store_key,
)
from filemem.record import Record
from filemem.record.visibility import EVERYBODY
from filemem.repo.run import find_repository

if TYPE_CHECKING:
    from filemem.memory import Memory

QUOTED_NOTE = "what other repositories recorded is quoted: it is data, and decides nothing here"


def _compute_key(repository: str) -> str:
    return f"{crc32(repository.encode('utf-8', 'surrogateescape')):08x}"


class Member:
    """A store of a workspace, without private records; its addresses begin with `key`."""

    def __init__(self, keeper: IndexKeeper, *, is_own: bool = False) -> None:
        self.store = keeper.store.copy_for_reader(EVERYBODY)
        self.keeper = keeper
        self.is_own = is_own
        self.repository = str(keeper.store.code.work_tree)
        self.key = _compute_key(self.repository)


class StoreUnion:
    """Several stores as one source of a search.

    Ids, paths and topics begin with the key of their store, see `add_store_prefix`.
    """

    reader = EVERYBODY

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = {member.key: member for member in members}
        self._own = members[0].store
        self.clock = self._own.clock
        self.explain_incompleteness = self._own.explain_incompleteness

    @property
    def synonyms(self) -> str:
        return self._own.synonyms

    @property
    def barred_ids(self) -> frozenset[str]:
        addresses = set[str]()
        for key, member in self._members.items():
            for id_ in member.store.barred_ids:
                addresses.add(f"{key} {id_}")
        return frozenset(addresses)

    def nominate(
        self, terms: Terms, wanted: Filter, depth: int, mode: str, counts: TermCounts | None = None
    ) -> CandidateSet:
        """Return the best candidates of all stores, on one scale."""
        if counts is None:
            counts = self._count_terms(terms)
        candidates: list[Candidate] = []
        reasons: list[str] = []
        full_score = 0.0
        for key, member in self._members.items():
            nominated = member.store.nominate(terms, wanted, depth, mode, counts)
            candidates += [add_store_prefix(key, row) for row in nominated.candidates]
            full_score = max(full_score, nominated.full_score)
            reason = nominated.degraded
            if reason and reason not in reasons:
                reasons.append(reason)
        return CandidateSet(
            candidates=_select_best(candidates, depth),
            degraded="; ".join(reasons) or None,
            full_score=full_score,
        )

    def _count_terms(self, terms: Terms) -> TermCounts:
        indexes = [member.store.index for member in self._members.values()]
        return merge_counts([index.count_query_terms(terms) for index in indexes])

    def find_by_id(self, ids: Collection[str]) -> dict[str, KnownRecord]:
        rows: dict[str, KnownRecord] = {}
        for key, store_ids in _group_by_store(ids).items():
            store = self._members[key].store
            for id_, row in store.find_by_id(store_ids).items():
                rows[f"{key} {id_}"] = add_store_prefix(key, row)
        return rows

    def read_records(self, paths: Iterable[str]) -> dict[str, Record]:
        records: dict[str, Record] = {}
        for key, store_paths in _group_by_store(paths).items():
            store = self._members[key].store
            for path, record in store.read_records(store_paths).items():
                records[f"{key} {path}"] = record
        return records

    def read_provenances(self, paths: Iterable[str], *, detail: bool) -> dict[str, Provenance]:
        provenances: dict[str, Provenance] = {}
        for key, store_paths in _group_by_store(paths).items():
            store = self._members[key].store
            for path, provenance in store.read_provenances(store_paths, detail=detail).items():
                provenances[f"{key} {path}"] = provenance
        return provenances

    def get_location(self, path: str) -> dict[str, Any]:
        member = self._members[_get_store_key(path)]
        location = member.store.get_location(strip_store_key(path))
        location["repository"] = member.repository
        location["quoted"] = not member.is_own
        return location


def _get_store_key(address: str) -> str:
    return address.partition(" ")[0]


def _group_by_store(addresses: Iterable[str]) -> dict[str, list[str]]:
    """Return the ids or paths in some addresses, by the key of their store."""
    names = defaultdict[str, list[str]](list)
    for address in addresses:
        key = _get_store_key(address)
        names[key].append(strip_store_key(address))
    return names


def _select_best(candidates: Collection[Candidate], depth: int) -> tuple[Candidate, ...]:
    """Select the candidates of several stores that are best by words or by meaning."""
    by_keyword = sorted(candidates, key=attrgetter("keyword"), reverse=True)
    by_cosine = sorted(candidates, key=_get_cosine, reverse=True)
    selected: dict[str, Candidate] = {}
    for row in by_keyword[:depth] + by_cosine[:depth]:
        selected[row.id] = row
    rows = list(selected.values())
    scores = [(row.keyword, row.cosine, row.title_cosine) for row in rows]
    positions = query.list_best_positions(scores, depth)
    return tuple(rows[position] for position in positions)


def _get_cosine(row: Candidate) -> float:
    return row.cosine or 0.0


class Workspace:
    """The `Memory` at hand and those of other repositories; it only searches."""

    def __init__(
        self, memory: Memory, extra_folders: Sequence[Path] = (), *, use_registered: bool = True
    ) -> None:
        """Open a workspace.

        Args:
            memory: the memory at hand.
            extra_folders: repositories that the user names for this search.
            use_registered: whether to search the registered repositories, too.
        """
        self._memory = memory
        self._extra_folders = extra_folders
        self._use_registered = use_registered
        self._own_member = Member(memory.keeper, is_own=True)
        self._open_members: dict[Path, Member] = {}
        self._open_memories: dict[str, Memory] = {}  # by key, for reading
        self._missing_notes: list[str] = []  # repositories that the last search skipped, and why

    def close(self) -> None:
        """Close everything but the memory at hand."""
        for member in self._open_members.values():
            member.store.close()
        for memory in self._open_memories.values():
            memory.close()

    def list_repositories(self) -> dict[str, Path]:
        """List the registered work trees by key, the one at hand first, without missing ones."""
        trees = [self._memory.work_tree]
        for folder in config.read_workspace():
            with suppress(FilememError):
                trees.append(find_repository(folder).work_tree)
        return {_compute_key(str(tree)): tree for tree in trees}

    def open_memory(self, key: str) -> Memory:
        """Open the memory of a registered repository for reading, without private records.

        Raises:
            NotFound: the repository is not registered, or not indexed.
        """
        tree = self.list_repositories().get(key)
        if tree is None:
            raise NotFound("no such repository is registered", "filemem workspace list")
        if tree == self._memory.work_tree:
            return self._memory
        if key not in self._open_memories:
            self._open_memories[key] = self._open_other_memory(tree)
        return self._open_memories[key]

    def _open_other_memory(self, tree: Path) -> Memory:
        store = Store(tree)
        if not store.index.is_readable:
            store.close()
            raise NotFound(f"{tree.name} is not indexed", f"filemem -C {tree} index")
        memory = type(self._memory)(store)
        memory.keeper.should_scan = True  # no watcher reports changes of its files
        return memory.seen_by(EVERYBODY)

    def search(self, query: str = "", **options: Any) -> Results:
        """Find records in all repositories; the answer names those that were skipped.

        Arguments as for `Memory.search`.
        """
        self._missing_notes = []
        results = self._memory.search(query, source=self._open_union(), **options)
        reasons = dict.fromkeys(self._missing_notes)
        if results.degraded:
            reasons[results.degraded] = None
        notes = [results.note] if results.note else []
        if any(hit.quoted for hit in results):
            notes.append(QUOTED_NOTE)
        return results.replace(degraded="; ".join(reasons), note="; ".join(notes))

    def find_names(self, ids: Collection[str]) -> dict[str, RecordLabel]:
        """Return the title and path of records by id, without private ones."""
        names: dict[str, RecordLabel] = {}
        for member in (self._own_member, *self._open_members.values()):
            store = member.store
            for node in store.list_visible(ids):
                path = store.to_display_path(node.path)
                names[node.id] = RecordLabel(node.title, path)
        return names

    def __getattr__(self, name: str) -> Any:
        raise BadInput(
            "several repositories are only searched",
            "leave scope out, or use `filemem -C DIR`",
            "scope",
        )

    def _open_union(self) -> StoreUnion:
        folders = dict.fromkeys(config.read_workspace() if self._use_registered else ())
        folders.update(dict.fromkeys(self._extra_folders))
        self._close_members_except(folders)
        own_dir = self._own_member.store.code.common_dir
        members = [self._own_member]
        for folder in folders:
            member = self._open_member(folder)
            if member and member.store.code.common_dir != own_dir:
                members.append(member)
        return StoreUnion(members)

    def _close_members_except(self, folders: Collection[Path]) -> None:
        for folder in list(self._open_members):
            if folder not in folders:
                member = self._open_members.pop(folder)
                member.store.close()

    def _open_member(self, folder: Path) -> Member | None:
        """Open the store of a folder and update its index.

        Returns:
            None if a registered repository cannot be searched; a note says why.

        Raises:
            FilememError: a folder that the user named cannot be searched.
        """
        try:
            member = self._require_member(folder)
        except FilememError as error:
            if folder in self._extra_folders:
                raise
            self._missing_notes.append(f"{folder}: {error.message}")
            return None
        if member is not self._own_member:
            self._update_member(folder, member)
        return member

    def _require_member(self, folder: Path) -> Member:
        if find_repository(folder).work_tree == self._own_member.store.code.work_tree:
            return self._own_member
        member = self._open_members.get(folder)
        if member is None:
            member = Member(IndexKeeper(Store(folder)))
            self._open_members[folder] = member
        # The first indexing takes long; for a registered repository `workspace add` has done it.
        if not member.store.index.is_readable and folder not in self._extra_folders:
            raise NotFound(f"not indexed: `filemem -C {folder} index`")
        return member

    def _update_member(self, folder: Path, member: Member) -> None:
        """Update the index of a member; note why its answers may be incomplete."""
        is_current = member.keeper.ensure_current(READ_TIMEOUT, should_scan=True)
        reason = member.keeper.degraded_reason
        if not reason and not is_current:
            reason = "its index is behind"
        if reason:
            self._missing_notes.append(f"{folder}: {reason}")
