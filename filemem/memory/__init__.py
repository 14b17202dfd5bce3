"""The class `Memory`: the operations of filemem, for the command line, MCP, HTTP and Python.

Calls run one at a time. Scanning the files has a separate lock, so that a search does not wait
while an index is built. The module of an operation is imported at its first call, so that a search
imports only what it uses: `verbs.status` is the module `filemem.memory.status`, which `__getattr__`
imports.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from filemem import config
from filemem.errors import BadInput, BrokenStore, Locked
from filemem.memory import fields
from filemem.memory.catch_up import WRITE_TIMEOUT
from filemem.memory.opened import OpenMemory
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
    from filemem.memory.sync import SyncResult
    from filemem.memory.why import Explanation
    from filemem.memory.workspace import Workspace
else:
    verbs = sys.modules[__name__]

__all__ = ["Hit", "Memory", "Results"]

MAX_HITS = 1_000
MAX_OFFSET = 1_000_000  # hits that an offset skips


def __getattr__(name: str) -> Any:
    """Import the module of an operation at its first use."""
    if name.startswith("_"):
        raise AttributeError(name)
    return import_module(f"{__name__}.{name}")


class Memory(OpenMemory):
    """The memory of one Git work tree, safe to use from several threads."""

    # Open the user's own memory, or that of several repositories; None if not available.
    personal: Callable[[], Memory] | None = None
    workspace: Callable[[], Workspace] | None = None

    def at(self, when: str) -> Self:
        """Open the memory as it was at a commit, tag, branch, date or age.

        Raises BadInput, NotFound.
        """
        with self.keeper.lock:
            moment = verbs.snapshot.resolve_moment(self._store, when)
            if not self._past_cache or self._past_cache[0].moment.id != moment.id:
                store = self.keeper.store
                state = verbs.snapshot.read_commit(store, moment.id)
                past_store = verbs.snapshot.PastStore(store, state, moment)
                self._past_cache[:] = [type(self)(past_store)]
            past = self._past_cache[0]
            past.moment = moment
            return past.seen_by(self.reader)

    def seen_by(self, reader: Reader) -> Self:
        """Return this memory for another reader; only its owner's view can be changed."""
        other = super().seen_by(reader)
        if other is not self:
            other.personal = None
            other.workspace = None
        return other

    @property
    def degraded_reason(self) -> str:
        """Why answers may be incomplete, or ""."""
        return self.keeper.degraded_reason

    def get_time(self) -> int:
        """Return the time in epoch milliseconds."""
        return self._store.clock()

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
        reasons = self.degraded_reason.split("; ") + results.degraded.split("; ")
        return results.replace(degraded=_join_notes(dict.fromkeys(reasons)))

    def _add_evidence(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        return self.keeper.ask(verbs.evidence.add_evidence, hits)

    def list_similar(self, text: str, kind: str, count: int) -> list[tuple[Node, float]]:
        """List the records nearest in meaning; arguments as for `search.find_similar`."""
        checked_text = fields.validate_text("text", text)
        checked_kind = str(fields.build_choice_validator(TYPES)("kind", kind))
        max_count = fields.validate_integer("count", count, 1, MAX_HITS)
        return self.keeper.ask(verbs.search.find_similar, checked_text, checked_kind, max_count)

    def list_similar_for_each(
        self, texts: Collection[str], kind: str, count: int
    ) -> list[list[tuple[Node, float]]]:
        """Do `list_similar` for many texts; arguments as for `search.find_all_similar`."""
        checked_texts = fields.validate_entries("texts", texts, fields.validate_text)
        checked_kind = str(fields.build_choice_validator(TYPES)("kind", kind))
        max_count = fields.validate_integer("count", count, 1, MAX_HITS)
        return self.keeper.ask(
            verbs.search.find_all_similar, checked_texts, checked_kind, max_count
        )

    def get(self, *ids: str) -> tuple[Hit, ...]:
        """Return whole records, each by a name as `Store.resolve_name` reads it.

        Raises BadInput, NotFound.
        """
        if not ids:
            raise BadInput("no id given", "give id or ids", field="ids")

        def build_hits(store: Store) -> tuple[Hit, ...]:
            nodes = [store.require_node(name) for name in ids]
            return verbs.hits.build_hits(store, nodes)

        return self._add_evidence(self.keeper.read(build_hits))

    def resolve_id(self, id: str) -> str:  # noqa: A002  the tools' word
        """Return the id of a record by a name, or by a topic. Raises NotFound, Conflict."""
        return self.keeper.read(lambda store: store.resolve_name(id).node.id)

    def history(self, topic_or_id: str) -> History:
        """Return the decisions of a topic, oldest first. Raises NotFound, BadInput."""

        def build_history(store: Store) -> History:
            topic = fields.validate_line("topic", topic_or_id)
            return verbs.history.build_history(store, topic)

        return self.keeper.read(build_history)

    def revisions(self, *ids: str) -> dict[str, tuple[Revision, ...]]:
        """Return the edits of records in place, oldest first, by id. Raises NotFound."""
        return self.keeper.read(verbs.history.read_revisions, ids)

    def diff(self, between: str = "") -> Comparison:
        """Compare two commits; argument and errors as for `diff.compare_revisions`."""
        return self.keeper.read(verbs.diff.compare_revisions, between)

    def timeline(
        self, *, anchor: str = "", query: str = "", depth_before: int = 5, depth_after: int = 5
    ) -> Results:
        """List records saved around a record, a time or a best hit. Raises BadInput, NotFound."""
        before = fields.validate_integer("depth_before", depth_before, 0, MAX_HITS)
        after = fields.validate_integer("depth_after", depth_after, 0, MAX_HITS)
        return self.keeper.read(
            verbs.history.build_timeline,
            anchor=fields.validate_line("anchor", anchor),
            query=fields.validate_text("query", query),
            depth_before=before,
            depth_after=after,
        )

    def latest_checkpoint(self, branch: str = "") -> tuple[Hit, str] | None:
        """Find the checkpoint to resume from; None if there is none.

        A note says if it is of another branch or author.
        """

        def find_checkpoint(store: Store) -> tuple[Hit, str] | None:
            checked_branch = fields.validate_line("branch", branch)
            return verbs.history.find_latest_checkpoint(store, checked_branch)

        return self.keeper.read(find_checkpoint)

    def brief(self, budget: int = 800, *, paths: Collection[str] = ()) -> Brief:
        """Build the brief for the start of a session, without a model; see `build_brief`."""
        minimum = verbs.brief.MIN_TOKENS
        max_tokens = fields.validate_integer("budget", budget, minimum, verbs.brief.MAX_TOKENS)
        with self.keeper.lock:
            self._store.refuse_missing()
            checked_paths = fields.validate_entries("paths", paths, fields.validate_path)
            code_paths = [self._store.validate_code_path(path) for path in checked_paths]
            return verbs.brief.build_brief(self._store, max_tokens, code_paths)

    def topics(self, prefix: str = "", *, limit: int = 50, offset: int = 0) -> Topics:
        """List topics with these words in their name or title, and their live decisions."""
        return self.keeper.read(
            verbs.history.list_topics,
            fields.validate_line("prefix", prefix),
            limit=fields.validate_integer("limit", limit, 1, MAX_HITS),
            offset=fields.validate_integer("offset", offset, 0, MAX_OFFSET),
        )

    def build_overview(self) -> Overview:
        """Build a row for each record that all readers of the repository may see, oldest first."""
        return self.keeper.read(verbs.overview.build_overview)

    def read_details(self, *ids: str) -> tuple[Detail, ...]:
        """Read the details of records that all may see. Raises NotFound, for other records too."""
        hits = self.get(*ids)
        return self.keeper.ask(verbs.overview.list_details, hits)

    def find_names(self, ids: Collection[str]) -> dict[str, RecordLabel]:
        """Find title and path of records by id; unknown ids are left out."""
        checked_ids = fields.validate_entries("ids", ids)

        def find_labels(store: Store) -> dict[str, RecordLabel]:
            labels = {}
            for node in store.list_visible(checked_ids):
                path = store.to_display_path(node.path)
                labels[node.id] = RecordLabel(node.title, path)
            return labels

        return self.keeper.ask(find_labels)

    def read_owners(self) -> dict[str, str]:
        """Read the default user, agent and run from the environment or `.env` of the work tree.

        A `.env` that Git tracks may be by a stranger, and is ignored.
        """
        code = self._store.code
        with self.keeper.lock:
            names = config.read_powermem_names(code.work_tree / ".env")
            if names and code.read_staged([".env"]):
                return config.read_powermem_names(None)
            return names

    def find_shared_email(self) -> str:
        """Return the e-mail of the Git user if the repository has a remote; else ""."""
        code = self._store.code
        is_shared = any(
            key.startswith("remote.") and key.endswith(".url") for key in code.settings.values
        )
        if not is_shared:
            return ""
        with self.keeper.lock, suppress(BadInput):  # Git knows no user
            author = code.require_identity()[0]
            return author[1]
        return ""

    def is_edited(self, hit: Hit) -> bool:
        """Return whether a hit's file has uncommitted changes."""
        with self.keeper.lock:
            if not hit.provenance.commit:
                return False
            path = self._store.to_store_path(hit.path)
            return self._store.is_edited(path)

    def why(self, path: str, *, limit: int = config.HITS) -> Explanation:
        """Explain a file, or `PATH:LINE`, by decisions. Raises BadInput, NotFound."""
        max_count = fields.validate_integer("limit", limit, 1, MAX_HITS)

        def explain_code(store: Store) -> Explanation:
            checked_path = fields.validate_path("path", path)
            return verbs.why.explain_code(store, checked_path, max_count)

        return self.keeper.read(explain_code)

    def check(self, *paths: str, base: str = "") -> tuple[int, tuple[Problem, ...]]:
        """Check every record; arguments, answer and errors as for `check.check_records`."""
        checked_paths = fields.validate_entries("paths", paths, fields.validate_path)
        checked_base = fields.validate_line("base", base)
        with self.keeper.lock:
            self._store.refuse_missing()
            return verbs.check.check_records(self._store, checked_paths, checked_base)

    def check_code(self, base: str = "") -> tuple[int, list[Violation]]:
        """Match the guards of live decisions against tracked files; as `guards.check_code`."""
        checked_base = fields.validate_line("base", base)
        with self.keeper.lock:
            self._store.refuse_missing()
            return verbs.guards.check_code(self._store, checked_base)

    def status(self) -> dict[str, Any]:
        """Return the state of the memory: counts, index, pending saves, problems."""
        is_behind = bool(self.keeper.trouble)
        state = self.keeper.read(verbs.status.build_status, is_behind=is_behind)
        owners = [f"{name} {value}" for name, value in self.read_owners().items()]
        if owners:
            state["owners"] = ", ".join(owners)
        state["degraded"] = _join_notes([self.degraded_reason, self.lacks_meaning])
        return state

    def save(self, **values: Any) -> WriteResult:
        """Save a decision, checkpoint or observation; errors as for `save.save`."""
        saved = self.keeper.write(verbs.save.save, values)
        if values.get("guards"):
            return self._add_guard_note(saved)
        return saved

    def _add_guard_note(self, saved: WriteResult) -> WriteResult:
        """Add a note if the code breaks the guards of a saved record now."""
        with self.keeper.lock:
            note = verbs.guards.format_current_violations(self._store, saved.path)
        return saved._replace(note=_join_notes([saved.note, note]))

    def resolve(self, topic: str, **values: Any) -> WriteResult:
        """End a fork by a decision that merges the live ones. Raises NotFound, BadInput."""
        return self.keeper.write(verbs.save.resolve_fork, topic, values)

    def update(self, id: str, **values: Any) -> WriteResult:  # noqa: A002  the tools' word
        """Append an outcome, or change fields in place; errors as for `update.update`."""
        saved = self.keeper.write(verbs.update.update, id, values)
        if values.get("guards"):
            return self._add_guard_note(saved)
        return saved

    def edit(self, id: str, data: bytes, before: bytes) -> WriteResult:  # noqa: A002
        """Replace a record's file with an edited version. Errors as for `update.edit`."""
        return self.keeper.write(verbs.update.edit, id, data, before)

    def undo(self) -> WriteResult:
        """Undo the last save by a new commit. Raises as `undo.undo`."""
        return self.keeper.write(verbs.undo.undo)

    def adopt(self, files: Collection[str], was: str = "") -> tuple[WriteResult, ...]:
        """Write ids into files that state none; arguments and errors as for `update.adopt`."""
        checked_files = fields.validate_entries("files", files, fields.validate_path)
        former_name = fields.validate_line("was", was)
        return self.keeper.write(verbs.update.adopt, checked_files, former_name)

    def renumber(self, file: str) -> WriteResult:
        """Give a decision record the next free number; as `renumber.renumber`."""
        checked_file = fields.validate_line("file", file)
        return self.keeper.write(verbs.renumber.renumber, checked_file)

    def delete(
        self,
        id: str,  # noqa: A002
        *,
        reason: str = "",
        agent: str = "",
        allow_secret: bool = False,
    ) -> WriteResult:
        """Delete a record by a commit; only `restore` undoes that. Errors: `forget.delete`."""
        return self.keeper.write(
            verbs.forget.delete,
            id,
            reason,
            agent,
            allow_secret=allow_secret,
        )

    def delete_several(self, ids: Iterable[str], *, reason: str = "", agent: str = "") -> int:
        """Delete some records by one commit; return how many. Errors as for `forget.delete`."""
        checked_ids = fields.validate_entries("ids", ids)
        return self.keeper.write(verbs.forget.delete_several, checked_ids, reason, agent)

    def restore(
        self,
        id: str,  # noqa: A002
        *,
        agent: str = "",
        allow_secret: bool = False,
    ) -> WriteResult:
        """Restore a deleted record. Errors as for `forget.restore`."""
        return self.keeper.write(
            verbs.forget.restore,
            id,
            agent,
            allow_secret=allow_secret,
        )

    def purge_command(self, id: str) -> str:  # noqa: A002
        """Return the command that removes a record from Git's history. Runs nothing."""
        return self.keeper.read(verbs.forget.build_purge_command, id)

    def ingest(
        self,
        items: Collection[Item],
        system: str,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ImportResult:
        """Import the records of another system; arguments as for `ingest.ingest`."""
        all_items = tuple(items)
        name = fields.validate_line("system", system)
        is_dry = fields.validate_flag("dry_run", dry_run)
        ingested = self.keeper.write(
            verbs.ingest.ingest, all_items, name, dry_run=is_dry, progress=progress
        )
        if dry_run or not ingested.records:
            return ingested
        try:
            self.keeper.update_index()
            forked = self.keeper.ask(
                lambda store: store.list_forked_topics(store.index.read_nodes())
            )
        except (BrokenStore, Locked) as error:  # the next scan finds the records
            count = sum(ingested.records.values())
            reason = f"{count} records are imported, but not searchable yet"
            notes = [ingested.note, reason, error.one_line]
            return ingested._replace(note=_join_notes(notes))
        return ingested._replace(forked=forked)

    def records(self, *, private: bool = False) -> list[Record]:
        """Read every record from its file, oldest first; `private` includes private ones."""
        include_private = fields.validate_flag("private", private)
        with self.keeper.lock:
            self._store.refuse_missing()
            return verbs.snapshot.list_all_records(self._store, include_private=include_private)

    def list_project_names(self) -> frozenset[str]:
        """List names that other systems may use for this project."""
        return verbs.ingest.list_project_names(self._store)

    def sync(self) -> SyncResult:
        """Fetch, merge and push. Errors as for `filemem.memory.sync.sync`."""
        try:
            synced = verbs.sync.sync(self._store)
        finally:
            self.keeper.ensure_current(WRITE_TIMEOUT)
        return self.keeper.ask(verbs.sync.add_forks, synced)


def _join_notes(notes: Iterable[str]) -> str:
    """Join the notes that are not empty."""
    return "; ".join(note for note in notes if note)
