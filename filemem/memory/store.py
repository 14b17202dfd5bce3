"""The parts of an open memory: files, repository, history, index; and lookups of single records."""

from __future__ import annotations

import copy
import os
import posixpath
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from filemem import changes
from filemem.changes import Entry, Manifest, compute_blob_id
from filemem.errors import BadInput, BrokenStore, Conflict, NotFound
from filemem.files import Files, Scan, is_private
from filemem.hints import NOTHING_YET, format_question, list_similar_names
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
    shorten_id,
)
from filemem.repo.history import History, build_provenance

Progress = Callable[[int, int], object]  # records done, records in all
FORGOTTEN = ".forgotten"  # the folder of tombstones
SYNONYMS = "synonyms.txt"  # the project's own, in the form of `filemem/query/synonyms.txt`
MIN_SHORT_ID_LENGTH = 4  # characters of a short id that name a record
MAX_NAMED = 5  # records in a message


def compute_tombstone(record_id: str) -> str:
    """Return the name of a record's tombstone: a hash of its id, never of its content."""
    import hashlib  # noqa: PLC0415 - 4 ms, for OpenSSL; most memories have forgotten nothing

    return hashlib.sha256(record_id.encode()).hexdigest()


def format_node(node: Node) -> str:
    """Return a record's title and short id, for messages."""
    return f"{node.title} ({shorten_id(node.id)})"


def format_nodes(nodes: Collection[Node]) -> str:
    """Return the titles and short ids of the first few records, and how many more there are."""
    remainder = f"; and {len(nodes) - MAX_NAMED} more" if len(nodes) > MAX_NAMED else ""
    return "; ".join(format_node(node) for node in list(nodes)[:MAX_NAMED]) + remainder


class NamedRecord(NamedTuple):
    """A record that was named; `note` says which it is if a topic named it."""

    node: Node
    note: str = ""


class Store:
    """The parts of an open memory.

    `clock` returns epoch milliseconds, `entropy` eight random bytes.
    """

    def __init__(self, folder: Path, store: str | None = None, *, serving: bool = False) -> None:
        """Find the repository of a folder and open its parts. Errors as for `own_branch.find`.

        `store` is the folder of records, or None for the configured one; `serving` keeps helpers
        alive between calls.
        """
        home = own_branch.find_home(folder, store)
        self.config = home.config
        self.code = home.code  # the repository of the project
        self.repo = home.repo  # that of the records, the same unless they have their own branch
        self.name = home.name
        self.is_configured = home.is_configured
        self.files = Files(
            self.repo.work_tree, home.store, spool=self.repo.private_folder / "spool"
        )
        self.history = History(self.repo, home.store)
        self.status_words = tuple(
            sorted(self.config.status.items())
        )  # what the project calls a status
        self.index = Index(self._get_index_folder(), open_model(self.config.model), self.read_dates)
        self.serving = serving
        self.clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000
        self.entropy: Callable[[], bytes] = lambda: os.urandom(8)
        self.reader = Reader(True, self.config.agent, self.config.department)  # who asks
        self.tip = "HEAD"  # the commit from which history is seen

    def _get_index_folder(self) -> Path:
        """The folder of this store's index.

        It is in the Git directory, or in the user's cache if that is read-only.
        """
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
        read_file = partial(self.read_document, forgotten=self.tombstones)
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
        """The records with these ids that the reader may see."""
        barred_ids = self.barred_ids
        return [
            node for node in self.index.read_nodes_by_field("id", ids) if node.id not in barred_ids
        ]

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
                return frozenset(
                    file.name for file in entries if file.is_file(follow_symlinks=False)
                )
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
        """List the records of the store, see `Files.scan`; what Git's index proves is not read."""

        def list_proven(files: Mapping[str, os.stat_result]) -> dict[str, str]:
            states_by_name = {
                self.files.to_work_tree_path(path): state for path, state in files.items()
            }
            ids = self.repo.find_unchanged_blobs(states_by_name)
            return {self.files.to_store_path(path): blob for path, blob in ids.items()}

        name = self.repo.hash_name
        return self.files.scan(before, hash_name=name, folders=folders, find_known_ids=list_proven)

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
        """Records by path as their files are now.

        A file is read only if it is not as it was indexed.
        """
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
        """Who wrote records, by path, from the commit table; uncommitted ones are left out."""
        names = {self.files.to_work_tree_path(path): path for path in paths}
        if not names:
            return {}
        if not detail:
            commits = self.history.read_last_commits(names, self.tip_id)
            return {names[name]: Provenance(commit=commit) for name, commit in commits.items()}
        current_branch = self.branch
        default = self._find_default_branch()
        landed = self.history.read_landings(names, default.tip) if default else {}
        branches = current_branch, default.name if default else ""
        touches_by_name = self.history.read_touches(names, self.tip_id)
        boundary = self.repo.shallow_boundary
        return {
            names[name]: Provenance(**build_provenance(rows, boundary, *branches, landed.get(name)))
            for name, rows in touches_by_name.items()
            if rows
        }

    def _find_default_branch(self) -> own_branch.Branch | None:
        """The default branch; a memory on a branch of its own is its own default."""
        has_own_branch = self.branch and self.repo is not self.code
        return (
            self.repo.read_current_branch() if has_own_branch else self.repo.find_default_branch()
        )

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
        last_touch = next(
            iter(self.history.read_touches([full_path], self.tip_id).get(full_path, ())), None
        )
        if last_touch and last_touch.new_blob == self._compute_blob_id(
            data
        ):  # the most frequent answer needs no process
            return False
        return self.repo.is_edited(full_path, data)

    def read_dates(self, paths: Collection[str]) -> Mapping[str, int]:
        """The time of each file's first commit, epoch milliseconds, by store path.

        Uncommitted ones are left out.
        """
        dates = self.history.read_dates(map(self.files.to_work_tree_path, paths), self.tip_id)
        return {self.files.to_store_path(path): at for path, at in dates.items()}

    def require_node(self, reference: str) -> Node:
        """Find the record that a reference means.

        That is an id, the start of a short id, a path, a file name, a number or a title. Raises
        NotFound, with what was probably meant: no record, or more than one, matches.
        """
        name = fields.validate_line("id", reference).strip()
        barred_ids = self.barred_ids
        nodes = [node for node in self._list_answering(name) if node.id not in barred_ids]
        if len(nodes) > 1:
            listing = format_nodes(sorted(nodes, key=lambda node: node.path))
            message = f"{len(nodes)} records answer to {name!r}: {listing}"
            raise NotFound(message, "name one by its short id or path")
        if not nodes:
            raise NotFound(f"no record {name!r}", self._format_hint(name))
        return nodes[0]

    def _list_answering(self, name: str) -> list[Node]:
        """The records that a name means, or whose short ids begin so."""
        nodes = self.index.read_nodes_by_name(self.to_store_path(name)) if name else []
        if (
            nodes or len(name) < MIN_SHORT_ID_LENGTH or name.isdigit()
        ):  # a bare number is that of an ADR
            return nodes
        ids = [short for short, _ in self.index.count_terms("short", name.casefold())]
        return self.index.read_nodes_by_field("short", ids)

    def resolve_name(self, reference: str) -> NamedRecord:
        """Find what a reference means, as `find`; or the one decision that holds on a topic.

        Raises NotFound; Conflict: several decisions hold on the topic.
        """
        try:
            return NamedRecord(self.require_node(reference))
        except NotFound:
            live_nodes = self._list_holding(build_topic_key(reference))
            if not live_nodes:
                raise
        if len(live_nodes) > 1:
            message = (
                f"{len(live_nodes)} decisions hold on topic {reference}: {format_nodes(live_nodes)}"
            )
            heads = tuple(node.id for node in live_nodes)
            raise Conflict(message, "name one of them by its short id", heads)
        return NamedRecord(live_nodes[0], f"topic {reference} means {format_node(live_nodes[0])}")

    def list_guarding(self, paths: Collection[str]) -> list[Node]:
        """The decisions that hold, may be seen, and guard one of these files of the code."""
        with self.index.snapshot() as facts:
            pairs = product(facts.read_link_values("guards"), paths)
            rows = facts.read_rows(
                "guards", {glob for glob, path in pairs if is_included((glob,), path)}
            )
            barred_ids = {row.number for row in facts.read_barred_rows(self.reader)} if rows else ()
        return [
            row.node
            for row in rows
            if row.is_live and row.is_visible and row.number not in barred_ids
        ]

    def list_forked_topics(self, nodes: Iterable[Node]) -> tuple[str, ...]:
        """The topics of some records on which several decisions hold."""
        rows = self.find_by_id([node.id for node in nodes])
        forked = {row.node.key: row.node.topic for row in rows.values() if row.facts.forked_heads}
        return tuple(sorted(forked.values()))

    def _list_holding(self, key: str) -> list[Node]:
        """The decisions that hold on a topic, oldest first."""
        rows = self.index.read_rows("key", [key]) if key else []
        nodes = [
            row.node for row in rows if row.is_visible and row.is_live and row.node.type == DECISION
        ]
        barred_ids = self.barred_ids if nodes else ()
        return sorted(
            (node for node in nodes if node.id not in barred_ids), key=lambda node: node.sort_key
        )

    def _format_hint(self, reference: str) -> str:
        """A hint at the record that was probably meant."""
        key = build_topic_key(reference)
        nodes = self.index.read_nodes_by_field("topic", [key]) if key else []
        barred_ids = self.barred_ids
        chain = [node for node in nodes if node.key and node.id not in barred_ids]
        live_nodes = self._list_holding(key)
        if live_nodes:
            return f"{reference} is a topic, on which holds {format_nodes(live_nodes)}: name that"
        if chain:
            last = format_node(max(chain, key=lambda node: node.created))
            return (
                f"nothing holds on the topic {reference}; its last decision was {last}: name that"
            )
        names = self._map_names()
        if not names and not self.tombstones:
            return NOTHING_YET
        similar_names = [
            names[name] for name in list_similar_names(reference.casefold(), names, 3, 0.5)
        ]
        ways = "`filemem search` lists records; `filemem restore` brings back a deleted one"
        if len(reference) < MIN_SHORT_ID_LENGTH:
            ways = f"a short id takes {MIN_SHORT_ID_LENGTH} characters or more; {ways}"
        return format_question(similar_names, ways)

    def _map_names(self) -> dict[str, str]:
        """Every title and stated topic in lower case, each with how it is shown."""
        barred_ids = self.barred_ids
        nodes = [node for node in self.index.read_nodes() if node.id not in barred_ids]
        names = {node.title.casefold(): format_node(node) for node in nodes}
        topics = {node.topic for node in nodes if node.stated}
        return names | {topic.casefold(): f"the topic {topic}" for topic in topics}

    # what a search asks: see `hits.Place`

    def nominate(
        self, terms: Terms, wanted: Filter, depth: int, mode: str, counts: TermCounts | None = None
    ) -> CandidateSet:
        """See `hits.Place`."""
        find_candidates = partial(
            self.index.search_candidates, terms, depth=depth, mode=mode, counts=counts
        )
        return search_with_predecessors(find_candidates, wanted)

    def find_by_id(self, ids: Collection[str]) -> Mapping[str, KnownRecord]:
        """See `hits.Place`."""
        return self.index.read_rows_by_id(ids)

    def get_location(self, path: str) -> dict[str, Any]:
        """See `hits.Place`."""
        return {"path": self.to_display_path(path)}

    def explain_incompleteness(self) -> str:
        """See `hits.Place`."""
        return self.repo.describe_missing_history()

    # names

    def to_display_path(self, path: str) -> str:
        """A store path as shown to people: from the top of the code's work tree."""
        return path if self.name == TOP else f"{self.name}/{path}"

    def to_store_path(self, path: str) -> str:
        """The opposite of `display_path`; a path outside the store is returned as it is."""
        return path.removeprefix(f"{self.name}/")

    def to_top_path(self, path: str) -> str:
        """An absolute path or glob, from the top of the code's work tree.

        Any other is returned as it is.
        """
        folder, _, name = path.rpartition("/")
        if not folder.startswith("/"):
            return path
        real_path = f"{os.path.realpath(folder)}/{name}"  # the top may be behind a link
        top = f"{self.code.work_tree.as_posix()}/"
        return real_path.removeprefix(top) if real_path.startswith(top) else path

    def validate_code_path(self, path: str) -> str:
        """A path of the project's code, from the top of its work tree.

        Raises BadInput: it is outside.
        """
        top_path = self.to_top_path(path.strip().replace("\\", "/"))
        normal_path = posixpath.normpath(top_path) if top_path else ""
        if not normal_path or normal_path == ".." or normal_path.startswith(("/", "../")):
            message = f"{path[:200]!r} lies outside the work tree {self.code.work_tree}"
            raise BadInput(message, "give a path from its top, like src/cache/lru.py", field="path")
        return normal_path

    def check_affects(self, paths: Iterable[str]) -> list[str]:
        """A note that names paths and globs that meet nothing in the work tree or HEAD; or none."""
        missing_paths = [
            path
            for path in paths
            if not (is_inside_repository(path) and self._is_there(get_literal_prefix(path)))
        ]
        return [f"affects {', '.join(missing_paths)}: no such file yet"] if missing_paths else []

    def _is_there(self, path: str) -> bool:
        is_on_disk = os.path.exists(self.code.work_tree / path)  # noqa: PTH110 - of a name too long too
        return is_on_disk or self.code.find_item(path) is not None

    # what stands in the way

    def get_leave_reason(self, path: str, kind: str) -> str:
        """Why filemem only writes such a record and does not commit it; "" if it commits it."""
        if is_private(path):
            return "private records are never committed"
        if self.config.policy[kind] == "leave":
            return f"the settings leave every {kind} to you to commit"
        return ""

    def find_obstacle(self) -> str:
        """Why records that may exist cannot be read, with the command that fetches them; or ""."""
        store = self.files.store
        if self.folder.is_symlink() or (self.folder.exists() and not self.folder.is_dir()):
            return f"{self.name} is not a folder (links are not followed), so no record is read"
        if (self.repo.git_dir / "info/sparse-checkout").exists() and self.repo.list_sparse_files(
            store
        ):
            return f"a sparse checkout leaves out records: git sparse-checkout add {store}"
        if not self.folder.exists() and self.repo.find_item(store) is not None:
            restore = f"git restore {store}"
            return f"{self.name} is gone from the work tree, though HEAD has it: {restore}"
        if self.is_absent and not self.is_configured:
            return " ".join(own_branch.find_other_records(self.repo.work_tree))
        return ""

    def refuse_missing(self) -> None:
        """Refuse a store that was named and is missing.

        Raises NotFound; BrokenStore: there is no work tree.
        """
        if not self.repo.work_tree.is_dir():
            message = f"the work tree {self.repo.work_tree} no longer exists"
            raise BrokenStore(message, "open the memory where it is now")
        if self.is_configured and self.is_absent:
            message = f"there is no folder {self.name} at the top of the work tree"
            raise NotFound(message, "a save or `filemem init` creates it")
