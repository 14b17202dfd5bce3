"""The memory at a commit: the same questions, asked of a store whose files are Git objects.

Rule: the work tree is neither read nor changed, and nothing is written to disk. What differs at that commit is laid
over the present index, in memory, and only that is read and parsed. A server keeps the last one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from filemem.changes import Entry
from filemem.files import MAX_SIZE, is_listed
from filemem.index import Doc, document
from filemem.memory.snapshot import Moment, Snapshot, moment, of_commit
from filemem.memory.store import Store, mark_of
from filemem.record import Parsed, Record, parse

if TYPE_CHECKING:
    from filemem.memory import Memory


class PastStore(Store):
    """A store at the commit `at`."""

    branch = ""  # a commit is on no branch in particular
    absent = False
    tombstones = frozenset()  # the snapshot leaves out what was forgotten then

    def __init__(self, present: Store, snapshot: Snapshot, then: Moment) -> None:
        vars(self).update(vars(present), serving=False, tip=then.id, clock=lambda: then.at)
        self._present, self.listing, self.forgotten = present, snapshot.files, snapshot.forgotten
        sound = present.index.sound
        self.index = present.index.overlaid(self._layer, self.dates) if sound else self.from_files().index

    def _layer(self, known: Mapping[str, Entry]) -> dict[str, Doc | None]:
        """Documents that differ from the present index, built from `known`, by path; None for a removed one."""
        now, files = self._present, self.listing
        differing = {path for path, blob in files.items() if path not in known or known[path].blob != blob}
        if self.forgotten or now.tombstones:
            nodes = now.index.nodes()
            differing |= {node.path for node in nodes if mark_of(node.id) in self.forgotten} & files.keys()
            differing |= files.keys() - {node.path for node in nodes}  # hidden today, and perhaps not then
        gone = {path for path in known if path not in files}
        return dict.fromkeys(gone) | self._documents({path: files[path] for path in differing if is_listed(path)})

    def _documents(self, files: Mapping[str, str]) -> dict[str, Doc | None]:
        """The documents of some files by path, None for one that is not a record or was forgotten."""
        found = Snapshot(self._present, files, self.forgotten).records
        return {path: document(found[path], blob) if path in found else None for path, blob in files.items()}

    def from_files(self, most: int | None = None) -> Store:  # noqa: ARG002  a past is never built beside
        """Return the same store answering from the commit alone, for when the index cannot be used."""
        other = copy.copy(self)
        docs = self._documents({path: blob for path, blob in self.listing.items() if is_listed(path)})
        other.index = self._present.index.overlaid(lambda _: docs, self.dates, alone=True)
        return other

    def parsed(self, paths: Iterable[str]) -> Mapping[str, Parsed]:
        """Records of that commit as parsed, by path."""
        return Snapshot(self._present, {path: self.listing[path] for path in paths}).parsed

    def read(self, path: str) -> Parsed:
        """Read one record of that commit."""
        blob = self.listing.get(path)
        data = self.repo.blob(blob, MAX_SIZE) if blob else None
        return Parsed(None) if data is None else parse(data, path)

    def records(self, paths: Iterable[str]) -> Mapping[str, Record]:
        """The records of that commit."""
        known = self.index.records(paths := list(paths))
        found = {path: known[path][1] if path in known else self.read(path).record for path in paths}
        return {path: one for path, one in found.items() if one is not None}

    def edited(self, path: str) -> bool:  # noqa: ARG002
        """Committed records have no edits."""
        return False

    def obstacle(self) -> str:
        """Objects can always be read."""
        return ""

    def refuse_missing(self) -> None:
        """A store that is missing now may have existed then."""

    def close(self) -> None:
        """Close the index; the rest belongs to the present store."""
        self.index.close()


def at(store: Store, when: object, opened: Callable[[Store], Memory], last: Memory | None = None) -> Memory:
    """Open the memory at a commit: by `opened`, the class `Memory`, unless `last` is of the same commit.

    Raises BadInput and NotFound as `snapshot.moment`; BrokenStore: versions of records are missing.
    """
    then = moment(store, when)
    past = last if last and last.moment.id == then.id else opened(PastStore(store, of_commit(store, then.id), then))
    past.moment = then
    return past
