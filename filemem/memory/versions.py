"""Which record each version of a file is: by the id that it states, found out once for each blob, and remembered.

Rule: a version that states no id is the record of its file, known by the path that this had first. Where the file was
removed, what comes to its name later is the same by its bytes or the words of its heading, else another. One that
cannot be read here (a partial clone has not all of them) is taken for what stood there before and after.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from filemem.files import is_record
from filemem.memory.store import Store
from filemem.record import Parsed, derived_id, heading_key, namesake, parse, stated_id
from filemem.record.revising import damage
from filemem.record.saying import merge_says_otherwise, says_already
from filemem.repo.git import PROMISED, GitError

_IDS = "ids"  # the memo: a line `blob id` each, the id left out where none is stated
_FEW = 64  # blobs that are read anew rather than looked up among all
_AT_ONCE = 2_000  # blobs
_NAMESAKES = 9  # files that began under one name, by whose ids one may be stated


@dataclass
class Versions:
    """The versions of the records of one store, as `filemem.repo.walking` asks about them: paths from the top.

    Args:
        store: the parts.
    """

    store: Store
    unknown: set[str] = field(default_factory=set)  # paths of versions that were asked about and are not here
    _ids: dict[str, str | None] = field(default_factory=dict)  # blob -> id, None where it is not here

    def know(self, blobs: Iterable[str]) -> None:
        """Find out about versions that will be asked about, many at once."""
        wanted = {blob for blob in blobs if blob.strip("0")} - self._ids.keys()
        if len(wanted) > _FEW:
            self._ids |= self._remembered()
        new = wanted - self._ids.keys()
        try:
            found = self._read(new)
        except GitError as error:
            if PROMISED not in error.stderr:
                raise
            absent = self.store.history.absent(self.store.files.store)
            self._ids |= dict.fromkeys(absent & new)
            found = self._read(new - absent)
        self._ids |= found
        if len(found) > _FEW:
            lines = "".join(f"{blob} {one}\n" for blob, one in found.items())
            self.store.memo(_IDS).append(lines.encode("utf-8", "surrogatepass"))

    def stated(self, path: str, blob: str) -> str:
        """The id that a version at a path states; "" for none, or where that cannot be known."""
        return self._stated(path, blob) or ""

    def __call__(self, first_path: str, before: str, after: str) -> bool:
        """Whether two versions of the file that was first at a path are one record; also where that cannot be known."""
        if before == after:
            return True
        ids = {self._stated(first_path, blob) for blob in (before, after)}
        if len(ids) < 2 or None in ids:
            return True
        if "" not in ids:
            return False
        inside = self.store.files.inside(first_path)
        return not ids.isdisjoint(derived_id(namesake(inside, nth)) for nth in range(1, _NAMESAKES + 1))

    def returns(self, first_path: str, before: str, after: str) -> bool:
        """The same of a file that was removed, and of one that comes to its name later."""
        same = self(first_path, before, after)
        if before == after or not same or self._stated(first_path, after):
            return same
        was, now = self.store.repo.blob(before), self.store.repo.blob(after)
        return was is None or now is None or alike(first_path, was, now)

    def joins(self, path: str, sides: Sequence[str], merged: str) -> bool:
        """Whether a merge says nothing by itself in its version of a file, beside those that it joined.

        One that cannot be read here, or joins what cannot be, is taken to say something.
        """
        if merged in sides:
            return True
        data = [self.store.repo.blob(blob) for blob in (*sides, merged)]
        *had, now = [parse(each, path) if each is not None else Parsed(None) for each in data]
        records = [one.record for one in had if one.record is not None]
        if now.record is None or len(records) < len(data) - 1:
            return False
        damaged = all(damage(one.problems, now.problems) for one in had)
        return not damaged and not merge_says_otherwise(records, now.record, anything=True)

    def includes(self, path: str, version: str, before: str, after: str) -> bool:
        """Whether a version of a file says already what changed from one to another; not where that cannot be read."""
        if version == after:
            return True
        data = [self.store.repo.blob(blob) for blob in (version, before, after)]
        records = [record for each in data if each is not None and (record := parse(each, path).record) is not None]
        return len(records) == len(data) and says_already(*records)

    def _stated(self, path: str, blob: str) -> str | None:
        """The same, None where it cannot be known."""
        if not is_record(posixpath.basename(path)):
            return ""
        if blob not in self._ids and blob.strip("0"):
            data = self.store.repo.blob(blob)
            self._ids[blob] = None if data is None else stated_id(data)
        if (found := self._ids.get(blob, "")) is None:
            self.unknown.add(path)
        return found

    def _read(self, blobs: Collection[str]) -> dict[str, str]:
        listed, found = sorted(blobs), dict[str, str]()
        for start in range(0, len(listed), _AT_ONCE):
            read = self.store.repo.revisions.blobs(listed[start : start + _AT_ONCE])
            found |= {blob: stated_id(data) for blob, data in read.items()}
        return found

    def _remembered(self) -> dict[str, str | None]:
        lines = self.store.memo(_IDS).read().decode("utf-8", "replace").split("\n")
        return {blob: one for blob, _, one in (line.partition(" ") for line in lines[:-1])}


def alike(path: str, before: bytes, after: bytes) -> bool:
    """Whether two texts without an id that had one name, the second after the first was gone, are one: by heading.

    Blanks, letter case and punctuation do not count: a heading is often mended on the way.
    """
    titles = {heading_key(record.title) for data in (before, after) if (record := parse(data, path).record) is not None}
    return len(titles) < 2
