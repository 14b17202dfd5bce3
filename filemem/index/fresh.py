"""The fresh folder: what was saved and is not yet in a generation, for every process to see at once.

Rule: an entry is one immutable file, written whole by rename; it is deleted only after a generation that holds it is
in use. So whoever lists the folder first and looks at the generation second misses nothing.
"""

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from filemem.changes import Entry
from filemem.documents import Doc
from filemem.index.folder import checked, prepare, replace_file, unchecked, unwritable
from filemem.index.pending import Pending

_FOLDER, _SUFFIX = "fresh", ".json"
_NAME = re.compile(rf"[0-9]{{20}}-[0-9a-f]{{8}}{re.escape(_SUFFIX)}")
_TICK = 20_000_000  # nanoseconds; a folder changed twice within it may show one time


class Item(NamedTuple):
    """One entry: a document put in place of any other of its path, or a path that is gone (`pending` is None)."""

    name: str
    path: str
    pending: Pending | None
    entry: Entry | None

    @property
    def saved(self) -> int:
        """When it was saved, in nanoseconds since 1970."""
        return int(self.name.partition("-")[0])


class Fresh:
    """The fresh folder of an index, as this process knows it.

    Args:
        root: the index folder.
        read: makes a pending record of a document.
        clock: nanoseconds since 1970.
    """

    def __init__(self, root: Path, read: Callable[[Doc], Pending], clock: Callable[[], int] = time.time_ns) -> None:
        self._root, self._folder = root, root / _FOLDER
        self._read, self._clock = read, clock
        self._seen: tuple[int, bool] = (-1, False)  # time of the folder, and whether it was old enough to be trusted
        self._items: dict[str, Item] = {}
        self._last = 0

    def push(self, path: str, doc: Doc | None, entry: Entry | None) -> None:
        """Add an entry.

        Raises:
            BrokenStore: the index folder can not be written.
        """
        said = {"path": path, "doc": doc and doc._asdict(), "entry": entry and entry._asdict()}
        newest = max((int(name.partition("-")[0]) for name in self._items), default=0)
        self._last = max(self._clock(), self._last + 1, newest + 1)
        name = f"{self._last:020d}-{os.urandom(4).hex()}{_SUFFIX}"
        try:
            prepare(self._root)
            self._folder.mkdir(exist_ok=True)
            replace_file(self._folder / name, checked(said))
        except OSError as error:
            raise unwritable(self._root, error) from error

    def refresh(self) -> bool:
        """Look at the folder; say whether anything came or went."""
        try:
            changed = self._folder.stat().st_mtime_ns
            if self._seen == (changed, True):
                return False
            settled = self._clock() - changed > _TICK
            names = {name for name in os.listdir(self._folder) if _NAME.fullmatch(name)}
        except (FileNotFoundError, NotADirectoryError):
            gone, self._items, self._seen = bool(self._items), {}, (-1, False)
            return gone
        same = names == self._items.keys()
        if not same:
            known = self._items
            loaded = (known.get(name) or self._load(name) for name in sorted(names))
            self._items = {item.name: item for item in loaded if item is not None}
        self._seen = (changed, settled)
        return not same

    def items(self) -> tuple[Item, ...]:
        """Return the entries as of the last refresh, oldest first."""
        return tuple(self._items.values())

    def forget(self, items: Iterable[Item]) -> None:
        """Delete entries that a generation in use holds."""
        for item in items:
            with contextlib.suppress(IsADirectoryError):
                (self._folder / item.name).unlink(missing_ok=True)
        self._seen = (-1, False)

    def _load(self, name: str) -> Item | None:
        """Read an entry; None where it was just folded. One that is damaged shows nothing: the
        file itself is still there, and the next look at the store finds it."""
        try:
            found = unchecked((self._folder / name).read_bytes())
        except FileNotFoundError:
            return None
        except OSError:
            return Item(name, "", None, None)
        if found is None:
            return Item(name, "", None, None)
        doc = _doc(found["doc"]) if found["doc"] else None
        entry = Entry(**found["entry"]) if found["entry"] else None
        return Item(name, found["path"], self._read(doc) if doc else None, entry)


def latest(items: Iterable[Item]) -> dict[str, Item]:
    """Return the last word on each path."""
    return {item.path: item for item in items if item.path}


def _doc(found: Mapping[str, object]) -> Doc:
    terms: Mapping[str, list[str]] = found["terms"]  # type: ignore[assignment]  # as `asdict` wrote it
    passages: list[str] = found["passages"]  # type: ignore[assignment]
    plain = {**found, "terms": {name: tuple(values) for name, values in terms.items()}, "passages": tuple(passages)}
    return Doc(**plain)  # type: ignore[arg-type]
