"""What a reference meant when it was written, where its name has been several files' since.

Rule: a name means the file that had it in the commit that brought the reference to the record, as Git tells it. Where
that is not known (the reference is not committed yet, or history is cut off) it means the file that has the name today,
and one that had it once only where none has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

from filemem.documents import Birth, Node
from filemem.memory.origins import Takings, taken
from filemem.memory.store import Store
from filemem.record import (
    Record,
    ReferenceIndex,
    ambiguous,
    answering,
    names_of,
    parse,
    placed_reference,
    readings,
    reference_index,
)
from filemem.repo.lives import Revision


def once(store: Store, nodes: Iterable[Node], reference: str) -> tuple[str, ...]:
    """The ids of the records, some of them gone, whose files were the last to have a name that a reference may mean."""
    last = {node.birth.path: node.id for node in nodes if node.birth.path not in ("", node.path)}
    last |= {path: takings[-1][1] for path, takings in taken(store).items()}
    return answering(reference, (Record(id=owner, type="", path=path) for path, owner in last.items()))


def changed(before: Iterable[Node], after: Collection[Record], births: Mapping[str, Birth]) -> set[str]:
    """The names that some records took or gave up: what refers to one of them may mean another record now.

    Args:
        before: the records as they were.
        after: the same as they are, under the ids that are their own.
        births: their first commits as they are told now, by path.
    """
    had = {node.path: node for node in before}
    owned = _owned([bare(node) for node in had.values()], {path: node.birth for path, node in had.items()})
    return {name for name, *_ in owned ^ _owned(after, births)}


def at(paths: Iterable[str]) -> set[str]:
    """The names that a file at one of these paths has by its path."""
    return {name for path in paths for _, name in names_of(Record(id=path, type="", path=path))}


def bare(node: Node) -> Record:
    """A record as far as it has names."""
    return Record(id=node.id, type=node.type, path=node.path, title=node.title, number=node.number)


def _owned(records: Collection[Record], births: Mapping[str, Birth]) -> set[tuple[str, int, str, bool]]:
    """Each name with its strength, whose it is, and whether that is so today."""
    now = {(name, strength, one.id, True) for one in records for strength, name in names_of(one)}
    first = _first(records, births)
    return now | {(name, strength, one.id, False) for one in first for strength, name in names_of(one)}


def _first(records: Iterable[Record], births: Mapping[str, Birth]) -> Iterator[Record]:
    """The records whose files had another path first, under that."""
    for one in records:
        path = births.get(one.path, Birth()).path
        if path not in ("", one.path):
            yield Record(id=one.id, type="", path=path)


def _numbers(path: str) -> frozenset[str]:
    """The numbers that a file name gives a record."""
    return frozenset(name for _, name in names_of(Record(id=path, type="", path=path)) if name.startswith("#"))


class Names:
    """Resolves references by the names of some records, each as of its time.

    Args:
        store: the parts.
        records: what can be meant, under the ids that are their own.
        births: the first commits of the records that refer and of those that are meant, by path.
        takings: who had names that are others' now, where that was asked of Git already.
    """

    def __init__(
        self, store: Store, records: Iterable[Record], births: Mapping[str, Birth], takings: Takings | None = None
    ) -> None:
        self._store, self._births = store, births
        self._told = takings
        listed = list(records)
        self._had = {one.id: {one.path, births.get(one.path, Birth()).path} for one in listed}
        self._at = {one.path: one.id for one in listed}
        self._records, self._earlier = listed, list(_first(listed, births))
        self._index = reference_index(listed, self._earlier)
        self._logs: dict[str, list[tuple[str, frozenset[str]]]] = {}  # what each version refers to, newest first
        self._listed: dict[str, list[str]] = {}  # the files of commits

    def resolve(self, reference: str, path: str) -> str | None:
        """The id that a reference of the record at `path` means; None where nothing answers to it."""
        place, today = placed_reference(reference, self._index)
        if today == reference or not self._taken:
            return today
        number = next((one for one in readings(reference) if one[:1] == "#" and len(self._owners.get(one, ())) > 1), "")
        if number and (owner := self._numbered(number, reference, path)):
            return owner
        surer, name = placed_reference(reference, self._once)
        if surer < place:  # `decisions/e/a.md` is no `a.md` of today
            today = None
        if name is None or (today and name not in self._had[today]):
            return today
        owners = [owner for _, owner in self._taken[name]]
        if len({*owners, *([today] if today else ())}) < 2:
            return today or owners[0]
        written = self._written(reference, path)
        had = [owner for commit, owner in self._taken[name] if written and self._before(commit, written)]
        return had[-1] if had else today or owners[-1]

    def several(self, references: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
        """The ids of all that a reference may mean, where it is several; by a name of once where none has it today."""
        wanted = set(references)
        today = ambiguous(wanted, self._records)
        return {**ambiguous(wanted - today.keys(), self._earlier), **today}

    def _numbered(self, number: str, reference: str, path: str) -> str | None:
        """Whose file alone had a number when a reference by it was written; None where that is not known."""
        written = self._written(reference, path)
        if not written:
            return None
        if written not in self._listed:
            self._listed[written] = list(self._store.listing(self._store.repo.history_at(written)))
        had = [one for one in self._listed[written] if number in _numbers(one)]
        if len(had) != 1:
            return None
        owners = [owner for commit, owner in self._taken.get(had[0], ()) if self._before(commit, written)]
        return owners[-1] if owners else self._at.get(had[0])

    @cached_property
    def _owners(self) -> Mapping[str, set[str]]:
        """The ids of all whose files ever had a number, by number, as far as a file gave one up."""
        had = [(path, one) for one, paths in self._had.items() for path in paths]
        had += [(path, owner) for path, takings in self._taken.items() for _, owner in takings]
        found: dict[str, set[str]] = {}
        for path, owner in had:
            for number in _numbers(path):
                found.setdefault(number, set()).add(owner)
        return found

    @cached_property
    def _taken(self) -> Takings:
        return taken(self._store) if self._told is None else self._told

    @cached_property
    def _once(self) -> ReferenceIndex:
        """The names that files were renamed or removed from, each as the id of itself."""
        return reference_index(Record(id=path, type="", path=path) for path in self._taken)

    def _before(self, commit: str, other: str) -> bool:
        return commit == other or self._store.history.is_ancestor(commit, other)

    def _written(self, reference: str, path: str) -> str:
        """The commit that brought a reference to a record which states it today; "" where that is not known."""
        if path not in self._logs:
            birth, named = self._births.get(path, Birth()), self._store.files.named(path)
            log = self._store.history.logs({named: birth.commit}, self._store.versions())[named] if birth.commit else ()
            self._logs[path] = [(one.commit.id, self._stated(one)) for one in log]
        found = ""
        for commit, stated in self._logs[path]:
            if reference not in stated:
                break
            found = commit
        return found

    def _stated(self, version: Revision) -> frozenset[str]:
        """What a version of a record refers to, in its own words."""
        data = self._store.repo.blob(version.blob) if version.blob else None
        record = None if data is None else parse(data, self._store.files.inside(version.path)).record
        if record is None:
            return frozenset()
        return frozenset((*(record.supersedes or ()), *record.superseded_by, *(edge.target for edge in record.edges)))
