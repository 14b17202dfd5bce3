"""The memory as it was at a commit: the same facade over a store whose files are Git objects.

Rule: nothing of the work tree is read or touched. The index of a past state is the present one, brought there by
`rewinding`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from filemem.documents import Node
from filemem.errors import BadInput, NotFound
from filemem.files import MAX_SIZE, is_listed
from filemem.index import Index
from filemem.memory import Memory, moments, syncing, tombstones
from filemem.memory.batch import KEEP
from filemem.memory.rewinding import MANY, bring
from filemem.memory.saving import Saver
from filemem.memory.standing import Standing
from filemem.memory.store import Store
from filemem.repo.memo import Memo
from filemem.repo.revisions import Moment

KEPT = 3  # past memories that a process has open
NOWHEN = Moment("", "", 0)
_Answer = TypeVar("_Answer")


@dataclass
class AsOf(Store):
    """A store as a commit has it: `blobs` by path stand for the files."""

    moment: Moment = NOWHEN
    tree: str = ""
    blobs: Mapping[str, str] = field(default_factory=dict)
    marks: frozenset[str] = frozenset()  # of what was forgotten then
    beside: Path = Path()  # the index folder of the present, beside which history is remembered
    told: str = ""  # the commit whose past its index tells; the same as this one's
    _read_ahead: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def saver(self) -> Saver:
        """Nothing writes to the past."""
        refuse()

    @property
    def in_place(self) -> bool:
        """Whether its index is still there: others were asked about since, and it made room for theirs."""
        return self.index.sound and self.index.notes.head == self.told

    @property
    def tip(self) -> str:
        """That commit."""
        return self.moment.commit

    def committed(self) -> Mapping[str, str]:
        """Blob id by path of the records that the commit has."""
        return self.blobs

    @property
    def tombstones(self) -> frozenset[str]:
        """What was forgotten then; what was forgotten since was known."""
        return self.marks

    @property
    def branch(self) -> str:
        """A commit is on no branch in particular."""
        return ""

    def memo(self, name: str) -> Memo:
        """As the present has it: what Git says of commits is the same at any time."""
        return Memo(self.beside.parent / f"{name}-{self.beside.name}")

    def standing(self, nodes: Iterable[Node]) -> dict[str, Standing]:  # noqa: ARG002
        """Branches are as they are now; how they were then is not known."""
        return {}

    def refuse_missing(self) -> None:
        """A store that is not there now may have been there then."""

    def obstacle(self) -> str:
        """Objects can always be read."""
        return ""

    def astray(self) -> str:
        """The work tree is not asked."""
        return ""

    def bytes_of(self, path: str) -> bytes:
        """What a record held.

        Raises:
            NotFound: there was none.
            GitError: it is not here, as in a partial clone.
        """
        blob = self.blobs.get(path)
        data = None if blob is None else self._read_ahead.get(blob) or self.repo.blob(blob)
        if blob is not None and data is None:
            self.repo.revisions.refuse_absent([blob])
        if data is None or len(data) > MAX_SIZE:
            raise NotFound(f"there was no record {path}")
        return data

    def edited(self, path: str) -> bool:  # noqa: ARG002
        """What is committed has no further edits."""
        return False

    def read_ahead(self, paths: Collection[str]) -> None:
        """Read records at once that will be asked for; `()` lets go of them."""
        wanted = [self.blobs[path] for path in paths if path in self.blobs]
        if len(wanted) <= MANY:
            found = self.repo.objects.read_all(wanted)
            self._read_ahead = {one.oid: one.data for one in found if one.kind == "blob"}
        elif len(wanted) <= KEEP:
            self._read_ahead = self.repo.revisions.blobs(wanted)

    def close(self) -> None:
        """Release the index; the rest belongs to the present."""
        self.index.close()


class PastMemory(Memory):
    """The memory as it was at a commit. It answers; it takes nothing."""

    def __init__(self, present: Store, store: AsOf, moment: Moment) -> None:
        super().__init__(store)
        self.moment = moment
        self._present, self._past = present, store
        if not store.blobs:
            present.refuse_missing()

    def rebuild(self) -> syncing.Look:
        """Make the index of this state anew."""
        self._present.index.forget_then(self._past.tree)
        self._past.index = _index(self._present, self._past)
        return syncing.Look()

    def _follow(self, _patience: float) -> bool:
        """A past does not move."""
        return True

    def save(self, **_: Any) -> NoReturn:
        """Refused."""
        refuse()

    def resolve(self, topic: str, **_: Any) -> NoReturn:  # noqa: ARG002
        """Refused."""
        refuse()

    def update(self, id: str, **_: Any) -> NoReturn:  # noqa: A002, ARG002
        """Refused."""
        refuse()

    def delete(self, id: str, *, reason: str = "", agent: str = "") -> NoReturn:  # noqa: A002, ARG002
        """Refused."""
        refuse()

    @property
    def unbegun(self) -> str:
        """That there were no records, or ""."""
        return f"there were no records at {self.moment.name}" if not self._past.blobs else ""

    def _ask(self, question: Callable[[], _Answer]) -> _Answer:
        if not self._past.in_place:
            self.rebuild()
            self._gaps = self.degraded
        try:
            return super()._ask(question)
        except NotFound as error:
            hint = self.unbegun or error.hint or "it may have been saved later: leave `at` out"
            raise NotFound(f"at {self.moment.name}: {error.message}", hint) from None


def refuse() -> NoReturn:
    """Raise BadInput: the past cannot be changed."""
    raise BadInput("the memory of then cannot be changed", "leave `at` out", field="at")


def open_at(store: Store, text: object) -> PastMemory:
    """Open the memory as it was.

    Args:
        store: the present.
        text: a revision or a date, as `moments.find` reads it.

    Raises:
        BadInput, NotFound: as `moments.find` says.
        BrokenStore: the index folder cannot be written.
    """
    moment = moments.find(store, text)
    opened = store.pasts.pop(moment.commit, None)
    if not isinstance(opened, AsOf) or not opened.in_place:
        opened = _open(store, moment, store.repo.revisions.tree(moment.commit, store.files.store))
    store.pasts[moment.commit] = opened
    while len(store.pasts) > KEPT:
        store.pasts.pop(next(iter(store.pasts))).close()
    return PastMemory(store, opened, moment)


def _open(store: Store, moment: Moment, tree: str) -> AsOf:
    files = store.listing(store.repo.history_at(moment.commit)) if tree else {}
    blobs = {path: blob for path, blob in files.items() if is_listed(path)}
    marks = tombstones.at(store, moment.commit)
    shared = {each.name: getattr(store, each.name) for each in fields(Store) if each.init}
    own: dict[str, Any] = {"serving": False, "pasts": {}, "_related": {}}
    past = AsOf(
        **{**shared, **own}, moment=moment, tree=tree or "none", blobs=blobs, marks=marks, beside=store.index.root
    )
    past.clock = lambda: past.moment.at  # ages count from then
    past.index = _index(store, past)
    return past


def _index(store: Store, past: AsOf) -> Index:
    """The index of a past state; made from the present one where there is none, or where it tells of other commits."""

    def make(index: Index) -> None:
        past.index = index
        bring(store, past)

    found = store.index.then(past.tree, make)
    if past.blobs and not _same_past(past, found.notes.head):
        store.index.forget_then(past.tree)  # other commits came to the same files
        found = store.index.then(past.tree, make)
    past.told = found.notes.head
    return found


def _same_past(past: AsOf, other: str) -> bool:
    """Whether first commits, edits and names are at this commit what they were at another one with the same files."""
    here, at = past.moment.commit, past.repo.history_at
    if here == other:
        return True
    on_line = at(here).on_line(other) or at(other).on_line(here)  # else another may have landed first
    return on_line and not past.repo.history.first([past.files.store], f"{other}...{here}")
