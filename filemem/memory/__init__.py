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
from filemem.memory.catch_up import WRITE_TIMEOUT, IndexKeeper, ReaderKeeper
from filemem.memory.store import Progress, Store
from filemem.query import Hit, RecordLabel, Results
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
        undo,
        update,
    )
    from filemem.memory.brief import Brief
    from filemem.memory.diff import Comparison
    from filemem.memory.guards import Violation
    from filemem.memory.history import History, Revision, Topics
    from filemem.memory.hits import SearchSource
    from filemem.memory.ingest import ImportResult, Item
    from filemem.memory.overview import Detail, Overview
    from filemem.memory.save import WriteResult
    from filemem.memory.snapshot import Moment
    from filemem.memory.sync import SyncResult
    from filemem.memory.why import Explanation
    from filemem.memory.workspace import Workspace
else:
    verbs = sys.modules[__name__]

__all__ = ["Hit", "Memory", "Results"]

MAX_HITS = 1_000
MAX_OFFSET = 1_000_000  # hits that an offset skips


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
        self.keeper = IndexKeeper(
            store, progress
        )  # answers from the index, and says how that stands
        self._store = store
        self.close_callbacks: list[Callable[[], None]] = []  # done before the parts are closed
        self._past_cache: list[Memory] = []  # the one opened last
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
        should_update: bool = True,
        is_long_running: bool = False,
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
        steps: list[Callable[[], object]] = [keeper.finish_saves]
        if should_update and not serving:
            steps.append(partial(keeper.ensure_current, WRITE_TIMEOUT, should_scan=True))
        for step in steps:
            try:
                step()
            except FilememError as error:  # what cannot be written can still be read
                keeper.trouble = error.one_line
        keeper.should_scan = is_long_running
        return memory

    def at(self, when: str) -> Memory:
        """The memory as it was at a commit, tag, branch, date or age. Raises BadInput, NotFound."""
        with self.keeper.lock:
            moment = verbs.snapshot.resolve_moment(self._store, when)
            if not self._past_cache or self._past_cache[0].moment.id != moment.id:
                store = self.keeper.store
                state = verbs.snapshot.read_commit(store, moment.id)
                self._past_cache[:] = [Memory(verbs.snapshot.PastStore(store, state, moment))]
            self._past_cache[0].moment = moment
            return self._past_cache[0].seen_by(self.reader)

    def seen_by(self, reader: Reader) -> Memory:
        """The same memory, asked by another reader; one that is not its owner's stays as it is."""
        if not self.reader.owner or reader == self.reader:
            return self
        other = copy(self)
        other.reader = reader
        other._store = self._store.copy_for_reader(reader)
        other.keeper = cast("IndexKeeper", ReaderKeeper(self.keeper, reader))
        other.personal = other.workspace = None
        return other

    def close(self) -> None:
        """Close everything."""
        for action in self.close_callbacks:
            action()
        with self.keeper.lock:
            for past in self._past_cache:
                past.close()
            self._store.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def degraded_reason(self) -> str:
        """Why answers may be incomplete, or ""."""
        return self.keeper.degraded_reason

    @property
    def lacks_meaning(self) -> str:
        """Why search by meaning is incomplete, and what to do about it, or ""."""
        return self._store.index.lacks_meaning

    def get_time(self) -> int:
        """The time in epoch milliseconds."""
        return self._store.clock()

    def refresh(self, *, full: bool = False, hints: Iterable[str] = ()) -> int:
        """Finish pending saves, and update the index; return how many files changed.

        Arguments as for `Keeper.refresh`.
        """
        fields.validate_flag("full", full)
        changed_count = self.keeper.refresh(
            full=full, hints=fields.validate_entries("hints", hints, fields.validate_path)
        )
        if full and self._store.serving and not self._store.repo.has_unfinished_saves:
            self._store.repo.objects.pack_loose_objects()
        return changed_count

    def free_caches(self) -> None:
        """Hold little in memory until the next question."""
        self._store.index.release_memory()

    def rebuild(self) -> int:
        """Rebuild the index from the files, and return how many; the old one answers until then."""
        self.keeper.refuse_past()
        return self.keeper.update_index(rebuild=True)

    def search(
        self,
        query: str = "",
        *,
        limit: int = config.HITS,
        offset: int = 0,
        mode: str = "hybrid",
        recency: bool = True,
        detail: bool = True,
        source: SearchSource | None = None,
        **restrictions: Any,
    ) -> Results:
        """Find records, best first, or the newest; arguments as for `search.search`."""
        criteria = verbs.search.parse_filter(restrictions, self.get_time())
        query_text = fields.validate_text("query", query)
        options: dict[str, Any] = {
            "limit": fields.validate_integer("limit", limit, 1, MAX_HITS),
            "offset": fields.validate_integer("offset", offset, 0, MAX_OFFSET),
            "mode": fields.build_choice_validator(verbs.search.MODES)("mode", mode),
            "recency": fields.validate_flag("recency", recency),
            "detail": fields.validate_flag("detail", detail),
        }
        results = self.keeper.read(
            lambda store: verbs.search.search(source or store, query_text, criteria, **options)
        )
        if criteria.path:
            results = results.replace(hits=self._add_evidence(results.hits))
        reasons = (*self.degraded_reason.split("; "), *results.degraded.split("; "))
        return results.replace(degraded="; ".join(dict.fromkeys(filter(None, reasons))))

    def _add_evidence(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        return self.keeper.ask(lambda store: verbs.evidence.add_evidence(store, hits))

    def list_similar(self, text: str, kind: str, count: int) -> list[tuple[Node, float]]:
        """The records of one type nearest in meaning to a text; arguments as for `search.alike`."""
        checked_text = fields.validate_text("text", text)
        type_ = str(fields.build_choice_validator(TYPES)("kind", kind))
        max_count = fields.validate_integer("count", count, 1, MAX_HITS)
        return self.keeper.ask(
            lambda store: verbs.search.find_similar(store, checked_text, type_, max_count)
        )

    def list_similar_for_each(
        self, texts: Collection[str], kind: str, count: int
    ) -> list[list[tuple[Node, float]]]:
        """`alike` for many texts at once; arguments as for `search.all_alike`."""
        checked_texts = fields.validate_entries("texts", texts, fields.validate_text)
        type_ = str(fields.build_choice_validator(TYPES)("kind", kind))
        max_count = fields.validate_integer("count", count, 1, MAX_HITS)
        return self.keeper.ask(
            lambda store: verbs.search.find_all_similar(store, checked_texts, type_, max_count)
        )

    def get(self, *ids: str) -> tuple[Hit, ...]:
        """Whole records, each by a name as `Store.find` takes it. Raises BadInput, NotFound."""
        if not ids:
            raise BadInput("no id given", "give id or ids", field="ids")
        hits = self.keeper.read(
            lambda store: verbs.hits.build_hits(store, map(store.require_node, ids))
        )
        return self._add_evidence(hits)

    def resolve_id(self, id: str) -> str:  # noqa: A002  the tools' word
        """The id of what a name means, or of what holds on a topic. Raises NotFound, Conflict."""
        return self.keeper.read(lambda store: store.resolve_name(id).node.id)

    def history(self, topic_or_id: str) -> History:
        """How a topic was decided, oldest first. Raises NotFound: no such topic or decision."""
        return self.keeper.read(
            lambda store: verbs.history.build_history(
                store, fields.validate_line("topic", topic_or_id)
            )
        )

    def revisions(self, *ids: str) -> dict[str, tuple[Revision, ...]]:
        """How records were edited in place, oldest first, by the id of each. Raises NotFound."""
        return self.keeper.read(lambda store: verbs.history.read_revisions(store, ids))

    def diff(self, between: str = "") -> Comparison:
        """What a branch changes in the memory; argument and errors as for `diff.compare`."""
        return self.keeper.read(lambda store: verbs.diff.compare_revisions(store, between))

    def timeline(
        self, *, anchor: str = "", query: str = "", depth_before: int = 5, depth_after: int = 5
    ) -> Results:
        """What was saved around a record, a time or a best hit. Raises BadInput, NotFound."""
        before = fields.validate_integer("depth_before", depth_before, 0, MAX_HITS)
        after = fields.validate_integer("depth_after", depth_after, 0, MAX_HITS)
        options: dict[str, Any] = {
            "anchor": fields.validate_line("anchor", anchor),
            "query": fields.validate_text("query", query),
            "depth_before": before,
            "depth_after": after,
        }
        return self.keeper.read(lambda store: verbs.history.build_timeline(store, **options))

    def latest_checkpoint(self, branch: str = "") -> tuple[Hit, str] | None:
        """The checkpoint to resume from, with a note if it is of another branch or author."""
        return self.keeper.read(
            lambda store: verbs.history.find_latest_checkpoint(
                store, fields.validate_line("branch", branch)
            )
        )

    def brief(self, budget: int = 800, *, paths: Collection[str] = ()) -> Brief:
        """What a session should know at its start, without a model; see `brief.brief`."""
        max_tokens = fields.validate_integer(
            "budget", budget, verbs.brief.MIN_TOKENS, verbs.brief.MAX_TOKENS
        )
        with self.keeper.lock:
            self._store.refuse_missing()
            files = map(
                self._store.validate_code_path,
                fields.validate_entries("paths", paths, fields.validate_path),
            )
            return verbs.brief.build_brief(self._store, max_tokens, list(files))

    def topics(self, prefix: str = "", *, limit: int = 50, offset: int = 0) -> Topics:
        """Topics that have these words in their name or title, and what holds on each."""
        checked_prefix = fields.validate_line("prefix", prefix)
        max_count = fields.validate_integer("limit", limit, 1, MAX_HITS)
        checked_offset = fields.validate_integer("offset", offset, 0, MAX_OFFSET)
        return self.keeper.read(
            lambda store: verbs.history.list_topics(
                store, checked_prefix, limit=max_count, offset=checked_offset
            )
        )

    def build_overview(self) -> Overview:
        """A row for each record that is meant for all who have the repository, oldest first."""
        return self.keeper.read(verbs.overview.build_overview)

    def read_details(self, *ids: str) -> tuple[Detail, ...]:
        """All that is known of records that are for all. Raises NotFound, for others too."""
        hits = self.get(*ids)
        return self.keeper.ask(lambda store: verbs.overview.list_details(store, hits))

    def find_names(self, ids: Collection[str]) -> dict[str, RecordLabel]:
        """Title and path of records by id; ids that no record has are left out."""
        checked_ids = fields.validate_entries("ids", ids)
        return self.keeper.ask(
            lambda s: {
                n.id: RecordLabel(n.title, s.to_display_path(n.path))
                for n in s.list_visible(checked_ids)
            }
        )

    def read_owners(self) -> dict[str, str]:
        """User, agent and run that are meant if a call names none.

        The environment or a `.env` of the work tree says so. A `.env` that Git tracks is a
        stranger's, and names nobody.
        """
        code = self._store.code
        with self.keeper.lock:
            names = config.read_powermem_names(code.work_tree / ".env")
            return (
                config.read_powermem_names(None) if names and code.read_staged([".env"]) else names
            )

    def find_shared_email(self) -> str:
        """The e-mail by which Git knows the user, if others read the repository; or ""."""
        code = self._store.code
        is_shared = any(
            key.startswith("remote.") and key.endswith(".url") for key in code.settings.values
        )
        with self.keeper.lock, suppress(BadInput):  # Git knows none
            return code.require_identity()[0][1] if is_shared else ""
        return ""

    def is_edited(self, hit: Hit) -> bool:
        """Whether a hit's file has uncommitted changes, which its commit lacks."""
        with self.keeper.lock:
            return bool(hit.provenance.commit) and self._store.is_edited(
                self._store.to_store_path(hit.path)
            )

    def why(self, path: str, *, limit: int = config.HITS) -> Explanation:
        """The decisions behind a file, or `PATH:LINE`. Raises BadInput, NotFound."""
        max_count = fields.validate_integer("limit", limit, 1, MAX_HITS)
        return self.keeper.read(
            lambda store: verbs.why.explain_code(
                store, fields.validate_path("path", path), max_count
            )
        )

    def check(self, *paths: str, base: str = "") -> tuple[int, tuple[Problem, ...]]:
        """Check every record; arguments, answer and errors as for `check.check`."""
        checked_paths = fields.validate_entries("paths", paths, fields.validate_path)
        checked_base = fields.validate_line("base", base)
        with self.keeper.lock:
            self._store.refuse_missing()
            return verbs.check.check_records(self._store, checked_paths, checked_base)

    def check_code(self, base: str = "") -> tuple[int, list[Violation]]:
        """Match the guards of live decisions against tracked files. Errors as `guards.check`."""
        checked_base = fields.validate_line("base", base)
        with self.keeper.lock:
            self._store.refuse_missing()
            return verbs.guards.check_code(self._store, checked_base)

    def status(self) -> dict[str, Any]:
        """The state of the memory: counts, index, pending saves, problems."""
        is_behind = bool(self.keeper.trouble)
        state = self.keeper.read(
            lambda store: verbs.status.build_status(store, is_behind=is_behind)
        )
        owners = ", ".join(f"{name} {value}" for name, value in self.read_owners().items())
        if owners:
            state["owners"] = owners
        state["degraded"] = "; ".join(filter(None, (self.degraded_reason, self.lacks_meaning)))
        return state

    def save(self, **values: Any) -> WriteResult:
        """Save a decision, checkpoint or observation; errors as for `save.save`."""
        saved = self.keeper.write(lambda store: verbs.save.save(store, values))
        return self._add_guard_note(saved) if values.get("guards") else saved

    def _add_guard_note(self, saved: WriteResult) -> WriteResult:
        """Add to an answer where the code breaks the guards of its record as it is now."""
        with self.keeper.lock:
            note = verbs.guards.format_current_violations(self._store, saved.path)
        return saved._replace(note="; ".join(filter(None, (saved.note, note))))

    def resolve(self, topic: str, **values: Any) -> WriteResult:
        """End a fork by a decision that merges what holds. Raises NotFound, BadInput."""
        return self.keeper.write(lambda store: verbs.save.resolve_fork(store, topic, values))

    def update(self, id: str, **values: Any) -> WriteResult:  # noqa: A002  the tools' word
        """Append an outcome, or change fields in place; errors as for `update.update`."""
        saved = self.keeper.write(lambda store: verbs.update.update(store, id, values))
        return self._add_guard_note(saved) if values.get("guards") else saved

    def edit(self, id: str, data: bytes, before: bytes) -> WriteResult:  # noqa: A002
        """Replace a record's file with an edited version. Errors as for `update.edit`."""
        return self.keeper.write(lambda store: verbs.update.edit(store, id, data, before))

    def undo(self) -> WriteResult:
        """Undo the last save by a new commit. Raises as `undo.undo`."""
        return self.keeper.write(verbs.undo.undo)

    def adopt(self, files: Collection[str], was: str = "") -> tuple[WriteResult, ...]:
        """Write ids into files that state none; arguments and errors as for `update.adopt`."""
        checked_files = fields.validate_entries("files", files, fields.validate_path)
        former_name = fields.validate_line("was", was)
        return self.keeper.write(
            lambda store: verbs.update.adopt(store, checked_files, former_name)
        )

    def renumber(self, file: str) -> WriteResult:
        """Give a decision record the next free number; as `filemem.memory.renumber.renumber`."""
        checked_file = fields.validate_line("file", file)
        return self.keeper.write(lambda store: verbs.renumber.renumber(store, checked_file))

    def delete(
        self,
        id: str,  # noqa: A002
        *,
        reason: str = "",
        agent: str = "",
        allow_secret: bool = False,
    ) -> WriteResult:
        """Remove a record by a commit; only `restore` undoes that. Errors: `forget.delete`."""
        return self.keeper.write(
            lambda store: verbs.forget.delete(store, id, reason, agent, allow_secret=allow_secret)
        )

    def delete_several(self, ids: Iterable[str], *, reason: str = "", agent: str = "") -> int:
        """Remove some records by one commit; return how many. Errors as for `forget.delete`."""
        checked_ids = fields.validate_entries("ids", ids)
        return self.keeper.write(
            lambda store: verbs.forget.delete_several(store, checked_ids, reason, agent)
        )

    def restore(
        self,
        id: str,  # noqa: A002
        *,
        agent: str = "",
        allow_secret: bool = False,
    ) -> WriteResult:
        """Restore a deleted record. Errors as for `forget.restore`."""
        return self.keeper.write(
            lambda store: verbs.forget.restore(store, id, agent, allow_secret=allow_secret)
        )

    def purge_command(self, id: str) -> str:  # noqa: A002
        """The command that removes a record from Git's history. Runs nothing."""
        return self.keeper.read(lambda store: verbs.forget.build_purge_command(store, id))

    def ingest(
        self,
        items: Collection[Item],
        system: str,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ImportResult:
        """Bring in what another system remembers; arguments as for `ingest.ingest`."""
        all_items = tuple(items)
        name = fields.validate_line("system", system)
        options: dict[str, Any] = {
            "dry_run": fields.validate_flag("dry_run", dry_run),
            "progress": progress,
        }
        ingested = self.keeper.write(
            lambda store: verbs.ingest.ingest(store, all_items, name, **options)
        )
        if dry_run or not ingested.records:
            return ingested
        try:
            self.keeper.update_index()
            forked = self.keeper.ask(
                lambda store: store.list_forked_topics(store.index.read_nodes())
            )
        except (BrokenStore, Locked) as error:  # the next look finds the records
            reason = (
                f"{sum(ingested.records.values())} records are imported, but not searchable yet"
            )
            return ingested._replace(
                note="; ".join(filter(None, (ingested.note, reason, error.one_line)))
            )
        return ingested._replace(forked=forked)

    def records(self, *, private: bool = False) -> list[Record]:
        """Every record as its file stands now, oldest first; `private` ones if asked for."""
        include_private = fields.validate_flag("private", private)
        with self.keeper.lock:
            self._store.refuse_missing()
            return verbs.snapshot.list_all_records(self._store, include_private=include_private)

    def list_project_names(self) -> frozenset[str]:
        """What other systems may call this project."""
        return verbs.ingest.list_project_names(self._store)

    def sync(self) -> SyncResult:
        """Fetch, merge and push. Errors as for `filemem.memory.sync.sync`."""
        try:
            synced = verbs.sync.sync(self._store)
        finally:
            self.keeper.ensure_current(WRITE_TIMEOUT)
        return self.keeper.ask(lambda store: verbs.sync.add_forks(store, synced))
