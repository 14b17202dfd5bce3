"""The parts of a memory, opened and joined: files, repository, saver, index. What is asked of one record is here.

Reading never imports writing: the saver is made, and its modules imported, at the first need for it.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from filemem import record
from filemem.changes import blob_id
from filemem.config import Config
from filemem.documents import Birth, Node, having, node_of
from filemem.errors import BadInput, FilememError, NotFound
from filemem.files import Files, is_listed
from filemem.index import Index, embedder, versions
from filemem.memory import home, obstacles, tombstones
from filemem.record import Parsed
from filemem.repo import PUT, Repo, discovery
from filemem.repo.memo import Memo

if TYPE_CHECKING:
    from filemem.memory.following import Place
    from filemem.memory.origins import Takings
    from filemem.memory.saving import Saver
    from filemem.memory.standing import Standing, Standings
    from filemem.memory.versions import Versions
    from filemem.repo.history import History

Progress = Callable[[int, int], object]  # records done, records in all
_Answer = TypeVar("_Answer")


def now() -> int:
    """The time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


@dataclass(eq=False, repr=False)
class Store:
    """The parts that the facade joins; `clock` gives epoch milliseconds, `entropy` eight random bytes."""

    config: Config
    repo: Repo  # where the records are committed
    files: Files
    index: Index
    code: Repo  # the project's: the same as `repo` but where records have a work tree of their own
    name: str  # the store folder as people see it: from the top of the code's work tree
    serving: bool = False  # a server: helpers stay alive, saves may wait for one another
    clock: Callable[[], int] = now
    entropy: Callable[[], bytes] = lambda: os.urandom(8)
    opened: Path = Path()  # the folder that the caller is in
    stated: bool = False  # whether somebody named the store folder, on the command line or in settings
    pasts: dict[str, Store] = field(default_factory=dict)  # at commits asked about, last used last
    walked: tuple[Mapping[str, int], Mapping[str, int]] | None = None  # folder times noted, and found to bring no news
    followed: Place | None = None  # where HEAD was when it was last found that the index had heard of it
    takings: tuple[str, Takings] = ("", MappingProxyType({}))  # of a commit: who had names that were given on
    _own: threading.local = field(default_factory=threading.local, init=False)  # what one thread answers from
    _committed: tuple[str, Mapping[str, str]] = ("", MappingProxyType({}))  # of the commit last asked for
    _saver: Saver | None = field(default=None, init=False)
    _making: threading.Lock = field(default_factory=threading.Lock, init=False)
    _related: dict[tuple[str, str], bool] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, store: str | None, *, serving: bool) -> Store:
        """Find the repository of a folder and open what stands beside it.

        Args:
            folder: any folder of the work tree.
            store: folder of records, or None for the configured one.
            serving: keep helpers alive between saves.

        Raises:
            NotFound: no repository.
            BadInput: settings that cannot be used.
            BrokenStore: the store has a work tree of its own, and it is not here.
        """
        config, code, repo, name, shown, stated = home.find(folder, store)
        repo.run_hooks = config.run_hooks
        files = Files(repo.work_tree, name, spool=repo.private / "spool")
        index = Index(_index_folder(repo, config, name), embedder(config.model, download=config.download))
        return cls(config, repo, files, index, code, shown, serving, opened=folder.resolve(), stated=stated)

    def close(self) -> None:
        """Release helpers and locks."""
        if self._saver is not None:
            self._saver.close()
        for past in self.pasts.values():
            past.close()
        self.index.close()
        self.repo.close()
        self.code.close()

    @property
    def saver(self) -> Saver:
        """What writes records and commits them."""
        with self._making:
            if self._saver is None:
                from filemem.memory.saving import Saver

                self._saver = Saver(self.files, self.repo, clock=self.clock)
            return self._saver

    @cached_property
    def standings(self) -> Standings:
        """How records stand to the default branch."""
        from filemem.memory.standing import Standings

        return Standings(self)

    def standing(self, nodes: Iterable[Node]) -> dict[str, Standing]:
        """How committed records stand to the default branch, by path."""
        return self.standings.of(nodes)

    @property
    def branch(self) -> str:
        """The branch that records are committed to; "" where HEAD is detached."""
        return self.repo.branch() or ""

    @property
    def tip(self) -> str:
        """The commit from which history is seen."""
        return "HEAD"

    @property
    def history(self) -> History:
        """What Git remembers of this memory."""
        return self.repo.history_at(self.tip)

    def versions(self) -> Versions:
        """What versions of files say, each read once for the question that is at hand."""
        from filemem.memory.versions import Versions

        return Versions(self)

    def listing(self, seen: History) -> dict[str, str]:
        """What a commit has in the store: blob id by store path of every regular file, records and others."""
        return {self.files.inside(path): blob for path, blob in seen.listing(self.files.store).items()}

    def committed(self) -> Mapping[str, str]:
        """Blob id by path of the records that HEAD has, readable or not."""
        if (head := self.repo.head() or "") != self._committed[0]:
            found = self.listing(self.repo.history_at(head)) if head else {}
            self._committed = head, {path: blob for path, blob in found.items() if is_listed(path)}
        return self._committed[1]

    @property
    def tombstones(self) -> frozenset[str]:
        """What is forgotten, as `filemem.memory.tombstones` names it; not what is restored by a save that waits."""
        known = tombstones.marks(self.folder)
        return known - self._restored() if known else known

    def _restored(self) -> frozenset[str]:
        journal = self.repo.journal
        ours = (one.operation for one in journal.entries() if one.operation.worktree == journal.worktree)
        return frozenset(posixpath.basename(one.tombstone) for one in ours if one.kind == PUT)

    def memo(self, name: str) -> Memo:
        """What was found out about history, and is kept beside the index."""
        return Memo(self.index.root.parent / f"{name}-{self.index.root.name}")

    @cached_property
    def folder(self) -> Path:
        """The store's folder."""
        return Path(self.repo.work_tree) / self.files.store

    @property
    def alone(self) -> bool:
        """Whether the records are all that their repository, or their branch, is for."""
        return self.repo is not self.code and self.files.store == home.TOP

    @property
    def absent(self) -> bool:
        """Whether there is no store yet: neither in the work tree nor in HEAD."""
        return not os.path.lexists(self.folder) and self.repo.item(self.files.store) is None

    def shown(self, path: str) -> str:
        """A store path as people see it: from the top of the code's work tree."""
        return path if self.name == home.TOP else f"{self.name}/{path}"

    @contextlib.contextmanager
    def naming(self, path: str) -> Iterator[None]:
        """Let errors about a record's file, which saving knows by its store path, name it as people see it."""
        try:
            yield
        except FilememError as error:
            if error.message.startswith(path):
                error.message = self.shown(path) + error.message.removeprefix(path)
            raise

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

    def refuse_missing(self) -> None:
        """Refuse to read a store that somebody named and nobody has made: most likely it is another one's misspelling.

        Raises:
            NotFound: says what was probably meant.
            BrokenStore: the work tree was removed, and all that is asked would seem never to have been.
        """
        discovery.refuse_gone(self.repo.work_tree)
        if not self.stated or not self.absent:
            return
        from filemem.memory import meant

        near = meant.folder(self.code.work_tree, self.opened, self.name)
        hint = f"did you mean {near}?" if near else "a save makes it, and so does filemem init"
        raise NotFound(f"there is no folder {self.name} at the top of the work tree", hint)

    def obstacle(self) -> str:
        """Why records cannot be read although there may be some, or ""."""
        if self.folder.is_symlink() or (self.folder.exists() and not self.folder.is_dir()):
            return f"{self.name} is not a folder (links are not followed), so no record is read"
        return obstacles.unfilled(self) or obstacles.unseen(self) or obstacles.gone(self) or obstacles.emptied(self)

    def astray(self) -> str:
        """That the work tree has records which nobody reads, as the memory is elsewhere, or ""."""
        from filemem.memory import astray

        return astray.briefly(self.code, self.repo, self.config.store)

    def bytes_of(self, path: str) -> bytes:
        """What a record holds now, operations that wait for the repository included.

        Raises:
            NotFound: there is no such file.
        """
        waiting = self.saver.overlay() if self.repo.journal.entries() else {}
        if path in waiting:
            data = waiting[path]
            if data is None:
                raise NotFound(f"{path} is deleted; the commit waits for the repository")
            return data
        return self.files.read(path)

    def edited(self, path: str) -> bool:
        """Whether a committed record has changes that are not committed; one that is gone has none."""
        try:
            return self.repo.edited(self.files.named(path), self.bytes_of(path))
        except NotFound:
            return False

    def blob(self, path: str) -> str | None:
        """Blob id of a file as it stands; None where it is gone, or is no file any more."""
        try:
            return blob_id(self.files.read(path), self.repo.hash_name)
        except (NotFound, BadInput):
            return None

    def read(self, path: str, first_path: str = "") -> Parsed:
        """Read one record; a file that is gone, or is no regular file any more, gives none and no error."""
        try:
            data = self.bytes_of(path)
        except (NotFound, BadInput):
            return Parsed(None)
        return record.parse(data, path, first_path)

    def read_ahead(self, paths: Collection[str]) -> None:
        """Be told which records are going to be read: files are at hand anyway."""

    @contextlib.contextmanager
    def without_index(self) -> Iterator[None]:
        """Answer `lookup` from the files themselves, as they are now: a save never fails because of the index.

        For this thread alone: a look under way in another must not take for the index what is no index.
        """
        from filemem.memory.origins import origins

        listing, _ = self.files.scan({}, hash_name=self.repo.hash_name)
        known, first = self.tombstones, origins(self).births
        births = {path: first.get(path, Birth()) for path in listing}
        found = ((self.read(path, birth.name).record, birth) for path, birth in births.items())
        shown = ((one, birth) for one, birth in found if one and not tombstones.forgotten(one.id, known))
        self._own.plain = [node_of(one, birth, lambda reference: reference) for one, birth in shown]
        try:
            yield
        finally:
            self._own.plain = None

    @property
    def _plain(self) -> list[Node] | None:
        found: list[Node] | None = getattr(self._own, "plain", None)
        return found

    def surely(self, question: Callable[[], _Answer]) -> _Answer:
        """Answer from the index where it stands all the while, else from the files: a deleted one says too little."""
        if self._plain is None and self.index.sound:
            try:
                answer = question()
            except FilememError:
                if self.index.sound:
                    raise
            else:
                if self.index.sound:
                    return answer
        with contextlib.nullcontext() if self._plain is not None else self.without_index():
            return question()

    def lookup(self, name: str, values: Collection[str]) -> list[Node]:
        """The nodes that have one of these exact terms in a field."""
        return self.lookup_any({name: values})

    def lookup_any(self, wanted: Mapping[str, Collection[str]]) -> list[Node]:
        """The nodes that have one of the exact terms in any of the fields."""
        if self._plain is not None:
            return having(self._plain, wanted)
        return [Node.loads(text) for text in self.index.by_terms(wanted)] if any(wanted.values()) else []

    def nodes(self) -> Iterable[Node]:
        """Every node the index knows."""
        return map(Node.loads, self.index.nodes())

    def unrelated(self, one: str, other: str) -> bool:
        """Whether two commits lie on branches that do not contain each other; False where that cannot be known."""
        pair = (min(one, other), max(one, other))
        if pair not in self._related:
            if not one or not other or one == other or not self.history.boundary().isdisjoint(pair):
                return False
            contains = self.history.is_ancestor
            self._related[pair] = not (contains(one, other) or contains(other, one))
        return self._related[pair]


def _index_folder(repo: Repo, config: Config, store: str) -> Path:
    """One folder per store, in the Git directory of the work tree; in the user's cache where that cannot be written."""
    name = "%2E" if store == home.TOP else store.replace("%", "%25").replace("/", "%2F")
    if os.access(repo.git_dir, os.W_OK):
        return versions.place(repo.private / "index" / name)
    import hashlib

    digest = hashlib.sha256(str(repo.git_dir).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return versions.place(config.index_cache / digest / name)
