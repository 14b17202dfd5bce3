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
from filemem.changes import Entry, Manifest, blob_id
from filemem.errors import BadInput, BrokenStore, Conflict, NotFound
from filemem.files import Files, Scan, is_private
from filemem.hints import NOTHING_YET, alike, did_you_mean
from filemem.index import Counts, Doc, Found, Index, Known, Node, document, embedder, with_leading
from filemem.memory import fields, own_branch
from filemem.memory.own_branch import TOP as TOP
from filemem.query import Filter, Provenance, Reader, Terms, among, fixed, within
from filemem.record import (
    DECISION,
    Parsed,
    Record,
    explained,
    parse,
    short_id,
    topic_key,
)
from filemem.repo.history import History, written

Progress = Callable[[int, int], object]  # records done, records in all
FORGOTTEN = ".forgotten"  # the folder of tombstones
SYNONYMS = "synonyms.txt"  # the project's own, in the form of `filemem/query/synonyms.txt`
LEAST = 4  # characters of a short id that name a record
NAMED = 5  # records in a message


def mark_of(record_id: str) -> str:
    """Return the name of a record's tombstone: a hash of its id, never of its content."""
    import hashlib  # noqa: PLC0415 - 4 ms, for OpenSSL; most memories have forgotten nothing

    return hashlib.sha256(record_id.encode()).hexdigest()


def called(node: Node) -> str:
    """Return a record's title and short id, for messages."""
    return f"{node.title} ({short_id(node.id)})"


def listed(nodes: Collection[Node]) -> str:
    """Return the titles and short ids of the first few records, and how many more there are."""
    more = f"; and {len(nodes) - NAMED} more" if len(nodes) > NAMED else ""
    return "; ".join(called(node) for node in list(nodes)[:NAMED]) + more


class Named(NamedTuple):
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
        home = own_branch.find(folder, store)
        self.config = home.config
        self.code = home.code  # the repository of the project
        self.repo = home.repo  # that of the records, the same unless they have their own branch
        self.name = home.name
        self.stated = home.stated
        self.files = Files(self.repo.work_tree, home.store, spool=self.repo.private / "spool")
        self.history = History(self.repo, home.store)
        self.words = tuple(sorted(self.config.status.items()))  # what the project calls a status
        self.index = Index(self._index_folder(), embedder(self.config.model), self.dates)
        self.serving = serving
        self.clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000
        self.entropy: Callable[[], bytes] = lambda: os.urandom(8)
        self.reader = Reader(True, self.config.agent, self.config.department)  # who asks
        self.tip = "HEAD"  # the commit from which history is seen

    def _index_folder(self) -> Path:
        """The folder of this store's index.

        It is in the Git directory, or in the user's cache if that is read-only.
        """
        store = self.files.store
        git_dir = self.repo.git_dir
        name = "%2E" if store == TOP else store.replace("%", "%25").replace("/", "%2F")
        if self.words:  # other words are another index
            name = f"{name}/{mark_of(repr(self.words))[:8]}"
        if os.access(git_dir, os.W_OK):
            return self.repo.private / "index" / name
        key = mark_of(str(git_dir).encode("utf-8", "surrogateescape").hex())[:16]
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
        other.index = Index(None, None, self.dates)
        files = self.scan({}).files
        read = partial(self.document, forgotten=self.tombstones)
        other.index.apply(changes.diff({}, files), read, seen=files)
        return other

    def seen_by(self, reader: Reader) -> Store:
        """Return the same store, asked by another reader."""
        other = copy.copy(self)
        other.reader = reader
        return other

    # records

    @property
    def barred(self) -> Collection[str]:
        """The ids of the records that the reader may not see."""
        return self.index.barred(Filter(reader=self.reader))

    def visible(self, ids: Collection[str]) -> list[Node]:
        """The records with these ids that the reader may see."""
        barred = self.barred
        return [node for node in self.index.lookup("id", ids) if node.id not in barred]

    @cached_property
    def folder(self) -> Path:
        """The store's folder."""
        return Path(self.repo.work_tree) / self.files.store

    @property
    def branch(self) -> str:
        """The branch that records are committed to; "" if HEAD is detached."""
        return self.repo.branch() or ""

    @property
    def seen_from(self) -> str:
        """The commit from which history is read, by its id if there is one."""
        return (self.repo.head() if self.tip == "HEAD" else self.tip) or self.tip

    @property
    def absent(self) -> bool:
        """Whether there is no store yet, neither in the work tree nor in HEAD."""
        return not os.path.lexists(self.folder) and self.repo.item(self.files.store) is None

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

        def proven(files: Mapping[str, os.stat_result]) -> dict[str, str]:
            named = {self.files.named(path): state for path, state in files.items()}
            ids = self.repo.unchanged(named)
            return {self.files.inside(path): blob for path, blob in ids.items()}

        name = self.repo.hash_name
        return self.files.scan(before, hash_name=name, folders=folders, proven=proven)

    def parse(self, data: bytes, path: str) -> Parsed:
        """Read the bytes of one record, with the project's own words for a status."""
        return explained(parse(data, path), self.words)

    def read(self, path: str) -> Parsed:
        """Read one record.

        A file that no longer exists, or is not a regular file, gives no record and no error.
        """
        try:
            return self.parse(self.files.read(path), path)
        except (NotFound, BadInput):
            return Parsed(None)

    def records(self, paths: Iterable[str]) -> Mapping[str, Record]:
        """Records by path as their files are now.

        A file is read only if it is not as it was indexed.
        """
        paths = list(paths)
        indexed = self.index.records(paths)
        records: dict[str, Record] = {}
        for path in paths:
            entry, record = indexed.get(path, (None, None))
            if not entry or not self.is_as(path, entry):
                record = self.read(path).record
            if record is not None:
                records[path] = record
        return records

    def provenances(self, paths: Iterable[str], *, detail: bool = True) -> dict[str, Provenance]:
        """Who wrote records, by path, from the commit table; uncommitted ones are left out."""
        names = {self.files.named(path): path for path in paths}
        if not names:
            return {}
        if not detail:
            commits = self.history.committed(names, self.seen_from)
            return {names[name]: Provenance(commit=commit) for name, commit in commits.items()}
        here = self.branch
        default = self._default_branch()
        landed = self.history.landed(names, default.tip) if default else {}
        branches = here, default.name if default else ""
        touched = self.history.touches(names, self.seen_from)
        boundary = self.repo.boundary
        return {
            names[name]: Provenance(**written(rows, boundary, *branches, landed.get(name)))
            for name, rows in touched.items()
            if rows
        }

    def _default_branch(self) -> own_branch.Branch | None:
        """The default branch; a memory on a branch of its own is its own default."""
        alone = self.branch and self.repo is not self.code
        return self.repo.present_branch() if alone else self.repo.default_branch()

    def is_as(self, path: str, entry: Entry) -> bool:
        """Whether a file is as it was indexed, by its size and time."""
        return self.files.is_as(path, entry.size, entry.mtime)

    def document(self, path: str, forgotten: frozenset[str]) -> Doc | None:
        """The document of a file; None if it is not a record, or hidden. Raises NotFound."""
        try:
            data = self.files.read(path)
        except BadInput:
            return None
        record = self.parse(data, path).record
        if record is None or (forgotten and mark_of(record.id) in forgotten):
            return None
        return document(record, self._blob_id(data))

    def _blob_id(self, data: bytes) -> str:
        return blob_id(data, self.repo.hash_name)

    def edited(self, path: str) -> bool:
        """Whether a committed record has uncommitted changes; a missing file has none."""
        named = self.files.named(path)
        try:
            data = self.files.read(path)
        except (NotFound, BadInput):
            return False
        last = next(iter(self.history.touches([named], self.seen_from).get(named, ())), None)
        if last and last.new == self._blob_id(data):  # the most frequent answer needs no process
            return False
        return self.repo.edited(named, data)

    def dates(self, paths: Collection[str]) -> Mapping[str, int]:
        """The time of each file's first commit, epoch milliseconds, by store path.

        Uncommitted ones are left out.
        """
        dates = self.history.dates(map(self.files.named, paths), self.seen_from)
        return {self.files.inside(path): at for path, at in dates.items()}

    def find(self, reference: str) -> Node:
        """Find the record that a reference means.

        That is an id, the start of a short id, a path, a file name, a number or a title. Raises
        NotFound, with what was probably meant: no record, or more than one, matches.
        """
        wanted = fields.line("id", reference).strip()
        barred = self.barred
        nodes = [node for node in self._answering(wanted) if node.id not in barred]
        if len(nodes) > 1:
            several = listed(sorted(nodes, key=lambda node: node.path))
            message = f"{len(nodes)} records answer to {wanted!r}: {several}"
            raise NotFound(message, "name one by its short id or path")
        if not nodes:
            raise NotFound(f"no record {wanted!r}", self._hint(wanted))
        return nodes[0]

    def _answering(self, name: str) -> list[Node]:
        """The records that a name means, or whose short ids begin so."""
        nodes = self.index.answering(self.store_path(name)) if name else []
        if nodes or len(name) < LEAST or name.isdigit():  # a bare number is that of an ADR
            return nodes
        ids = [short for short, _ in self.index.terms("short", name.casefold())]
        return self.index.lookup("short", ids)

    def named(self, reference: str) -> Named:
        """Find what a reference means, as `find`; or the one decision that holds on a topic.

        Raises NotFound; Conflict: several decisions hold on the topic.
        """
        try:
            return Named(self.find(reference))
        except NotFound:
            holding = self._holding(topic_key(reference))
            if not holding:
                raise
        if len(holding) > 1:
            message = f"{len(holding)} decisions hold on topic {reference}: {listed(holding)}"
            heads = tuple(node.id for node in holding)
            raise Conflict(message, "name one of them by its short id", heads)
        return Named(holding[0], f"topic {reference} means {called(holding[0])}")

    def guarding(self, paths: Collection[str]) -> list[Node]:
        """The decisions that hold, may be seen, and guard one of these files of the code."""
        with self.index.facts() as facts:
            pairs = product(facts.stated("guards"), paths)
            rows = facts.rows("guards", {glob for glob, path in pairs if among((glob,), path)})
            barred = {row.number for row in facts.barred(self.reader)} if rows else ()
        return [row.node for row in rows if row.live and row.visible and row.number not in barred]

    def forked(self, nodes: Iterable[Node]) -> tuple[str, ...]:
        """The topics of some records on which several decisions hold."""
        rows = self.by_id([node.id for node in nodes])
        forked = {row.node.key: row.node.topic for row in rows.values() if row.facts.forked}
        return tuple(sorted(forked.values()))

    def _holding(self, key: str) -> list[Node]:
        """The decisions that hold on a topic, oldest first."""
        rows = self.index.rows("key", [key]) if key else []
        nodes = [row.node for row in rows if row.visible and row.live and row.node.type == DECISION]
        barred = self.barred if nodes else ()
        return sorted((node for node in nodes if node.id not in barred), key=lambda node: node.age)

    def _hint(self, wanted: str) -> str:
        """A hint at the record that was probably meant."""
        key = topic_key(wanted)
        nodes = self.index.lookup("topic", [key]) if key else []
        barred = self.barred
        chain = [node for node in nodes if node.key and node.id not in barred]
        holding = self._holding(key)
        if holding:
            return f"{wanted} is a topic, on which holds {listed(holding)}: name that"
        if chain:
            last = called(max(chain, key=lambda node: node.created))
            return f"nothing holds on the topic {wanted}; its last decision was {last}: name that"
        names = self._names()
        if not names and not self.tombstones:
            return NOTHING_YET
        near = [names[name] for name in alike(wanted.casefold(), names, 3, 0.5)]
        ways = "`filemem search` lists records; `filemem restore` brings back a deleted one"
        if len(wanted) < LEAST:
            ways = f"a short id takes {LEAST} characters or more; {ways}"
        return did_you_mean(near, ways)

    def _names(self) -> dict[str, str]:
        """Every title and stated topic in lower case, each with how it is shown."""
        barred = self.barred
        nodes = [node for node in self.index.nodes() if node.id not in barred]
        names = {node.title.casefold(): called(node) for node in nodes}
        topics = {node.topic for node in nodes if node.stated}
        return names | {topic.casefold(): f"the topic {topic}" for topic in topics}

    # what a search asks: see `hits.Place`

    def nominate(
        self, terms: Terms, wanted: Filter, depth: int, mode: str, counts: Counts | None = None
    ) -> Found:
        """See `hits.Place`."""
        ask = partial(self.index.candidates, terms, depth=depth, mode=mode, counts=counts)
        return with_leading(ask, wanted)

    def by_id(self, ids: Collection[str]) -> Mapping[str, Known]:
        """See `hits.Place`."""
        return self.index.by_id(ids)

    def home(self, path: str) -> dict[str, Any]:
        """See `hits.Place`."""
        return {"path": self.display_path(path)}

    def incomplete(self) -> str:
        """See `hits.Place`."""
        return self.repo.incomplete()

    # names

    def display_path(self, path: str) -> str:
        """A store path as shown to people: from the top of the code's work tree."""
        return path if self.name == TOP else f"{self.name}/{path}"

    def store_path(self, path: str) -> str:
        """The opposite of `display_path`; a path outside the store is returned as it is."""
        return path.removeprefix(f"{self.name}/")

    def from_top(self, path: str) -> str:
        """An absolute path or glob, from the top of the code's work tree.

        Any other is returned as it is.
        """
        folder, _, name = path.rpartition("/")
        if not folder.startswith("/"):
            return path
        real = f"{os.path.realpath(folder)}/{name}"  # the top may be behind a link
        top = f"{self.code.work_tree.as_posix()}/"
        return real.removeprefix(top) if real.startswith(top) else path

    def of_code(self, path: str) -> str:
        """A path of the project's code, from the top of its work tree.

        Raises BadInput: it is outside.
        """
        from_top = self.from_top(path.strip().replace("\\", "/"))
        plain = posixpath.normpath(from_top) if from_top else ""
        if not plain or plain == ".." or plain.startswith(("/", "../")):
            message = f"{path[:200]!r} lies outside the work tree {self.code.work_tree}"
            raise BadInput(message, "give a path from its top, like src/cache/lru.py", field="path")
        return plain

    def unmet(self, paths: Iterable[str]) -> list[str]:
        """A note that names paths and globs that meet nothing in the work tree or HEAD; or none."""
        gone = [path for path in paths if not (within(path) and self._is_there(fixed(path)))]
        return [f"affects {', '.join(gone)}: no such file yet"] if gone else []

    def _is_there(self, path: str) -> bool:
        there = os.path.exists(self.code.work_tree / path)  # noqa: PTH110 - of a name too long too
        return there or self.code.item(path) is not None

    # what stands in the way

    def left_to_user(self, path: str, kind: str) -> str:
        """Why filemem only writes such a record and does not commit it; "" if it commits it."""
        if is_private(path):
            return "private records are never committed"
        if self.config.policy[kind] == "leave":
            return f"the settings leave every {kind} to you to commit"
        return ""

    def obstacle(self) -> str:
        """Why records that may exist cannot be read, with the command that fetches them; or ""."""
        store = self.files.store
        if self.folder.is_symlink() or (self.folder.exists() and not self.folder.is_dir()):
            return f"{self.name} is not a folder (links are not followed), so no record is read"
        if (self.repo.git_dir / "info/sparse-checkout").exists() and self.repo.sparse(store):
            return f"a sparse checkout leaves out records: git sparse-checkout add {store}"
        if not self.folder.exists() and self.repo.item(store) is not None:
            restore = f"git restore {store}"
            return f"{self.name} is gone from the work tree, though HEAD has it: {restore}"
        if self.absent and not self.stated:
            return " ".join(own_branch.others(self.repo.work_tree))
        return ""

    def refuse_missing(self) -> None:
        """Refuse a store that was named and is missing.

        Raises NotFound; BrokenStore: there is no work tree.
        """
        if not self.repo.work_tree.is_dir():
            message = f"the work tree {self.repo.work_tree} no longer exists"
            raise BrokenStore(message, "open the memory where it is now")
        if self.stated and self.absent:
            message = f"there is no folder {self.name} at the top of the work tree"
            raise NotFound(message, "a save or `filemem init` creates it")
