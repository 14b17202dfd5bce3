"""The facade: everything filemem does, once, for the command line, MCP, HTTP and Python alike.

A save in one straight line: `changing.save` checks the fields and works out what they supersede, `saving.Saver` brings
the file and the commit into the repository, `Index.push` makes it searchable.

A search is most of what is asked, often by a process that ends with it: every other method imports its own module, as
the commands of `cli` do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from filemem.errors import BadInput, BrokenStore, FilememError, Locked, NotFound
from filemem.memory import following, obstacles, searching, writing
from filemem.memory.keeping import Kept, Progress
from filemem.memory.restrictions import restrictions_of
from filemem.memory.store import Store
from filemem.memory.values import Comparison, History, Name, Results, Revision, Saved, Similar, Step, Topic, Why
from filemem.query import Hit
from filemem.record import DECISION, Problem, number

if TYPE_CHECKING:
    from filemem.memory.asof import PastMemory
    from filemem.memory.sharing import Synced

__all__ = ["History", "Hit", "Memory", "Results", "Revision", "Saved", "Similar", "Step", "Topic"]

MOST_HITS = 1_000
MODES = ("hybrid", "keyword", "vector")
LONG = 10.0  # seconds that a save waits until the index has heard of a checkout


class Memory(Kept):
    """The memory of one Git work tree. Safe to use from several threads; one call at a time is at work."""

    def __init__(self, store: Store, progress: Progress | None = None) -> None:
        super().__init__(store, progress)
        self._closing: list[Callable[[], None]] = []
        self._numbers: dict[int, str] = {}  # what numbers stood for when last asked for
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
        parts = Store.open(folder, store, serving=serving)
        memory = cls(parts, progress)
        try:
            if serving or not following.settled(parts):
                parts.saver.replay(thorough=serving)
        except FilememError as error:  # a Git directory that cannot be written can still be read
            memory.trouble = error.message
        try:
            if look and not serving and ((overdue := following.overdue(parts)) or not following.in_step(parts)):
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

        decides = writing.type_of(fields) == DECISION
        obstacles.refuse_blind(self._store, replacing=decides and fields.get("supersedes") is None)
        with self._lock:
            # What a decision replaces must be what holds here: without a look in time, the files themselves tell.
            sure = not decides or self._ask(lambda: self._follow(LONG))
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
        """Append what came of a decision (outcome, reason), or change status, title, text or tags; `agent` says who.

        Raises:
            BadInput, NotFound, Conflict: as `filemem.memory.changing.update` says.
        """
        from filemem.memory import changing

        updated = self._read(lambda: changing.update(self._store, id, fields))
        self._changed()
        return updated

    def delete(self, id: str, *, reason: str = "", agent: str = "") -> Saved:  # noqa: A002
        """Remove a record by a commit, and see to it that nothing but `restore` brings it back; history keeps it.

        Raises:
            NotFound, Conflict: as `filemem.memory.changing.delete` says.
        """
        from filemem.memory import changing

        deleted = self._read(lambda: changing.delete(self._store, id, reason, agent))
        self._changed()
        return deleted

    def restore(self, id: str, *, agent: str = "") -> Saved:  # noqa: A002
        """Bring a record back that was deleted.

        Raises:
            NotFound, Conflict: as `filemem.memory.changing.restore` says.
        """
        from filemem.memory import changing

        saved = self._read(lambda: changing.restore(self._store, id, agent))
        self._changed()
        return saved

    def purging(self, path: str, record_id: str) -> tuple[str, ...]:
        """Return the commands that take a record out of Git's history; filemem itself never rewrites it.

        Args:
            path: of the record, from the top of the work tree, as answers show it.
            record_id: its id, which the messages of its commits name.
        """
        from filemem.memory import removed

        return removed.purging(self._store, self._store.asked(path), record_id)

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

    def check(self, *paths: str, base: str = "", drift: bool = False) -> tuple[int, tuple[Problem, ...]]:
        """Read every record and say what is wrong.

        Args:
            paths: report only these files or folders.
            base: report only what changed since this branch left that revision.
            drift: tell also of governed code that changed but is not largely rewritten, as hints.

        Raises:
            BadInput: this branch has no commit in common with `base`.
            NotFound: a path that holds no record, or no such revision.
        """
        from filemem.memory import checking

        with self._lock:
            self._store.refuse_typo()
            return checking.check(self._store, paths, base, drift=drift)

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

    def status(self) -> dict[str, Any]:
        """Say how the memory stands: counts, index, what waits for a commit, problems."""
        from filemem.config import powermem_user
        from filemem.memory import telling

        settings = {"settings": trouble} if (trouble := powermem_user()[1]) else {}
        return self._read(lambda: {**telling.status(self._store), "degraded": self.degraded, **settings})

    @property
    def unbegun(self) -> str:
        """What to do where nothing was ever saved, or ""."""
        return "no memory here yet: filemem init, or just save" if self._store.absent else ""
