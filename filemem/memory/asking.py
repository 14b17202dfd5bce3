"""What is asked of a memory: search, whole records, chains, the past of code, how the memory stands.

Rule: one question at a time is at work. A search is most of what is asked, often by a process that ends with it: every
other question imports its own module, as the commands of `cli` do.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filemem.errors import BadInput, NotFound
from filemem.memory import arguments, claimed, searching
from filemem.memory.hits import present
from filemem.memory.keeping import Kept
from filemem.memory.restrictions import restrictions_of
from filemem.memory.store import Progress, Store
from filemem.query import Hit, Name, Results
from filemem.record import Problem, number

if TYPE_CHECKING:
    from filemem.memory.values import Comparison, History, Revision, Topic, Why

MOST_HITS, MOST_PASSED = 1_000, 1_000_000
_LARGEST = 10**20  # number that a tool may pass on
MODES = ("hybrid", "keyword", "vector")


class Asked(Kept):
    """A store that answers."""

    def __init__(self, store: Store, progress: Progress | None = None) -> None:
        super().__init__(store, progress)
        self._numbers: dict[int, str] = {}  # what numbers stood for when last asked for

    @property
    def work_tree(self) -> Path:
        """The top folder of the work tree, to which the paths of hits are relative."""
        return self._store.code.work_tree

    @property
    def folder(self) -> Path:
        """The folder of records."""
        return self._store.folder

    def now(self) -> int:
        """The time in epoch milliseconds."""
        return self._store.clock()

    @property
    def unbegun(self) -> str:
        """What to do where nothing was ever saved, or nothing is here and records stand in another folder; or ""."""
        from filemem.memory import elsewhere

        return self._ask(lambda: elsewhere.unbegun(self._store))

    def numbered(self, wanted: int) -> str:
        """Return the id of the record that a number stands for, as `filemem.record.number` makes it.

        Raises:
            NotFound: no record's id makes this number.
        """
        arguments.whole("number", wanted, 0, _LARGEST)
        if wanted not in self._numbers:
            self._numbers = self._ask(lambda: {number(node.id): node.id for node in self._store.nodes()})
        if wanted not in self._numbers:
            raise NotFound(f"no record has the number {wanted}", self.unbegun or "search lists what there is")
        return self._numbers[wanted]

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
            from filemem.memory import places

            # Who governs a file governs each line of it.
            named, _ = places.named(self._store, wanted.path)
            path, _ = places.led(self._store, named)
            wanted = wanted._replace(path=path, earlier=(named,) if path != named else ())
        text = arguments.text("query", query)
        how: dict[str, Any] = {
            "limit": arguments.whole("limit", limit, 1, MOST_HITS),
            "offset": arguments.whole("offset", offset, 0, MOST_PASSED),
            "mode": arguments.one_of(MODES)("mode", mode),
            "recency": arguments.flag("recency", recency),
        }
        found = self._read(lambda: self._told(searching.search(self._store, text, wanted, **how), bool(wanted.path)))
        parts = (found.degraded, self.lacked)
        trouble = parts[1] if parts[0] in parts[1] else "; ".join(filter(None, parts))
        return Results(found.hits, trouble, found.note)

    def _told(self, found: Results, governing_path: bool) -> Results:
        """Results with what Git says of the code; asked of Git only where the question was about code."""
        store, kept = self._store, () if governing_path else claimed.known(self._store)
        if not (governing_path or kept):
            return found
        from filemem.memory import governing

        hits = governing.added(store, found.hits) if governing_path else governing.hinted(store, found.hits, kept)
        return replace(found, hits=hits)

    def get(self, *ids: str) -> tuple[Hit, ...]:
        """Return whole records by id, unique start of a short id, path, file name, number or title.

        Raises:
            BadInput: no id given.
            NotFound: one that does not exist.
        """
        if not ids:
            raise BadInput("no id given", "give id or ids", field="ids")
        from filemem.memory import finding, governing

        store = self._store
        return self._read(lambda: governing.added(store, present(store, [finding.find(store, one) for one in ids])))

    def history(self, topic_or_id: str) -> History:
        """Tell how a topic was decided, oldest first.

        Raises:
            NotFound: neither a topic nor a decision.
        """
        from filemem.memory import history

        named = arguments.line("topic", topic_or_id)
        return self._read(lambda: history.history(self._store, named))

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

        asked: dict[str, Any] = {"depth_before": depth_before, "depth_after": depth_after}
        for name, depth in asked.items():
            arguments.whole(name, depth, 0, MOST_HITS)
        asked |= {"anchor": arguments.line("anchor", anchor), "query": arguments.text("query", query)}
        return self._read(lambda: telling.timeline(self._store, **asked))

    def latest_checkpoint(self, branch: str = "") -> tuple[Hit, str] | None:
        """Return the checkpoint to go on from, and a note where it is another branch's or author's."""
        from filemem.memory import telling

        named = arguments.line("branch", branch)
        return self._read(lambda: telling.latest_checkpoint(self._store, named))

    def topics(self, prefix: str = "") -> tuple[Topic, ...]:
        """List topics with what holds today; `prefix` is any part of a topic's name or of the title of what holds."""
        from filemem.memory import telling

        part = arguments.line("prefix", prefix)
        return self._read(lambda: telling.topics(self._store, part))

    def topic_keys(self, part: str = "") -> tuple[str, ...]:
        """The topics, as their identities, that have these words in them; those with the most decisions first."""
        from filemem.memory import telling

        said = arguments.line("part", part)
        return self._ask(lambda: telling.topic_keys(self._store, said))

    def decision_ids(self, part: str = "") -> tuple[str, ...]:
        """The ids of the newest decisions that have these characters in their id or title."""
        from filemem.memory import telling

        said = arguments.line("part", part)
        return self._ask(lambda: telling.decision_ids(self._store, said))

    def names(self, ids: Collection[str]) -> dict[str, Name]:
        """Title and path of records by id; ids that no record has are left out."""
        wanted, store = arguments.each("ids", ids), self._store
        return self._ask(lambda: {n.id: Name(n.title, store.shown(n.path)) for n in store.lookup("id", wanted)})

    def edited(self, hit: Hit) -> bool:
        """Whether a hit's file has changes that are not committed, so that its commit does not tell all of it."""
        if not isinstance(hit, Hit):
            raise BadInput(f"hit must be one that an answer holds, not {arguments.shown(hit)}", field="hit")
        path = self._store.asked(hit.path)
        with self._lock:
            return bool(hit.provenance.commit) and self._store.edited(path)

    def why(self, path: str, *, limit: int = 10) -> Why:
        """Tell which decisions a file rests on: those that govern it, those whose commits made it, the nearest.

        Args:
            path: from the top of the work tree; `PATH:LINE` for a line, `PATH:FIRST-LAST` for several.
            limit: 1 to 1,000 decisions.

        Raises:
            BadInput: the path lies outside the work tree, or has no such lines.
            NotFound: there is no such file, and no decision speaks of it.
        """
        from filemem.memory import why

        asked, most = arguments.path("path", path), arguments.whole("limit", limit, 1, MOST_HITS)
        return self._read(lambda: why.why(self._store, asked, most))

    def check(self, *paths: str, base: str = "", drift: bool = False) -> tuple[int, tuple[Problem, ...]]:
        """Read every record and say what is wrong.

        Args:
            paths: report only these files or folders.
            base: report only what changed since this branch left that revision.
            drift: tell also of governed code that changed but is not largely rewritten, as hints.

        Raises:
            Conflict: this branch has no history in common with `base`.
            NotFound: a path that holds no record, or no such revision.
        """
        from filemem.memory import checking

        named, since = arguments.each("paths", paths, arguments.path), arguments.line("base", base)
        tell = arguments.flag("drift", drift)
        with self._lock:
            self._store.refuse_missing()
            return checking.check(self._store, named, since, drift=tell)

    def status(self) -> dict[str, Any]:
        """Say how the memory stands: counts, index, what waits for a commit, problems."""
        from filemem.config.others import powermem_user
        from filemem.memory import telling

        settings = {"settings": trouble} if (trouble := powermem_user()[1]) else {}
        return self._read(
            lambda: {
                **telling.status(self._store, behind=bool(self.trouble)),
                "degraded": "; ".join(filter(None, (self.degraded, self.lacks_meaning))),
                **settings,
            }
        )
