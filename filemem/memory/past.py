"""The memory as it was at a commit: the same questions, asked of a store whose files are Git objects.

Rule: nothing of the work tree is read or touched, and nothing is kept on disk: the records of that commit are read,
indexed in memory and asked. A server keeps the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from filemem.errors import BadInput, NotFound
from filemem.index import Index, document, embedder
from filemem.memory.snapshot import Moment, Snapshot, moment, of_commit
from filemem.memory.store import Store
from filemem.record import Parsed, Record

_WRITES = frozenset(
    "adopt delete purge_command rebuild refresh resolve restore save sync update".split()  # noqa: SIM905
)


class PastStore(Store):
    """A store as a commit has it.

    Args:
        present: the store that is there now.
        snapshot: the records of the commit.
        then: the commit.
    """

    branch = ""  # a commit is on no branch in particular
    absent = False
    tombstones = frozenset()  # the snapshot has left out what was forgotten then

    def __init__(self, present: Store, snapshot: Snapshot, then: Moment) -> None:
        vars(self).update(vars(present), serving=False, tip=then.id, clock=lambda: then.at)
        self._snapshot = snapshot
        docs = [document(one, snapshot.files[path]) for path, one in snapshot.records.items()]
        model = embedder(self.config.model, download=self.config.download)
        self.index = Index.in_memory(docs, model, self.dates, vectors_from=present.index)

    def read(self, path: str) -> Parsed:
        """Read one record of then."""
        return self._snapshot.parsed.get(path, Parsed(None))

    def records(self, paths: Iterable[str]) -> Mapping[str, Record]:
        """The records of then."""
        return {path: self._snapshot.records[path] for path in paths}

    def edited(self, path: str) -> bool:  # noqa: ARG002
        """What is committed has no further edits."""
        return False

    def obstacle(self) -> str:
        """Objects can always be read."""
        return ""

    def refuse_missing(self) -> None:
        """A store that is not there now may have been there then."""

    def close(self) -> None:
        """Release the index; the rest belongs to the present."""
        self.index.close()


class PastMemory:
    """The memory as it was. It answers what a `Memory` answers, and refuses what would change it.

    Args:
        memory: one over a `PastStore`.
        then: the commit.
        empty: whether there were no records.
    """

    def __init__(self, memory: Any, then: Moment, *, empty: bool = False) -> None:
        self.moment = then
        self._memory, self._empty = memory, empty

    def __getattr__(self, name: str) -> Any:
        if name in _WRITES:
            return _refuse
        found = getattr(self._memory, name)
        return partial(self._asked, found) if callable(found) else found

    def _asked(self, question: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        try:
            return question(*arguments, **named)
        except NotFound as error:
            none = f"there were no records at {self.moment.name}" if self._empty else ""
            hint = none or error.hint or "it may have been saved later: leave `at` out"
            raise NotFound(f"at {self.moment.name}: {error.message}", hint) from None


def at(store: Store, when: object, opened: Callable[[Store], Any], last: PastMemory | None = None) -> PastMemory:
    """Open the memory as it was.

    Args:
        store: the present.
        when: a revision, a date or an age, as `snapshot.moment` reads it.
        opened: makes a memory of a store: the class `Memory`.
        last: the one opened before, which is used again for the same commit.

    Raises:
        BadInput, NotFound: as `snapshot.moment` says.
        BrokenStore: the repository lacks versions of records.
    """
    then = moment(store, when)
    if last is not None and last.moment.id == then.id:
        return PastMemory(last._memory, then, empty=last._empty)
    past = PastStore(store, of_commit(store, then.id), then)
    return PastMemory(opened(past), then, empty=not past.index.count())


def _refuse(*_: object, **__: object) -> None:
    raise BadInput("the memory of then cannot be changed", "leave `at` out", field="at")
