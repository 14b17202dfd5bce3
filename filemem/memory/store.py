"""The parts of a memory, opened and joined: files, repository, history, index. What is asked of one record is here."""

from __future__ import annotations

import copy
import os
import posixpath
import shlex
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path

from filemem import record
from filemem.changes import blob_id
from filemem.config import Config
from filemem.errors import BadInput, BrokenStore, NotFound
from filemem.files import Files, is_listed
from filemem.index import Around, Doc, Index, Node, document, embedder
from filemem.memory import fields, own_branch
from filemem.record import Parsed, Record, short_id, topic_key
from filemem.repo import Repo
from filemem.repo.history import History, Touch

Progress = Callable[[int, int], object]  # records done, records in all
TOP = "."  # the store that is all of its work tree
FORGOTTEN = ".forgotten"  # the folder of tombstones
LEAST = 4  # characters of a short id that a command which changes something asks for
NAMED = 5  # records in a message
SUBMODULE = b"160000"  # mode of another repository in a tree


def now() -> int:
    """The time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def mark_of(record_id: str) -> str:
    """Return the name of the tombstone of a record: a hash of its id, never of what it says."""
    import hashlib  # noqa: PLC0415 - 4 ms, for OpenSSL; most memories have forgotten nothing

    return hashlib.sha256(record_id.encode()).hexdigest()


def called(node: Node) -> str:
    """Return what to call a record by: its title, and the end of its id, which is enough to name it."""
    return f"{node.title} ({short_id(node.id)})"


def listed(nodes: Collection[Node]) -> str:
    """Return what to call several records by: the first few, and how many more there are."""
    more = f"; and {len(nodes) - NAMED} more" if len(nodes) > NAMED else ""
    return "; ".join(called(node) for node in list(nodes)[:NAMED]) + more


class Store:
    """The parts that the facade joins; `clock` gives epoch milliseconds, `entropy` eight random bytes."""

    def __init__(self, home: own_branch.Home, files: Files, index: Index, history: History, *, serving: bool) -> None:
        self.config = home.config
        self.repo = home.repo  # where the records are committed
        self.code = home.code  # the project's: the same as `repo` unless the records have a work tree of their own
        self.name = home.name  # the store folder as people see it: from the top of the code's work tree
        self.stated = home.stated  # whether the store folder is named on the command line or in settings
        self.files = files
        self.index = index
        self.history = history
        self.serving = serving
        self.clock: Callable[[], int] = now
        self.entropy: Callable[[], bytes] = lambda: os.urandom(8)
        self.tip = "HEAD"  # the commit from which history is seen

    @classmethod
    def open(cls, folder: Path, store: str | None, *, serving: bool) -> Store:
        """Find the repository of a folder and open what stands beside it. Errors as for `own_branch.find`.

        Args:
            folder: any folder of the work tree.
            store: folder of records, or None for the configured one.
            serving: keep helpers alive between calls.
        """
        home = own_branch.find(folder, store)
        repo, config = home.repo, home.config
        repo.run_hooks = config.run_hooks
        files = Files(repo.work_tree, home.store, spool=repo.private / "spool")
        history = History(repo, home.store)

        def dates(paths: Collection[str]) -> Mapping[str, int]:
            return _dates(history, files, paths, "HEAD")

        model = embedder(config.model, download=config.download)
        index = Index(_index_folder(repo, config, home.store), model, dates)
        return cls(home, files, index, history, serving=serving)

    def close(self) -> None:
        """Release helpers and locks."""
        self.index.close()
        self.history.close()
        self.repo.close()
        if self.code is not self.repo:
            self.code.close()

    def from_files(self) -> Store:
        """Return the same store answering from the files as they stand now, for when the index cannot be asked."""
        listing = self.files.scan({}, hash_name=self.repo.hash_name).files
        known = self.tombstones
        docs = (self.document(path, entry.blob, known) for path, entry in listing.items())
        other = copy.copy(self)
        other.index = Index.in_memory([doc for doc in docs if doc], self.dates)
        return other

    # records

    @cached_property
    def folder(self) -> Path:
        """The store's folder."""
        return Path(self.repo.work_tree) / self.files.store

    @property
    def branch(self) -> str:
        """The branch that records are committed to; "" where HEAD is detached."""
        return self.repo.branch() or ""

    @property
    def seen_from(self) -> str:
        """The commit from which history is seen, by its id where there is one: that is asked of no process."""
        return (self.repo.head() if self.tip == "HEAD" else self.tip) or self.tip

    @property
    def absent(self) -> bool:
        """Whether there is no store yet: neither in the work tree nor in HEAD."""
        return not os.path.lexists(self.folder) and self.repo.item(self.files.store) is None

    @property
    def tombstones(self) -> frozenset[str]:
        """The names of all tombstones: regular files, never through a link."""
        at = self.folder / FORGOTTEN
        if at.is_symlink():
            return frozenset()
        try:
            with os.scandir(at) as found:
                return frozenset(one.name for one in found if one.is_file(follow_symlinks=False))
        except OSError:
            return frozenset()

    def read(self, path: str) -> Parsed:
        """Read one record; a file that is gone, or is no regular file any more, gives none and no error."""
        try:
            return record.parse(self.files.read(path), path)
        except (NotFound, BadInput):
            return Parsed(None)

    def records(self, paths: Iterable[str]) -> Mapping[str, Record]:
        """Records by path, as their files are now: read only if they are not what was indexed; none is left out."""
        known = self.index.records(paths := list(paths)) if self.tip == "HEAD" else {}
        found: dict[str, Record] = {}
        for path in paths:
            entry, record = known.get(path, (None, None))
            if record is None or entry is None or self.files.seen(path) != (entry.size, entry.mtime):
                record = self.read(path).record
            if record is not None:
                found[path] = record
        return found

    def document(self, path: str, blob: str, forgotten: frozenset[str]) -> Doc | None:
        """What the index should know of a file; None where it holds no record, or a tombstone hides it."""
        found = self.read(path).record
        hidden = found is None or (forgotten and mark_of(found.id) in forgotten)
        return None if found is None or hidden else document(found, blob)

    def edited(self, path: str) -> bool:
        """Whether a committed record has changes that are not committed; one that is gone has none."""
        named = self.files.named(path)
        last = next(iter(self.history.touches([named], self.seen_from).get(named, ())), None)
        now = self.blob(path)
        if now is None or (last and last.new == now):  # the most frequent answer needs no process
            return False
        return self.repo.edited(named, self.files.read(path))

    def blob(self, path: str) -> str | None:
        """Blob id of a file as it stands; None where it is gone, or is no file any more."""
        try:
            return blob_id(self.files.read(path), self.repo.hash_name)
        except (NotFound, BadInput):
            return None

    def dates(self, paths: Collection[str]) -> Mapping[str, int]:
        """When files first came, epoch milliseconds, by store path; uncommitted ones are left out."""
        return _dates(self.history, self.files, paths, self.seen_from)

    def first_commit(self, path: str) -> str:
        """The commit that brought a record; "" where none has."""
        named = self.files.named(path)
        first = self.history.firsts([named], self.seen_from).get(named)
        return first.id if first else ""

    def lookup(self, field: str, values: Collection[str]) -> list[Node]:
        """The records that have one of these exact terms in a field."""
        return self.index.by_terms({field: values}) if values else []

    def around(self, nodes: Iterable[Node]) -> Around:
        """The chains that records belong to."""
        return self.index.around(nodes)

    def find(self, reference: str, *, changing: bool = False) -> Node:
        """Find the one record that a reference means: id, start of a short id, path, file name, number or title.

        Args:
            reference: any of these, or one of them as other makers write links.
            changing: the record is to be changed: ask for LEAST characters of a short id.

        Raises:
            NotFound: nothing, or more than one record, answers to it; says what was probably meant.
        """
        wanted = fields.line("id", reference).strip()
        exact = self.index.answering(self.asked(wanted)) if wanted else []
        found = exact or self._beginning(wanted)
        if len(found) > 1:
            told = f"{len(found)} records answer to {wanted!r}: {listed(sorted(found, key=lambda one: one.path))}"
            raise NotFound(told, "name one by its short id or path")
        if not found:
            raise NotFound(f"no record {wanted!r}", self._hint(wanted))
        if changing and not exact and len(wanted) < LEAST:
            hint = f"{called(found[0])}: give at least {LEAST} characters"
            raise NotFound(f"{wanted!r} is too short to change a record", hint)
        return found[0]

    def _beginning(self, wanted: str) -> list[Node]:
        """The records whose short id begins so, or whose id does; of an id that is made from a path, behind `file_`."""
        text = wanted.casefold()
        ways = [("short", text), ("id", f"file_{text}"), ("id", text if "_" in text else "")]
        known: dict[str, list[str]] = {}
        for field, start in ways if text else ():
            known.setdefault(field, []).extend(one for one, _ in self.index.terms(field, start) if start)
        return self.index.by_terms(known) if any(known.values()) else []

    def _hint(self, wanted: str) -> str:
        """What became of a record that is not there, or which was probably meant."""
        if touch := self.removed(wanted):
            day = record.format_time(touch.commit.at)[:10]
            back = f"filemem restore {shlex.quote(wanted)} brings it back"
            return f"it was deleted in {touch.commit.id[:10]} ({day}): {back}"
        key = topic_key(wanted)
        if key and (chain := [node for node in self.lookup("topic", [key]) if node.key]):
            return f"it is a topic; its last decision is {called(max(chain, key=lambda node: node.created))}"
        names = {name.casefold(): called(node) for node in self.index.nodes() for name in (node.title, node.id)}
        near = dict.fromkeys(names[name] for name in fields.alike(wanted.casefold(), names, 3, 0.5)) if wanted else ()
        return f"did you mean {' or '.join(near)}?" if near else "search lists what there is"

    def removed(self, wanted: str) -> Touch | None:
        """The last removal of a record, by its id, short id, path or exact title; None where history has none."""
        names = {self.asked(wanted), wanted, short_id(wanted).casefold()}
        removals = self.history.removals(self.tip)
        gone = [(path, one) for one in removals if is_listed(path := self.files.inside(one.path))]
        for path, touch in gone:
            if not names.isdisjoint((path, short_id(path.removesuffix(".md")), record.derived_id(path))):
                return touch
        for path, touch in gone:
            last = record.parse(self.repo.blob(touch.old) or b"", path).record
            if last and wanted in (last.id, last.title):
                return touch
        return None

    # names

    def shown(self, path: str) -> str:
        """A store path as people see it: from the top of the code's work tree."""
        return path if self.name == TOP else f"{self.name}/{path}"

    def asked(self, path: str) -> str:
        """The store path of a path as people see it; one that lies elsewhere stays as it is."""
        return path.removeprefix(f"{self.name}/")

    def from_top(self, path: str) -> str:
        """A path or glob that is given whole, as it is from the top of the code's work tree; any other stays."""
        top = f"{self.code.work_tree.as_posix()}/"
        folder, _, name = path.rpartition("/")
        ways = (path, f"{os.path.realpath(folder)}/{name}") if folder.startswith("/") else (path,)  # through a link
        return next((one.removeprefix(top) for one in ways if one.startswith(top)), path)

    def of_code(self, path: str) -> str:
        """A path of the project's code as people and agents give it, from the top of its work tree.

        Raises:
            BadInput: it lies outside.
        """
        given = self.from_top(path.strip().replace("\\", "/"))
        plain = posixpath.normpath(given) if given else ""
        if not plain or plain == ".." or plain.startswith(("/", "../")):
            hint = "give a path from its top, like src/cache/lru.py"
            top = self.code.work_tree.as_posix()
            raise BadInput(f"{path[:200]!r} lies outside the work tree {top}", hint, field="path")
        return plain

    # what stands in the way

    def obstacle(self) -> str:
        """Why records cannot be read although there may be some, with the command that brings them; or ""."""
        if self.folder.is_symlink() or (self.folder.exists() and not self.folder.is_dir()):
            return f"{self.name} is not a folder (links are not followed), so no record is read"
        if (self.repo.git_dir / "info/sparse-checkout").exists() and self.repo.sparse(self.files.store):
            return f"a sparse checkout leaves out records: git sparse-checkout add {self.files.store}"
        if unfilled := self.unfilled:
            return unfilled
        if not self.folder.exists() and self.repo.item(self.files.store) is not None:
            return f"{self.name} is gone from the work tree, though HEAD has it: git restore {self.files.store}"
        return ""

    @property
    def unfilled(self) -> str:
        """That the store is a submodule which is not there yet, with the command that brings it; or ""."""
        if self.files.store == TOP or (self.folder.exists() and any(self.folder.iterdir())):
            return ""
        item = self.repo.item(self.files.store)
        if item is None or item.mode != SUBMODULE:
            return ""
        return f"{self.name} is a submodule: git -C {self.repo.work_tree} submodule update --init {self.files.store}"

    def refuse_missing(self) -> None:
        """Refuse to read a store that was named and is not there. Raises NotFound; BrokenStore where all is gone."""
        if not self.repo.work_tree.is_dir():
            raise BrokenStore(f"the work tree {self.repo.work_tree} is gone", "open the memory again where it is now")
        if self.stated and self.absent:
            told = f"there is no folder {self.name} at the top of the work tree"
            raise NotFound(told, "a save makes it, and so does filemem init")


def _dates(history: History, files: Files, paths: Collection[str], tip: str) -> Mapping[str, int]:
    found: Mapping[str, int] = history.dates([files.named(path) for path in paths], tip)
    return {files.inside(path): at for path, at in found.items()}


def _index_folder(repo: Repo, config: Config, store: str) -> Path:
    """One folder per store, in the Git directory of the work tree; in the user's cache where that cannot be written."""
    name = "%2E" if store == TOP else store.replace("%", "%25").replace("/", "%2F")
    if os.access(repo.git_dir, os.W_OK):
        return repo.private / "index" / name
    return config.index_cache / mark_of(str(repo.git_dir).encode("utf-8", "surrogateescape").hex())[:16] / name
