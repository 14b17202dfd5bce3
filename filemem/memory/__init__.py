"""The facade: everything filemem does, once, for the command line, MCP, HTTP and Python alike.

Calls run one at a time. Looking at the files has its own lock, so that a search does not wait
while an index is built. A verb is imported when it is first called, so that a one-shot search
imports only what it uses: `verbs.status` is the module `filemem.memory.status`, which `__getattr__`
imports.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from copy import copy
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from filemem import config
from filemem.errors import BadInput, BrokenStore, FilememError, Locked
from filemem.memory import fields
from filemem.memory.catch_up import LONG, Answering, Keeper
from filemem.memory.store import Progress, Store
from filemem.query import Hit, Name, Results
from filemem.record import TYPES, Problem, Record
from filemem.record.visibility import Reader

if TYPE_CHECKING:
    import filemem.memory as verbs
    from filemem.index import Node
    from filemem.memory import (  # noqa: F401
        brief,
        check,
        evidence,
        failures,
        forget,
        guards,
        hits,
        ingest,
        renumber,
        ruled,
        search,
        snapshot,
        status,
        touched,
        update,
    )
    from filemem.memory.brief import Brief
    from filemem.memory.diff import Comparison
    from filemem.memory.guards import Broken
    from filemem.memory.history import History, Revision, Topics
    from filemem.memory.hits import Place
    from filemem.memory.ingest import Ingested, Item
    from filemem.memory.overview import Detail, Overview
    from filemem.memory.save import Saved
    from filemem.memory.snapshot import Moment
    from filemem.memory.sync import Synced
    from filemem.memory.why import Why
    from filemem.memory.workspace import Workspace
else:
    verbs = sys.modules[__name__]

__all__ = ["Hit", "Memory", "Results"]

MOST_HITS = 1_000
MOST_PASSED = 1_000_000  # hits that an offset skips


def __getattr__(name: str) -> Any:
    """Import the module of a verb at its first use."""
    if name.startswith("_"):
        raise AttributeError(name)
    return import_module(f"{__name__}.{name}")


class Memory:
    """The memory of one Git work tree, safe to use from several threads."""

    moment: Moment  # of one that `at` returns: the commit that it is as of

    def __init__(self, store: Store, progress: Progress | None = None) -> None:
        self.work_tree = store.code.work_tree  # to which the paths of hits are relative
        self.folder = store.folder  # of the records
        self.agent = store.config.agent  # who saves where a save does not say; may be empty
        self.reader = store.reader  # who asks
        self.keeper = Keeper(store, progress)  # answers from the index, and says how that stands
        self._store = store
        self.closing: list[Callable[[], None]] = []  # done before the parts are closed
        self._past: list[Memory] = []  # the one opened last
        self.personal: Callable[[], Memory] | None = (
            None  # opens the user's own, if it may be asked
        )
        self.workspace: Callable[[], Workspace] | None = None  # with other repositories, likewise
        self.stated_user = ""  # whose memories a save makes if it does not say; "": as configured

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
        """Open the memory that a folder belongs to.

        It finishes what a crash left, and catches up with the files. `folder`, `store`: as for
        `Store`, errors too; `serving`: a watcher will keep the index in step; `progress`: called
        with (records done, records in all); `look`: update the index first, else only methods that
        read files may be called; `stays`: check the files again before later calls, for a program
        without a watcher.
        """
        memory = cls(Store(folder, store, serving=serving), progress)
        keeper = memory.keeper
        steps: list[Callable[[], object]] = [keeper.finish]
        if look and not serving:
            steps.append(partial(keeper.in_step, LONG, looks=True))
        for step in steps:
            try:
                step()
            except FilememError as error:  # what cannot be written can still be read
                keeper.trouble = error.one_line
        keeper.looks = stays
        return memory

    def at(self, when: str) -> Memory:
        """The memory as it was at a commit, tag, branch, date or age. Raises BadInput, NotFound."""
        with self.keeper.lock:
            then = verbs.snapshot.moment(self._store, when)
            if not self._past or self._past[0].moment.id != then.id:
                store = self.keeper.store
                state = verbs.snapshot.of_commit(store, then.id)
                self._past[:] = [Memory(verbs.snapshot.PastStore(store, state, then))]
            self._past[0].moment = then
            return self._past[0].seen_by(self.reader)

    def seen_by(self, reader: Reader) -> Memory:
        """The same memory, asked by another reader; one that is not its owner's stays as it is."""
        if not self.reader.owner or reader == self.reader:
            return self
        other = copy(self)
        other.reader = reader
        other._store = self._store.seen_by(reader)
        other.keeper = cast("Keeper", Answering(self.keeper, reader))
        other.personal = other.workspace = None
        return other

    def close(self) -> None:
        """Close everything."""
        for action in self.closing:
            action()
        with self.keeper.lock:
            for past in self._past:
                past.close()
            self._store.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def lacked(self) -> str:
        """Why answers may be incomplete, or ""."""
        return self.keeper.degraded

    @property
    def lacks_meaning(self) -> str:
        """Why search by meaning is incomplete, and what to do about it, or ""."""
        return self._store.index.lacks_meaning

    def now(self) -> int:
        """The time in epoch milliseconds."""
        return self._store.clock()

    def refresh(self, *, full: bool = False, hints: Iterable[str] = ()) -> int:
        """Finish pending saves, and update the index; return how many files changed.

        Arguments as for `Keeper.refresh`.
        """
        fields.flag("full", full)
        changed = self.keeper.refresh(full=full, hints=fields.entries("hints", hints, fields.path))
        if full and self._store.serving and not self._store.repo.unfinished:
            self._store.repo.objects.maintain()
        return changed

    def rest(self) -> None:
        """Hold little in memory until the next question."""
        self._store.index.rest()

    def rebuild(self) -> int:
        """Rebuild the index from the files, and return how many; the old one answers until then."""
        self.keeper.refuse_past()
        return self.keeper.look(anew=True)

    def search(
        self,
        query: str = "",
        *,
        limit: int = config.HITS,
        offset: int = 0,
        mode: str = "hybrid",
        recency: bool = True,
        detail: bool = True,
        among: Place | None = None,
        **restrictions: Any,
    ) -> Results:
        """Find records, best first, or the newest; arguments as for `search.search`."""
        wanted = verbs.search.filter_of(restrictions, self.now())
        words = fields.text("query", query)
        how: dict[str, Any] = {
            "limit": fields.whole("limit", limit, 1, MOST_HITS),
            "offset": fields.whole("offset", offset, 0, MOST_PASSED),
            "mode": fields.one_of(verbs.search.MODES)("mode", mode),
            "recency": fields.flag("recency", recency),
            "detail": fields.flag("detail", detail),
        }
        results = self.keeper.read(
            lambda store: verbs.search.search(among or store, words, wanted, **how)
        )
        if wanted.path:
            results = results.replace(hits=self._with_code(results.hits))
        reasons = (*self.lacked.split("; "), *results.degraded.split("; "))
        return results.replace(degraded="; ".join(dict.fromkeys(filter(None, reasons))))

    def _with_code(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        return self.keeper.ask(lambda store: verbs.evidence.with_code(store, hits))

    def alike(self, text: str, kind: str, count: int) -> list[tuple[Node, float]]:
        """The records of one type nearest in meaning to a text; arguments as for `search.alike`."""
        wanted = fields.text("text", text)
        type_ = str(fields.one_of(TYPES)("kind", kind))
        most = fields.whole("count", count, 1, MOST_HITS)
        return self.keeper.ask(lambda store: verbs.search.alike(store, wanted, type_, most))

    def all_alike(
        self, texts: Collection[str], kind: str, count: int
    ) -> list[list[tuple[Node, float]]]:
        """`alike` for many texts at once; arguments as for `search.all_alike`."""
        wanted = fields.entries("texts", texts, fields.text)
        type_ = str(fields.one_of(TYPES)("kind", kind))
        most = fields.whole("count", count, 1, MOST_HITS)
        return self.keeper.ask(lambda store: verbs.search.all_alike(store, wanted, type_, most))

    def get(self, *ids: str) -> tuple[Hit, ...]:
        """Whole records, each by a name as `Store.find` takes it. Raises BadInput, NotFound."""
        if not ids:
            raise BadInput("no id given", "give id or ids", field="ids")
        hits = self.keeper.read(lambda store: verbs.hits.present(store, map(store.find, ids)))
        return self._with_code(hits)

    def id_of(self, id: str) -> str:  # noqa: A002  the tools' word
        """The id of what a name means, or of what holds on a topic. Raises NotFound, Conflict."""
        return self.keeper.read(lambda store: store.named(id).node.id)

    def history(self, topic_or_id: str) -> History:
        """How a topic was decided, oldest first. Raises NotFound: no such topic or decision."""
        return self.keeper.read(
            lambda store: verbs.history.history(store, fields.line("topic", topic_or_id))
        )

    def revisions(self, *ids: str) -> dict[str, tuple[Revision, ...]]:
        """How records were edited in place, oldest first, by the id of each. Raises NotFound."""
        return self.keeper.read(lambda store: verbs.history.revisions(store, ids))

    def diff(self, between: str = "") -> Comparison:
        """What a branch changes in the memory; argument and errors as for `diff.compare`."""
        return self.keeper.read(lambda store: verbs.diff.compare(store, between))

    def timeline(
        self, *, anchor: str = "", query: str = "", depth_before: int = 5, depth_after: int = 5
    ) -> Results:
        """What was saved around a record, a time or a best hit. Raises BadInput, NotFound."""
        before = fields.whole("depth_before", depth_before, 0, MOST_HITS)
        after = fields.whole("depth_after", depth_after, 0, MOST_HITS)
        how: dict[str, Any] = {
            "anchor": fields.line("anchor", anchor),
            "query": fields.text("query", query),
            "depth_before": before,
            "depth_after": after,
        }
        return self.keeper.read(lambda store: verbs.history.timeline(store, **how))

    def latest_checkpoint(self, branch: str = "") -> tuple[Hit, str] | None:
        """The checkpoint to resume from, with a note if it is of another branch or author."""
        return self.keeper.read(
            lambda store: verbs.history.latest_checkpoint(store, fields.line("branch", branch))
        )

    def brief(self, budget: int = 800, *, paths: Collection[str] = ()) -> Brief:
        """What a session should know at its start, without a model; see `brief.brief`."""
        most = fields.whole("budget", budget, verbs.brief.LEAST, verbs.brief.MOST)
        with self.keeper.lock:
            self._store.refuse_missing()
            files = map(self._store.of_code, fields.entries("paths", paths, fields.path))
            return verbs.brief.brief(self._store, most, list(files))

    def topics(self, prefix: str = "", *, limit: int = 50, offset: int = 0) -> Topics:
        """Topics that have these words in their name or title, and what holds on each."""
        words = fields.line("prefix", prefix)
        most = fields.whole("limit", limit, 1, MOST_HITS)
        skip = fields.whole("offset", offset, 0, MOST_PASSED)
        return self.keeper.read(
            lambda store: verbs.history.topics(store, words, limit=most, offset=skip)
        )

    def overview(self) -> Overview:
        """A row for each record that is meant for all who have the repository, oldest first."""
        return self.keeper.read(verbs.overview.overview)

    def details(self, *ids: str) -> tuple[Detail, ...]:
        """All that is known of records that are for all. Raises NotFound, for others too."""
        hits = self.get(*ids)
        return self.keeper.ask(lambda store: verbs.overview.details(store, hits))

    def names(self, ids: Collection[str]) -> dict[str, Name]:
        """Title and path of records by id; ids that no record has are left out."""
        wanted = fields.entries("ids", ids)
        return self.keeper.ask(
            lambda s: {n.id: Name(n.title, s.display_path(n.path)) for n in s.visible(wanted)}
        )

    def owners(self) -> dict[str, str]:
        """User, agent and run that are meant if a call names none.

        The environment or a `.env` of the work tree says so. A `.env` that Git tracks is a
        stranger's, and names nobody.
        """
        code = self._store.code
        with self.keeper.lock:
            names = config.powermem_names(code.work_tree / ".env")
            return config.powermem_names(None) if names and code.staged([".env"]) else names

    def sharer(self) -> str:
        """The e-mail by which Git knows the user, if others read the repository; or ""."""
        code = self._store.code
        shared = any(
            key.startswith("remote.") and key.endswith(".url") for key in code.settings.values
        )
        with self.keeper.lock, suppress(BadInput):  # Git knows none
            return code.identity()[0][1] if shared else ""
        return ""

    def edited(self, hit: Hit) -> bool:
        """Whether a hit's file has uncommitted changes, which its commit lacks."""
        with self.keeper.lock:
            return bool(hit.provenance.commit) and self._store.edited(
                self._store.store_path(hit.path)
            )

    def why(self, path: str, *, limit: int = config.HITS) -> Why:
        """The decisions behind a file, or `PATH:LINE`. Raises BadInput, NotFound."""
        most = fields.whole("limit", limit, 1, MOST_HITS)
        return self.keeper.read(lambda store: verbs.why.why(store, fields.path("path", path), most))

    def check(self, *paths: str, base: str = "") -> tuple[int, tuple[Problem, ...]]:
        """Check every record; arguments, answer and errors as for `check.check`."""
        named = fields.entries("paths", paths, fields.path)
        since = fields.line("base", base)
        with self.keeper.lock:
            self._store.refuse_missing()
            return verbs.check.check(self._store, named, since)

    def check_code(self, base: str = "") -> tuple[int, list[Broken]]:
        """Match the guards of live decisions against tracked files. Errors as `guards.check`."""
        since = fields.line("base", base)
        with self.keeper.lock:
            self._store.refuse_missing()
            return verbs.guards.check(self._store, since)

    def status(self) -> dict[str, Any]:
        """The state of the memory: counts, index, pending saves, problems."""
        behind = bool(self.keeper.trouble)
        state = self.keeper.read(lambda store: verbs.status.status(store, behind=behind))
        owners = ", ".join(f"{name} {value}" for name, value in self.owners().items())
        if owners:
            state["owners"] = owners
        state["degraded"] = "; ".join(filter(None, (self.lacked, self.lacks_meaning)))
        return state

    def save(self, **values: Any) -> Saved:
        """Save a decision, checkpoint or observation; errors as for `save.save`."""
        done = self.keeper.write(lambda store: verbs.save.save(store, values))
        return self._matched(done) if values.get("guards") else done

    def _matched(self, done: Saved) -> Saved:
        """Add to an answer where the code breaks the guards of its record as it is now."""
        with self.keeper.lock:
            note = verbs.guards.already(self._store, done.path)
        return done._replace(note="; ".join(filter(None, (done.note, note))))

    def resolve(self, topic: str, **values: Any) -> Saved:
        """End a fork by a decision that merges what holds. Raises NotFound, BadInput."""
        return self.keeper.write(lambda store: verbs.save.resolve(store, topic, values))

    def update(self, id: str, **values: Any) -> Saved:  # noqa: A002  the tools' word
        """Append an outcome, or change fields in place; errors as for `update.update`."""
        done = self.keeper.write(lambda store: verbs.update.update(store, id, values))
        return self._matched(done) if values.get("guards") else done

    def edit(self, id: str, data: bytes, before: bytes) -> Saved:  # noqa: A002
        """Replace a record's file with an edited version. Errors as for `update.edit`."""
        return self.keeper.write(lambda store: verbs.update.edit(store, id, data, before))

    def undo(self) -> Saved:
        """Take back the last save by a new commit. Errors as for `forget.undo`."""
        return self.keeper.write(verbs.forget.undo)

    def adopt(self, files: Collection[str], was: str = "") -> tuple[Saved, ...]:
        """Write ids into files that state none; arguments and errors as for `update.adopt`."""
        named = fields.entries("files", files, fields.path)
        former = fields.line("was", was)
        return self.keeper.write(lambda store: verbs.update.adopt(store, named, former))

    def renumber(self, file: str) -> Saved:
        """Give a decision record the next free number; as `filemem.memory.renumber.renumber`."""
        wanted = fields.line("file", file)
        return self.keeper.write(lambda store: verbs.renumber.renumber(store, wanted))

    def delete(
        self,
        id: str,  # noqa: A002
        *,
        reason: str = "",
        agent: str = "",
        allow_secret: bool = False,
    ) -> Saved:
        """Remove a record by a commit; only `restore` undoes that. Errors: `forget.delete`."""
        return self.keeper.write(
            lambda store: verbs.forget.delete(store, id, reason, agent, allow_secret=allow_secret)
        )

    def delete_several(self, ids: Iterable[str], *, reason: str = "", agent: str = "") -> int:
        """Remove some records by one commit; return how many. Errors as for `forget.delete`."""
        wanted = fields.entries("ids", ids)
        return self.keeper.write(
            lambda store: verbs.forget.delete_several(store, wanted, reason, agent)
        )

    def restore(
        self,
        id: str,  # noqa: A002
        *,
        agent: str = "",
        allow_secret: bool = False,
    ) -> Saved:
        """Restore a deleted record. Errors as for `forget.restore`."""
        return self.keeper.write(
            lambda store: verbs.forget.restore(store, id, agent, allow_secret=allow_secret)
        )

    def purge_command(self, id: str) -> str:  # noqa: A002
        """The command that removes a record from Git's history. Runs nothing."""
        return self.keeper.read(lambda store: verbs.forget.purge_command(store, id))

    def ingest(
        self,
        items: Collection[Item],
        system: str,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Ingested:
        """Bring in what another system remembers; arguments as for `ingest.ingest`."""
        every = tuple(items)
        name = fields.line("system", system)
        how: dict[str, Any] = {"dry_run": fields.flag("dry_run", dry_run), "progress": progress}
        done = self.keeper.write(lambda store: verbs.ingest.ingest(store, every, name, **how))
        if dry_run or not done.records:
            return done
        try:
            self.keeper.look()
            forked = self.keeper.ask(lambda store: store.forked(store.index.nodes()))
        except (BrokenStore, Locked) as error:  # the next look finds the records
            why = f"{sum(done.records.values())} records are imported, but not searchable yet"
            return done._replace(note="; ".join(filter(None, (done.note, why, error.one_line))))
        return done._replace(forked=forked)

    def records(self, *, private: bool = False) -> list[Record]:
        """Every record as its file stands now, oldest first; `private` ones if asked for."""
        every = fields.flag("private", private)
        with self.keeper.lock:
            self._store.refuse_missing()
            return verbs.snapshot.everything(self._store, private=every)

    def project_names(self) -> frozenset[str]:
        """What other systems may call this project."""
        return verbs.ingest.names(self._store)

    def sync(self) -> Synced:
        """Fetch, merge and push. Errors as for `filemem.memory.sync.sync`."""
        try:
            done = verbs.sync.sync(self._store)
        finally:
            self.keeper.in_step(LONG)
        return self.keeper.ask(lambda store: verbs.sync.forks(store, done))
