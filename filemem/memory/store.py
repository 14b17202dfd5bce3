"""The parts of an open memory: files, repository, history, index; and lookups of single records."""

from __future__ import annotations

import copy
import os
import posixpath
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

from filemem import changes
from filemem.changes import Entry, Manifest, compute_blob_id
from filemem.errors import BadInput, BrokenStore, Conflict, NotFound
from filemem.files import Files, Scan, is_private
from filemem.index import (
    CandidateSet,
    Doc,
    Index,
    KnownRecord,
    Node,
    TermCounts,
    build_document,
    open_model,
    search_with_predecessors,
)
from filemem.memory import fields, own_branch
from filemem.memory.labels import MAX_NAMED as MAX_NAMED
from filemem.memory.labels import MIN_SHORT_ID_LENGTH as MIN_SHORT_ID_LENGTH
from filemem.memory.labels import NamedRecord, format_hint
from filemem.memory.labels import format_nodes as format_nodes
from filemem.memory.own_branch import TOP as TOP
from filemem.query import (
    Filter,
    Provenance,
    Reader,
    Terms,
    get_literal_prefix,
    is_included,
    is_inside_repository,
)
from filemem.record import (
    DECISION,
    ParsedRecord,
    Record,
    build_topic_key,
    parse_record,
    resolve_own_status,
)
from filemem.repo.history import Commit, History, build_provenance

Progress = Callable[[int, int], object]  # records done, records in all
FORGOTTEN = ".forgotten"  # the folder of tombstones
SYNONYMS = "synonyms.txt"  # the project's own, in the form of `filemem/query/synonyms.txt`


def compute_tombstone(record_id: str) -> str:
    """Return the name of a record's tombstone: a hash of its id, never of its content."""
    import hashlib  # noqa: PLC0415 - 4 ms, for OpenSSL; most memories have forgotten nothing

    return hashlib.sha256(record_id.encode()).hexdigest()


class Store:
    """An open memory; `clock` returns epoch milliseconds, `entropy` eight random bytes."""

    def __init__(self, folder: Path, store: str | None = None, *, serving: bool = False) -> None:
        """Find the repository of a folder and open its parts. Errors as for `find_home`.

        `store` is the folder of records, or None for the configured one; `serving` keeps helpers
        alive between calls.
        """
        home = own_branch.find_home(folder, store)
        self.config = home.config
        self.code = home.code  # the repository of the project
        self.repo = home.repo  # that of the records, the same unless they have their own branch
        self.name = home.name
        self.is_configured = home.is_configured
        spool = self.repo.private_folder / "spool"
        self.files = Files(self.repo.work_tree, home.store, spool=spool)
        self.history = History(self.repo, home.store)
        self.status_words = tuple(sorted(self.config.status.items()))  # the project's own words
        self.index = Index(self._get_index_folder(), open_model(self.config.model), self.read_dates)
        self.serving = serving
        self.clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000
        self.entropy: Callable[[], bytes] = lambda: os.urandom(8)
        self.reader = Reader(True, self.config.agent, self.config.department)
        self.tip = "HEAD"  # the commit from which history is seen

    def _get_index_folder(self) -> Path:
        """Return the folder of the index: the Git directory, or the cache if that is read-only."""
        store = self.files.store
        git_dir = self.repo.git_dir
        name = "%2E" if store == TOP else store.replace("%", "%25").replace("/", "%2F")
        if self.status_words:  # other words are another index
            name = f"{name}/{compute_tombstone(repr(self.status_words))[:8]}"
        if os.access(git_dir, os.W_OK):
            return self.repo.private_folder / "index" / name
        key = compute_tombstone(str(git_dir).encode("utf-8", "surrogateescape").hex())[:16]
        return self.config.index_cache / key / name

    def close(self) -> None:
        """Close helpers and release locks."""
        self.index.close()
        self.history.close()
        self.repo.close()
        if self.code is not self.repo:
            self.code.close()

    def from_files(self) -> Store:
        """Return the same store answering from the files, for when the index cannot be used."""
        other = copy.copy(self)
        other.index = Index(None, None, self.read_dates)
        files = self.scan({}).files
        tombstones = self.tombstones

        def read_file(path: str) -> Doc | None:
            return self.read_document(path, tombstones)

        other.index.apply_changes(changes.iter_changes({}, files), read_file, scan_manifest=files)
        return other

    def copy_for_reader(self, reader: Reader) -> Store:
        """Return the same store, asked by another reader."""
        other = copy.copy(self)
        other.reader = reader
        return other

    # records

    @property
    def barred_ids(self) -> Collection[str]:
        """The ids of the records that the reader may not see."""
        return self.index.read_barred_ids(Filter(reader=self.reader))

    def list_visible(self, ids: Collection[str]) -> list[Node]:
        """Return the records with these ids that the reader may see."""
        return self.exclude_barred(self.index.read_nodes_by_field("id", ids))

    def exclude_barred(self, nodes: Iterable[Node]) -> list[Node]:
        """Return the records that the reader may see."""
        barred_ids = self.barred_ids
        return [node for node in nodes if node.id not in barred_ids]

    @cached_property
    def folder(self) -> Path:
        """The store's folder."""
        return Path(self.repo.work_tree) / self.files.store

    @property
    def branch(self) -> str:
        """The branch that records are committed to; "" if HEAD is detached."""
        return self.repo.read_branch() or ""

    @property
    def tip_id(self) -> str:
        """The commit from which history is read, by its id if there is one."""
        return (self.repo.read_head() if self.tip == "HEAD" else self.tip) or self.tip

    @property
    def is_absent(self) -> bool:
        """Whether there is no store yet, neither in the work tree nor in HEAD."""
        return not os.path.lexists(self.folder) and self.repo.find_item(self.files.store) is None

    @property
    def tombstones(self) -> frozenset[str]:
        """The names of all tombstones; links are ignored."""
        folder = self.folder / FORGOTTEN
        if folder.is_symlink():
            return frozenset()
        try:
            with os.scandir(folder) as entries:
                files = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
                return frozenset(file.name for file in files)
        except OSError:
            return frozenset()

    @property
    def synonyms(self) -> str:
        """The project's own list of synonyms; "" if it has none, or it cannot be read."""
        if not os.path.lexists(self.folder / SYNONYMS):
            return ""
        try:
            return self.files.read(SYNONYMS).decode(errors="replace")
        except (NotFound, BadInput, BrokenStore):
            return ""

    def scan(self, before: Manifest, folders: Collection[str] | None = None) -> Scan:
        """List the records of the store, see `Files.scan`.

        Files that are unchanged in Git's index are not read.
        """

        def find_known_ids(files: Mapping[str, os.stat_result]) -> dict[str, str]:
            states: dict[str, os.stat_result] = {}
            for path, state in files.items():
                states[self.files.to_work_tree_path(path)] = state
            blobs = self.repo.find_unchanged_blobs(states)
            return {self.files.to_store_path(path): blob for path, blob in blobs.items()}

        hash_name = self.repo.hash_name
        return self.files.scan(
            before, hash_name=hash_name, folders=folders, find_known_ids=find_known_ids
        )

    def parse(self, data: bytes, path: str) -> ParsedRecord:
        """Read the bytes of one record, with the project's own words for a status."""
        return resolve_own_status(parse_record(data, path), self.status_words)

    def read(self, path: str) -> ParsedRecord:
        """Read one record.

        A file that no longer exists, or is not a regular file, gives no record and no error.
        """
        try:
            return self.parse(self.files.read(path), path)
        except (NotFound, BadInput):
            return ParsedRecord(None)

    def read_records(self, paths: Iterable[str]) -> Mapping[str, Record]:
        """Return the current records by path; files unchanged since indexing are not read."""
        paths = list(paths)
        indexed_rows = self.index.read_records(paths)
        records: dict[str, Record] = {}
        for path in paths:
            entry, record = indexed_rows.get(path, (None, None))
            if not entry or not self.is_unchanged(path, entry):
                record = self.read(path).record
            if record is not None:
                records[path] = record
        return records

    def read_provenances(
        self, paths: Iterable[str], *, detail: bool = True
    ) -> dict[str, Provenance]:
        """Return who wrote records, by path; uncommitted ones are left out.

        Without `detail`, only the commit is known.
        """
        names = {self.files.to_work_tree_path(path): path for path in paths}
        if not names:
            return {}
        if not detail:
            commits = self.history.read_last_commits(names, self.tip_id)
            return {names[name]: Provenance(commit=commit) for name, commit in commits.items()}
        branch = self.branch
        default = self._find_default_branch()
        default_name = ""
        landed: Mapping[str, Commit] = {}
        if default:
            default_name = default.name
            landed = self.history.read_landings(names, default.tip)
        touches_by_name = self.history.read_touches(names, self.tip_id)
        boundary = self.repo.shallow_boundary
        provenances: dict[str, Provenance] = {}
        for name, touches in touches_by_name.items():
            if touches:
                landing = landed.get(name)
                values = build_provenance(touches, boundary, branch, default_name, landing)
                provenances[names[name]] = Provenance(**values)
        return provenances

    def _find_default_branch(self) -> own_branch.Branch | None:
        """Return the default branch; a memory on its own branch is its own default."""
        if self.branch and self.repo is not self.code:
            return self.repo.read_current_branch()
        return self.repo.find_default_branch()

    def is_unchanged(self, path: str, entry: Entry) -> bool:
        """Whether a file is as it was indexed, by its size and time."""
        return self.files.is_unchanged(path, entry.size, entry.mtime)

    def read_document(self, path: str, forgotten: frozenset[str]) -> Doc | None:
        """The document of a file; None if it is not a record, or hidden. Raises NotFound."""
        try:
            data = self.files.read(path)
        except BadInput:
            return None
        record = self.parse(data, path).record
        if record is None or (forgotten and compute_tombstone(record.id) in forgotten):
            return None
        return build_document(record, self._compute_blob_id(data))

    def _compute_blob_id(self, data: bytes) -> str:
        return compute_blob_id(data, self.repo.hash_name)

    def is_edited(self, path: str) -> bool:
        """Whether a committed record has uncommitted changes; a missing file has none."""
        full_path = self.files.to_work_tree_path(path)
        try:
            data = self.files.read(path)
        except (NotFound, BadInput):
            return False
        touches = self.history.read_touches([full_path], self.tip_id).get(full_path, ())
        # Most files are as last committed: that takes no process.
        if touches and touches[0].new_blob == self._compute_blob_id(data):
            return False
        return self.repo.is_edited(full_path, data)

    def read_dates(self, paths: Collection[str]) -> Mapping[str, int]:
        """Return the time of each file's first commit, in epoch milliseconds, by store path.

        Uncommitted files are left out.
        """
        files = self.files
        full_paths = [files.to_work_tree_path(path) for path in paths]
        dates = self.history.read_dates(full_paths, self.tip_id)
        return {files.to_store_path(path): date for path, date in dates.items()}

    def require_node(self, reference: str) -> Node:
        """Find a record by its id, the start of a short id, path, file name, number or title.

        Raises:
            NotFound: no record, or more than one, matches; the hint names similar ones.
        """
        name = fields.validate_line("id", reference).strip()
        nodes = self.exclude_barred(self._list_named(name))
        if len(nodes) > 1:
            listing = format_nodes(sorted(nodes, key=attrgetter("path")))
            message = f"{len(nodes)} records answer to {name!r}: {listing}"
            raise NotFound(message, "name one by its short id or path")
        if not nodes:
            raise NotFound(f"no record {name!r}", format_hint(self, name))
        return nodes[0]

    def _list_named(self, name: str) -> list[Node]:
        """List the records with a name, else those whose short ids begin with it."""
        if not name:
            return []
        nodes = self.index.read_nodes_by_name(self.to_store_path(name))
        # A bare number is that of an ADR.
        if nodes or len(name) < MIN_SHORT_ID_LENGTH or name.isdigit():
            return nodes
        ids = [short for short, _ in self.index.count_terms("short", name.casefold())]
        return self.index.read_nodes_by_field("short", ids)

    def resolve_name(self, reference: str) -> NamedRecord:
        """Find a record as `require_node` does, or else the live decision on a topic.

        Raises:
            NotFound: neither exists.
            Conflict: several decisions are live on the topic.
        """
        try:
            return NamedRecord(self.require_node(reference))
        except NotFound:
            live_nodes = self.list_live(build_topic_key(reference))
            if not live_nodes:
                raise
        if len(live_nodes) > 1:
            listing = format_nodes(live_nodes)
            message = f"{len(live_nodes)} decisions hold on topic {reference}: {listing}"
            heads = tuple(node.id for node in live_nodes)
            raise Conflict(message, "name one of them by its short id", heads)
        return NamedRecord(live_nodes[0], f"topic {reference} means {live_nodes[0].label}")

    def list_guarding(self, paths: Collection[str]) -> list[Node]:
        """List the live, visible decisions with a guard on one of these files."""
        with self.index.snapshot() as facts:
            globs = set[str]()
            for glob in facts.read_link_values("guards"):
                if any(is_included((glob,), path) for path in paths):
                    globs.add(glob)
            rows = facts.read_rows("guards", globs)
            if not rows:
                return []
            barred_numbers = {row.number for row in facts.read_barred_rows(self.reader)}
        allowed_rows = [row for row in rows if row.number not in barred_numbers]
        return [row.node for row in allowed_rows if row.is_live and row.is_visible]

    def list_forked_topics(self, nodes: Iterable[Node]) -> tuple[str, ...]:
        """List the topics of some records on which several decisions are live."""
        rows = self.find_by_id([node.id for node in nodes])
        topics: dict[str, str] = {}
        for row in rows.values():
            if row.facts.forked_heads:
                topics[row.node.key] = row.node.topic
        return tuple(sorted(topics.values()))

    def list_live(self, key: str) -> list[Node]:
        """List the live decisions on a topic, oldest first."""
        if not key:
            return []
        rows = self.index.read_rows("key", [key])
        live_rows = [row for row in rows if row.is_visible and row.is_live]
        nodes = [row.node for row in live_rows if row.node.type == DECISION]
        if not nodes:
            return []
        return sorted(self.exclude_barred(nodes), key=attrgetter("sort_key"))

    # the protocol of a search source

    def nominate(
        self, terms: Terms, wanted: Filter, depth: int, mode: str, counts: TermCounts | None = None
    ) -> CandidateSet:
        """See `hits.SearchSource`."""

        def find_candidates(criteria: Filter) -> CandidateSet:
            return self.index.search_candidates(terms, criteria, depth, mode=mode, counts=counts)

        return search_with_predecessors(find_candidates, wanted)

    def find_by_id(self, ids: Collection[str]) -> Mapping[str, KnownRecord]:
        """See `hits.SearchSource`."""
        return self.index.read_rows_by_id(ids)

    def get_location(self, path: str) -> dict[str, Any]:
        """See `hits.SearchSource`."""
        return {"path": self.to_display_path(path)}

    def explain_incompleteness(self) -> str:
        """See `hits.SearchSource`."""
        return self.repo.describe_missing_history()

    # names

    def to_display_path(self, path: str) -> str:
        """Return a store path as users see it: from the top of the code's work tree."""
        return path if self.name == TOP else f"{self.name}/{path}"

    def to_store_path(self, path: str) -> str:
        """Return the store path of a shown path; one outside the store is returned as it is."""
        return path.removeprefix(f"{self.name}/")

    def to_top_path(self, path: str) -> str:
        """Return an absolute path or glob from the top of the code's work tree.

        Any other is returned as it is.
        """
        folder, _, name = path.rpartition("/")
        if not folder.startswith("/"):
            return path
        real_path = f"{os.path.realpath(folder)}/{name}"  # the top may be behind a link
        top = f"{self.code.work_tree.as_posix()}/"
        return real_path.removeprefix(top) if real_path.startswith(top) else path

    def validate_code_path(self, path: str) -> str:
        """Return a path from the top of the work tree. Raises BadInput: it is outside."""
        top_path = self.to_top_path(path.strip().replace("\\", "/"))
        normal_path = posixpath.normpath(top_path) if top_path else ""
        if not normal_path or normal_path == ".." or normal_path.startswith(("/", "../")):
            message = f"{path[:200]!r} lies outside the work tree {self.code.work_tree}"
            raise BadInput(message, "give a path from its top, like src/cache/lru.py", field="path")
        return normal_path

    def check_affects(self, paths: Iterable[str]) -> list[str]:
        """Return a note that names paths and globs without a file in the work tree or HEAD."""
        missing_paths = [path for path in paths if not self._has_match(path)]
        if not missing_paths:
            return []
        return [f"affects {', '.join(missing_paths)}: no such file yet"]

    def _has_match(self, pattern: str) -> bool:
        """Whether the folder or file of a path or glob exists in the work tree or HEAD."""
        if not is_inside_repository(pattern):
            return False
        path = get_literal_prefix(pattern)
        full_path = self.code.work_tree / path
        is_on_disk = os.path.exists(full_path)  # noqa: PTH110 - takes a name that is too long
        return is_on_disk or self.code.find_item(path) is not None

    # obstacles

    def get_leave_reason(self, path: str, kind: str) -> str:
        """Explain why such a record is written but not committed; "" if it is committed."""
        if is_private(path):
            return "private records are never committed"
        if self.config.policy[kind] == "leave":
            return f"the settings leave every {kind} to you to commit"
        return ""

    def find_obstacle(self) -> str:
        """Explain why existing records cannot be read, with the command that helps; or ""."""
        store = self.files.store
        if self.folder.is_symlink() or (self.folder.exists() and not self.folder.is_dir()):
            return f"{self.name} is not a folder (links are not followed), so no record is read"
        is_sparse = (self.repo.git_dir / "info/sparse-checkout").exists()
        if is_sparse and self.repo.list_sparse_files(store):
            return f"a sparse checkout leaves out records: git sparse-checkout add {store}"
        if not self.folder.exists() and self.repo.find_item(store) is not None:
            restore = f"git restore {store}"
            return f"{self.name} is gone from the work tree, though HEAD has it: {restore}"
        if self.is_absent and not self.is_configured:
            return " ".join(own_branch.find_other_records(self.repo.work_tree))
        return ""

    def refuse_missing(self) -> None:
        """Raise NotFound for a named store that is missing, BrokenStore without a work tree."""
        if not self.repo.work_tree.is_dir():
            message = f"the work tree {self.repo.work_tree} no longer exists"
            raise BrokenStore(message, "open the memory where it is now")
        if self.is_configured and self.is_absent:
            message = f"there is no folder {self.name} at the top of the work tree"
            raise NotFound(message, "a save or `filemem init` creates it")
