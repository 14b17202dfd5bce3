"""The facade: everything filemem does, once, for the command line, MCP, HTTP and Python alike.

A save in one straight line: `changing.save` checks the fields and works out what they supersede, `saving.Saver` brings
the file and the commit into the repository, `Index.push` makes it searchable.

What is asked of it stands in `asking`, and how its index is kept in step in `keeping`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from filemem.errors import BrokenStore, FilememError, Locked
from filemem.memory import arguments, following
from filemem.memory.asking import Asked
from filemem.memory.store import Progress, Store
from filemem.query import Hit, Results
from filemem.record import DECISION, number

if TYPE_CHECKING:
    from filemem.memory.asof import PastMemory
    from filemem.memory.purging import Purge
    from filemem.memory.sharing import Synced
    from filemem.memory.values import Saved

__all__ = ["Hit", "Memory", "Results"]

LONG = 10.0  # seconds that a save waits until the index has heard of a checkout


class Memory(Asked):
    """The memory of one Git work tree. Safe to use from several threads; one call at a time is at work."""

    def __init__(self, store: Store, progress: Progress | None = None) -> None:
        super().__init__(store, progress)
        self._closing: list[Callable[[], None]] = []
        self.stated_user = ""  # what `user_id` is whatever is configured

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        store: str | None = None,
        serving: bool = False,
        progress: Progress | None = None,
        look: bool = True,
        stays: bool = False,
    ) -> Memory:
        """Open the memory that a folder belongs to, finish what a crash left, and catch up with the files.

        Args:
            folder: any folder of the work tree.
            store: folder of records, or None for the configured one.
            serving: a watcher will keep the index in step; keep helpers alive between saves.
            progress: told how far long work is.
            look: bring the index in step; without it only what reads the files themselves may be asked.
            stays: look again before later questions and saves, for a program that has no watcher.

        Raises:
            NotFound: no repository.
            BadInput: settings or store that cannot be used.
            BrokenStore: the repository cannot be used.
        """
        parts = Store.open(folder, store, serving=serving)
        memory = cls(parts, progress)
        try:
            if serving or not following.settled(parts):
                parts.saver.replay(thorough=serving)
        except FilememError as error:  # a Git directory that cannot be written can still be read
            memory.trouble = error.told
        try:
            if look and not serving and ((overdue := following.overdue(parts)) or not following.in_step(parts)):
                with memory._helping():
                    memory._catch_up(full=overdue, hints=())
        except (BrokenStore, Locked) as error:  # what was indexed before can still be asked
            memory.trouble = error.told
        memory._looks = stays
        return memory

    def at(self, when: str) -> PastMemory:
        """Return the memory as it was at a commit, for reading: nothing of the work tree is touched.

        Args:
            when: a commit, tag, branch or expression such as `HEAD~3`; else a date or an age: the last commit by then.

        Raises:
            BadInput, NotFound: as `filemem.memory.moments.find` says.
            BrokenStore: the index folder cannot be written.
        """
        from filemem.memory import asof

        with self._lock:
            return asof.open_at(self._store, when)

    @property
    def agent(self) -> str:
        """Who saves where a save does not say, as the user has configured it; may be empty."""
        return self._store.config.agent

    @property
    def user_id(self) -> str:
        """Whose memories are saved where a save does not say, as the user has configured it; may be empty."""
        from filemem.config.others import powermem_user

        return self.stated_user or powermem_user()[0]

    def new_session(self, prefix: str) -> str:
        """Make up a name for a session, such as `mcp-1763650000123-k3f9w2`."""
        return f"{arguments.line('prefix', prefix)}-{self._store.clock()}-{self._store.entropy().hex()[:6]}"

    def on_close(self, action: Callable[[], None]) -> None:
        """Run something before the parts are closed."""
        self._closing.append(arguments.action("action", action))

    def close(self) -> None:
        """Commit what is batched and release everything."""
        for action in self._closing:
            action()
        with self._lock:
            self._store.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def save(self, **fields: Any) -> Saved:
        """Save a decision (topic, decision, reasoning), a checkpoint (summary) or an observation (text, title).

        Args:
            fields: as docs/format.md names them; `type` where the fields alone do not tell.

        Raises:
            BadInput: a field is wrong, missing, or looks like a secret.
            NotFound: an edge points to nothing.
            Conflict: the topic is forked and nothing says which decisions are replaced.
            BrokenStore: a decision, and a sparse checkout hides what it may have to supersede.
        """
        from filemem.memory import changing, refusing, writing

        decides = writing.type_of(fields) == DECISION
        refusing.refuse_blind(self._store, replacing=decides and fields.get("supersedes") is None)
        self._look()
        with self._lock:
            # What a decision replaces must be what holds here: without a look in time, the files themselves tell.
            sure = not decides or self._ask(lambda: self._follow(LONG))
            with nullcontext() if sure else self._store.without_index():
                saved = self._ask(lambda: changing.save(self._store, fields))
        if self._numbers:  # somebody asks by number
            self._numbers[number(saved.id)] = saved.id
        self._changed()
        return saved

    def _write(self, change: Callable[[], Saved]) -> Saved:
        """Change what is there, unless the memory of the project is another."""
        from filemem.memory import refusing

        refusing.refuse_other(self._store)
        return self._read(change)

    def resolve(self, topic: str, **fields: Any) -> Saved:
        """End a fork: save the decision that merges all that hold on a topic.

        Args:
            topic: the topic.
            fields: decision, reasoning, and what else `save` takes for a decision.

        Raises:
            BadInput, NotFound: as `filemem.memory.changing.resolve` says.
        """
        from filemem.memory import changing

        return self._write(lambda: changing.resolve(self._store, topic, fields))

    def update(self, id: str, **fields: Any) -> Saved:  # noqa: A002  the tools' word
        """Append what came of a decision (outcome, reason), or change status, title, text or tags; `agent` says who.

        Raises:
            BadInput, NotFound, Conflict: as `filemem.memory.changing.update` says.
        """
        from filemem.memory import changing

        updated = self._write(lambda: changing.update(self._store, id, fields))
        self._changed()
        return updated

    def delete(self, id: str, *, reason: str = "", agent: str = "") -> Saved:  # noqa: A002
        """Remove a record by a commit, and see to it that nothing but `restore` brings it back; history keeps it.

        Raises:
            NotFound, Conflict: as `filemem.memory.changing.delete` says.
        """
        from filemem.memory import changing

        deleted = self._write(lambda: changing.delete(self._store, id, reason, agent))
        self._changed()
        return deleted

    def restore(self, id: str, *, agent: str = "") -> Saved:  # noqa: A002
        """Bring a record back that was deleted.

        Raises:
            NotFound, Conflict: as `filemem.memory.changing.restore` says.
        """
        from filemem.memory import changing

        saved = self._write(lambda: changing.restore(self._store, id, agent))
        self._changed()
        return saved

    def purging(self, path: str, record_id: str) -> Purge:
        """Return what takes a record out of Git's history; filemem itself never rewrites it.

        Args:
            path: of the record, from the top of the work tree, as answers show it.
            record_id: its id, which the messages of its commits name.
        """
        from filemem.memory import purging

        inside = self._store.asked(arguments.path("path", path))
        return purging.steps(self._store, inside, arguments.line("record_id", record_id))

    def sync(self, tell: Callable[[str], object] | None = None) -> Synced:
        """Bring here what others saved, put what was saved here on top, and push it.

        Args:
            tell: told what Git says of its progress.

        Raises:
            NotFound, Conflict, Locked, BrokenStore: as `filemem.memory.sharing.sync` says.
        """
        from filemem.memory import sharing

        if tell is not None:
            arguments.action("tell", tell)
        before = self._store.repo.head()
        try:
            done = sharing.sync(self._store, tell)
        finally:
            with self._syncing:
                try:
                    self._catch_up(full=False, hints=())
                    self._changed()
                except (BrokenStore, Locked) as error:  # what was indexed before can still be asked
                    self.trouble = error.told
        return done if self.trouble else self._ask(lambda: sharing.forks(self._store, done, before))
