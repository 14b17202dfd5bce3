"""The facade: everything filemem does, once, for the command line, MCP, HTTP and Python alike.

A save in one straight line: `changing.save` checks the fields and works out what they supersede, `saving.Saver` brings
the file and the commit into the repository, `Index.push` makes it searchable.

A search is most of what is asked, often by a process that ends with it: every other method imports its own module, as
the commands of `cli` do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from filemem.errors import BadInput, BrokenStore, FilememError, Locked, NotFound
from filemem.index import IndexDamaged
from filemem.memory import searching, writing
from filemem.memory.restrictions import restrictions_of
from filemem.memory.store import Store
from filemem.memory.values import Comparison, History, Name, Results, Revision, Saved, Similar, Step, Topic, Why
from filemem.query import Hit
from filemem.record import DECISION, Problem, number

if TYPE_CHECKING:
    from filemem.memory.asof import PastMemory
    from filemem.memory.sharing import Synced
    from filemem.memory.syncing import Look

__all__ = ["History", "Hit", "Memory", "Results", "Revision", "Saved", "Similar", "Step", "Topic"]

Progress = Callable[[int, int], object]  # records done, records in all
MOST_HITS = 1_000
_Answer = TypeVar("_Answer")
MODES = ("hybrid", "keyword", "vector")
SHORT, LONG = 1.0, 10.0  # seconds that a question, and a save, wait until the index has heard of a checkout
IDLE = 30.0  # seconds in which nobody waits again for a look that did not come in time
REPAIR = 5.0  # seconds that a question waits for another process to notice that the index is damaged
PAUSE = 0.05  # seconds between two looks at what another process does


class Memory:
    """The memory of one Git work tree. Safe to use from several threads; one call at a time is at work."""

    def __init__(self, store: Store, progress: Progress | None = None) -> None:
        self._store = store
        self._progress = progress
        self._lock = threading.RLock()  # one call at a time
        self._syncing = threading.RLock()  # of its own: a search does not wait for an index that is being built
        self._closing: list[Callable[[], None]] = []
        self._watching: list[Callable[[], None]] = []
        self._numbers: dict[int, str] = {}  # what numbers stood for when last asked for
        self.stated_user = ""  # what `user_id` is whatever is configured
        self._patient_from = 0.0  # when it is worth again to wait for another's look, as `time.monotonic` tells it
        self._behind = False  # whether the index had not heard of HEAD when the last question was asked
        self.trouble: str | None = None  # why the last look at the files failed, if it did

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        store: str | None = None,
        serving: bool = False,
        progress: Progress | None = None,
        look: bool = True,
    ) -> Memory:
        """Open the memory that a folder belongs to, finish what a crash left, and catch up with the files.

        Args:
            folder: any folder of the work tree.
            store: folder of records, or None for the configured one.
            serving: a watcher will keep the index in step; keep helpers alive between saves.
            progress: told how far long work is.
            look: bring the index in step; without it only what reads the files themselves may be asked.

        Raises:
            NotFound: no repository.
            BadInput: settings or store that cannot be used.
            BrokenStore: the repository cannot be used.
        """
        memory = cls(Store.open(folder, store, serving=serving), progress)
        try:
            if serving or not memory._store.settled:
                memory._store.saver.replay(thorough=serving)
        except FilememError as error:  # a Git directory that cannot be written can still be read
            memory.trouble = error.message
        try:
            if look and not serving and ((overdue := memory._store.overdue) or not memory._store.in_step):
                with memory._helping():
                    memory._catch_up(full=overdue, hints=())
        except (BrokenStore, Locked) as error:  # what was indexed before can still be asked
            memory.trouble = error.message
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
    def work_tree(self) -> Path:
        """The top folder of the work tree, to which the paths of hits are relative."""
        return self._store.code.work_tree

    @property
    def folder(self) -> Path:
        """The folder of records."""
        return self._store.folder

    @property
    def agent(self) -> str:
        """Who saves where a save does not say, as the user has configured it; may be empty."""
        return self._store.config.agent

    @property
    def user_id(self) -> str:
        """Whose memories are saved where a save does not say, as the user has configured it; may be empty."""
        from filemem.config import powermem_user

        return self.stated_user or powermem_user()[0]

    def new_session(self, prefix: str) -> str:
        """Make up a name for a session, such as `mcp-1763650000123-k3f9w2`."""
        return f"{prefix}-{self._store.clock()}-{self._store.entropy().hex()[:6]}"

    def now(self) -> int:
        """The time in epoch milliseconds."""
        return self._store.clock()

    def numbered(self, wanted: int) -> str:
        """Return the id of the record that a number stands for, as `filemem.record.number` makes it.

        Raises:
            NotFound: no record's id makes this number.
        """
        if wanted not in self._numbers:
            self._numbers = self._ask(lambda: {number(node.id): node.id for node in self._store.nodes()})
        if wanted not in self._numbers:
            raise NotFound(f"no record has the number {wanted}", "search lists what there is")
        return self._numbers[wanted]

    def on_close(self, action: Callable[[], None]) -> None:
        """Run something before the parts are closed."""
        self._closing.append(action)

    def on_change(self, action: Callable[[], None]) -> None:
        """Run something whenever records may have changed, from the thread that changed them or saw it."""
        self._watching.append(action)

    def _changed(self) -> None:
        for action in self._watching:
            action()

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
        from filemem.memory import changing

        self._refuse_blind(fields)
        with self._lock:
            # What a decision replaces must be what holds here: without a look in time, the files themselves tell.
            sure = writing.type_of(fields) != DECISION or self._ask(lambda: self._follow(LONG))
            with nullcontext() if sure else self._store.without_index():
                saved = self._ask(lambda: changing.save(self._store, fields))
        if self._numbers:  # somebody asks by number
            self._numbers[number(saved.id)] = saved.id
        self._changed()
        return saved

    def resolve(self, topic: str, **fields: Any) -> Saved:
        """End a fork: save the decision that merges all that hold on a topic.

        Args:
            topic: the topic.
            fields: decision, reasoning, and what else `save` takes for a decision.

        Raises:
            BadInput, NotFound: as `filemem.memory.changing.resolve` says.
        """
        from filemem.memory import changing

        return self._read(lambda: changing.resolve(self._store, topic, fields))

    def update(self, id: str, **fields: Any) -> Saved:  # noqa: A002  the tools' word
        """Append what came of a decision (outcome, reason), or change status, title, text or tags.

        Raises:
            BadInput, NotFound, Conflict: as `filemem.memory.changing.update` says.
        """
        from filemem.memory import changing

        updated = self._read(lambda: changing.update(self._store, id, fields))
        self._changed()
        return updated

    def delete(self, id: str, *, reason: str = "") -> Saved:  # noqa: A002
        """Remove a record by a commit, and see to it that nothing but `restore` brings it back; history keeps it.

        Raises:
            NotFound, Conflict: as `filemem.memory.changing.delete` says.
        """
        from filemem.memory import changing

        deleted = self._read(lambda: changing.delete(self._store, id, reason))
        self._changed()
        return deleted

    def restore(self, id: str) -> Saved:  # noqa: A002
        """Bring a record back that was deleted.

        Raises:
            NotFound, Conflict: as `filemem.memory.changing.restore` says.
        """
        from filemem.memory import changing

        saved = self._read(lambda: changing.restore(self._store, id))
        self._changed()
        return saved

    def purging(self, path: str) -> tuple[str, ...]:
        """Return the commands that take a record out of Git's history; filemem itself never rewrites it.

        Args:
            path: of the record, from the top of the work tree, as answers show it.
        """
        from filemem.memory import removed

        return removed.purging(self._store, self._store.asked(path))

    def search(
        self,
        query: str = "",
        *,
        limit: int = 10,
        offset: int = 0,
        mode: str = "hybrid",
        recency: bool = True,
        **restrictions: Any,
    ) -> Results:
        """Find records, best first; without a query the newest first.

        Args:
            query: words, "phrases", -exclusions, and restrictions such as topic:caching or is:live.
            limit: 1 to 1,000 hits.
            offset: hits to pass over.
            mode: hybrid, keyword or vector.
            recency: whether age counts.
            restrictions: type, topic, tag, outcome, status, agent, branch, user, run (one or several words),
                metadata (a mapping), since, until (a date or an age such as 2w), path, live.

        Raises:
            BadInput: a restriction that cannot be read.
        """
        wanted = restrictions_of(restrictions, self._store.clock())
        if wanted.path:
            wanted = wanted._replace(path=self._store.of_code(wanted.path))
        text = writing.text("query", query)
        for name, value, most in (("limit", limit, MOST_HITS), ("offset", offset, 1_000_000)):
            if not isinstance(value, int) or isinstance(value, bool) or not (name == "limit") <= value <= most:
                raise BadInput(f"{name} must be a whole number up to {most:,}, not {value!r}", field=name)
        if mode not in MODES:
            raise BadInput(f"mode must be one of {', '.join(MODES)}, not {mode!r}", field="mode")
        how: dict[str, Any] = {"limit": limit, "offset": offset, "recency": recency, "mode": mode}
        found = self._read(lambda: self._told(searching.search(self._store, text, wanted, **how), bool(wanted.path)))
        trouble = "; ".join(part for part in (found.degraded, self.degraded) if part)
        return Results(found.hits, trouble, found.note)

    def _told(self, found: Results, governing_path: bool) -> Results:
        """Results with what Git says of the code; asked of Git only where the question was about code."""
        from filemem.memory import governing

        tell = governing.added if governing_path else governing.hinted
        return replace(found, hits=tell(self._store, found.hits))

    def get(self, *ids: str) -> tuple[Hit, ...]:
        """Return whole records by id, unique start of a short id, path, file name, number or title.

        Raises:
            BadInput: no id given.
            NotFound: one that does not exist.
        """
        if not ids:
            raise BadInput("no id given", "give id or ids", field="ids")
        from filemem.memory import governing

        store = self._store
        return self._read(
            lambda: governing.added(store, searching.present(store, [searching.find(store, one) for one in ids]))
        )

    def history(self, topic_or_id: str) -> History:
        """Tell how a topic was decided, oldest first.

        Raises:
            NotFound: neither a topic nor a decision.
        """
        from filemem.memory import history

        return self._read(lambda: history.history(self._store, topic_or_id))

    def diff(self, between: str = "") -> Comparison:
        """Tell what a branch does to the memory: new, superseded, revised, forked, orphaned records.

        Args:
            between: `BASE...HEAD`; empty for what is checked out, since it parted from the default branch.

        Raises:
            BadInput, NotFound, Conflict: as `filemem.memory.comparing.compare` says.
        """
        from filemem.memory import comparing

        return self._read(lambda: comparing.compare(self._store, between))

    def revisions(self, *ids: str) -> dict[str, tuple[Revision, ...]]:
        """Tell how records of any type were edited in place, oldest first, by the id that was found for each.

        Raises:
            NotFound: one that does not exist.
        """
        from filemem.memory import history

        return self._read(lambda: history.revisions(self._store, ids))

    def timeline(self, *, anchor: str = "", query: str = "", depth_before: int = 5, depth_after: int = 5) -> Results:
        """Tell what was saved around a record, a time, or the best hit of a query.

        Raises:
            BadInput, NotFound: as `filemem.memory.telling.timeline` says.
        """
        from filemem.memory import telling

        return self._read(
            lambda: telling.timeline(
                self._store, anchor=anchor, query=query, depth_before=depth_before, depth_after=depth_after
            )
        )

    def latest_checkpoint(self, branch: str = "") -> tuple[Hit, str] | None:
        """Return the checkpoint to go on from, and a note where it is another branch's or author's."""
        from filemem.memory import telling

        return self._read(lambda: telling.latest_checkpoint(self._store, branch))

    def topics(self, prefix: str = "") -> tuple[Topic, ...]:
        """List topics with what holds today; `prefix` is any part of a topic's name or of the title of what holds."""
        from filemem.memory import telling

        return self._read(lambda: telling.topics(self._store, prefix))

    def topic_keys(self, part: str = "") -> tuple[str, ...]:
        """The topics, as their identities, that have these words in them; those with the most decisions first."""
        from filemem.memory import telling

        return self._ask(lambda: telling.topic_keys(self._store, part))

    def decision_ids(self, part: str = "") -> tuple[str, ...]:
        """The ids of the newest decisions that have these characters in their id or title."""
        from filemem.memory import telling

        return self._ask(lambda: telling.decision_ids(self._store, part))

    def names(self, ids: Collection[str]) -> dict[str, Name]:
        """Title and path of records by id; ids that no record has are left out."""
        from filemem.memory import telling

        return self._ask(lambda: telling.names(self._store, ids))

    def edited(self, hit: Hit) -> bool:
        """Whether a hit's file has changes that are not committed, so that its commit does not tell all of it."""
        path = self._store.asked(hit.path)
        with self._lock:
            return bool(hit.provenance.commit) and self._store.edited(path)

    def why(self, path: str, *, limit: int = 10) -> Why:
        """Tell which decisions a file rests on: those that govern it, those whose commits made it, the nearest.

        Args:
            path: from the top of the work tree; `PATH:LINE` for a line.
            limit: 1 to 1,000 decisions.

        Raises:
            BadInput: the path lies outside the work tree, or has no such line.
            NotFound: there is no such file, and no decision speaks of it.
        """
        from filemem.memory import why

        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_HITS:
            raise BadInput(f"limit must be a whole number up to {MOST_HITS:,}, not {limit!r}", field="limit")
        return self._read(lambda: why.why(self._store, writing.text("path", path), limit))

    def check(self, *paths: str, base: str = "") -> tuple[int, tuple[Problem, ...]]:
        """Read every record and say what is wrong.

        Args:
            paths: report only these files or folders.
            base: report only what changed since this branch left that revision.

        Raises:
            BadInput: this branch has no commit in common with `base`.
            NotFound: a path that holds no record, or no such revision.
        """
        from filemem.memory import checking

        with self._lock:
            self._store.refuse_typo()
            return checking.check(self._store, paths, base)

    def refresh(self, *, full: bool = False, hints: Iterable[str] = ()) -> Look:
        """Finish what waits for the repository, and bring the index in step with the files.

        Args:
            full: look at every file, not only where a folder's time changed.
            hints: absolute paths that may have changed.

        Raises:
            BrokenStore: the index folder cannot be written.
        """
        from filemem.memory import syncing

        named = tuple(hints)
        if named:
            with self._lock:  # what a save under way has written is found once that save is done
                pass
        with self._syncing:
            saver = self._store.saver
            if saver.due() == 0:
                saver.flush()
            if named and not full and syncing.nothing_new(self._store, named):
                self._changed()  # another process may have made them
                return syncing.Look()
            saver.replay(thorough=full)
            if full and self._store.serving and not saver.pending():
                self._store.repo.maintain()
            look = self._catch_up(full=full, hints=named, verify=full)
            look = self.rebuild() if full and self._store.index.outdated else look
            if named or look.changed:
                self._changed()
            return look

    def sync(self, tell: Callable[[str], object] | None = None) -> Synced:
        """Bring here what others saved, put what was saved here on top, and push it.

        Args:
            tell: told what Git says of its progress.

        Raises:
            NotFound, Conflict, Locked, BrokenStore: as `filemem.memory.sharing.sync` says.
        """
        from filemem.memory import sharing

        try:
            return sharing.sync(self._store, tell)
        finally:
            with self._syncing:
                try:
                    self._catch_up(full=False, hints=())
                    self._changed()
                except (BrokenStore, Locked) as error:  # what was indexed before can still be asked
                    self.trouble = error.message

    def rest(self) -> None:
        """Let go of memory that is quickly had again; for a server that nobody asks anything."""
        self._store.index.rest()

    def _catch_up(self, *, full: bool, hints: Iterable[str], verify: bool = False) -> Look:
        from filemem.memory import syncing

        deepened, past = self._store.deepened and self._store.index.writable, self._store.past_stamp
        if deepened:
            self._store.index.note(head="")  # so that first commits are asked for anew
            self._store.index.forget_kept()
        try:
            if not (verify and self._store.index.verify()):
                look = syncing.catch_up(self._store, full=full, hints=hints, progress=self._progress)
                if deepened and not look.busy:
                    self._store.index.note(head=self._store.index.head, past=past)
                return look
        except IndexDamaged:
            pass
        return syncing.rebuild(self._store, progress=self._progress)

    def rebuild(self) -> Look:
        """Build the index anew from the files; the old one serves until the switch."""
        from filemem.memory import syncing

        with self._syncing, self._helping():
            try:
                return syncing.renew(self._store, progress=self._progress)
            except IndexDamaged:
                return syncing.rebuild(self._store, progress=self._progress)

    @contextmanager
    def _helping(self) -> Iterator[None]:
        """Change the index, and be its writer no longer than that, unless we are it already: a watcher needs to be."""
        writer = self._store.index.is_writer
        try:
            yield
        finally:
            if not writer:
                self._store.index.stand_back()

    def status(self) -> dict[str, Any]:
        """Say how the memory stands: counts, index, what waits for a commit, problems."""
        from filemem.config import powermem_user
        from filemem.memory import telling

        settings = {"settings": trouble} if (trouble := powermem_user()[1]) else {}
        return self._read(lambda: {**telling.status(self._store), "degraded": self.degraded, **settings})

    def _refuse_blind(self, fields: Mapping[str, Any]) -> None:
        """Refuse a decision that could fork its topic unseen: what holds may lie outside the sparse checkout."""
        if why := self._store.unfilled():
            raise BrokenStore(f"nothing was saved: {why.partition(': ')[0]} that is not here", why.partition(": ")[2])
        if fields.get("supersedes") is None and writing.type_of(fields) == DECISION and (why := self._store.unseen()):
            raise BrokenStore(
                f"nothing was saved: {why.partition(': ')[0]}, so what this decision replaces cannot be told",
                f"{why.partition(': ')[2]}   (or say what it supersedes)",
            )

    @property
    def degraded(self) -> str:
        """Why answers may lack something, or ""."""
        behind = "HEAD was moved a moment ago, and the index is catching up" if self._behind else ""
        return "; ".join(part for part in (self.trouble or "", behind, self._store.obstacle()) if part)

    @property
    def unbegun(self) -> str:
        """What to do where nothing was ever saved, or ""."""
        return "no memory here yet: filemem init, or just save" if self._store.absent else ""

    def _read(self, question: Callable[[], _Answer]) -> _Answer:
        """Answer what makes sense only where there is a store."""
        self._store.refuse_typo()
        try:
            self._behind = self._store.index.exists and not self._follow(SHORT)
        except IndexDamaged:  # the question finds that too, and repairs it
            self._behind = False
        return self._ask(question)

    def _follow(self, patience: float) -> bool:
        """Let the index hear of a HEAD that others have moved; say whether it has.

        Args:
            patience: seconds to wait for a look that is under way, here or in another process.
        """
        from filemem.memory import following

        began = time.monotonic()
        stop = began + (patience if began > self._patient_from else 0)
        busy = False
        while not following.knows(self._store, place := following.here(self._store)):
            left = stop - time.monotonic()
            if (busy and left <= 0) or not self._syncing.acquire(timeout=max(0.0, left)):
                self._patient_from = time.monotonic() + IDLE  # who should have looked is not at work
                return False
            try:
                with self._helping():
                    busy = self._catch_up(full=self._store.index.unreadable, hints=()).busy
            except (BrokenStore, Locked):  # told by `trouble` and `status`; the last look still answers
                return False
            finally:
                self._syncing.release()
            if busy:
                time.sleep(min(PAUSE, max(0.0, stop - time.monotonic())))
            else:
                self._store.followed = place._replace(waiting=self._store.index.waiting())
        return True

    def _ask(self, question: Callable[[], _Answer]) -> _Answer:
        """Answer from the index; where that is damaged, build it anew and answer then."""
        with self._lock:
            try:
                return question()
            except NotFound as error:
                if why := self._store.obstacle():
                    raise NotFound(error.message, why) from None
                raise
            except IndexDamaged:
                return self._ask_anew(question)

    def _ask_anew(self, question: Callable[[], _Answer]) -> _Answer:
        """Build a damaged index anew, or wait for the process that may, and answer then."""
        stop = time.monotonic() + REPAIR
        while True:
            try:
                busy = self.rebuild().busy
            except BrokenStore as error:
                self.trouble = error.message
                with self._store.without_index():
                    return question()
            try:
                return question()
            except IndexDamaged:
                if not busy or time.monotonic() > stop:
                    raise
            time.sleep(PAUSE)
