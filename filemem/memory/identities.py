"""Whose an id is where several files claim it: the file's that was there first.

Rule: first is what landed first, told by the ancestry of commits alone. A commit may bear any date and a record may
state any; neither takes an id away from a file that has it. Two files claim one id where they state the same, and where
a file without an id stands under a name that another had before it. Of two that one commit began (a branch renamed the
record after its squash landed), the one has it that came to this branch first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import Conflict
from filemem.record import surrogate_id

if TYPE_CHECKING:
    from filemem.documents import Birth, Node
    from filemem.files import Files
    from filemem.memory.store import Store
    from filemem.record import Record
    from filemem.repo.history import History

    _Telling = Callable[[History, Collection[str]], Iterable[str]]

WHOSE = "which file had it first is not known here"
_BRING = "git fetch --unshallow (or --refetch --no-filter), then call again"


class Landing(NamedTuple):
    """Tells what landed first: in the first of some histories that has it; what is in none comes last.

    Args:
        files: of the store.
        histories: to be asked, one after another.
    """

    files: Files
    histories: tuple[History, ...]

    def commits(self, commits: Collection[str]) -> dict[str, int]:
        """The place of each of some commits, earlier ones first."""
        return self._places(commits, lambda history, left: history.landed(left))

    def stood(self, paths: Collection[str]) -> dict[str, int]:
        """The place of each of some files of the store; of those that came at once by their names."""

        def told(history: History, left: Collection[str]) -> list[str]:
            came = history.stood(self.files.store)
            inside = {path: came[named] for path in left if (named := self.files.named(path)) in came}
            return sorted(inside, key=lambda path: (inside[path], path))

        return self._places(paths, told)

    def _places(self, asked: Collection[str], told: _Telling) -> dict[str, int]:
        found: dict[str, int] = {}
        for history in self.histories:
            for one in told(history, set(asked) - found.keys()):
                found[one] = len(found)
        return found


def landing(store: Store, *histories: History) -> Landing:
    """What tells who was first in some histories of a store."""
    return Landing(store.files, histories)


class Claim(NamedTuple):
    """A file that has an id: its path, its first commit ("" where there is none yet), when it says it was made."""

    id: str
    path: str
    commit: str
    created: int

    @classmethod
    def of(cls, record: Record, birth: Birth) -> Claim:
        """What a record claims that was just read."""
        return cls(record.id, record.path, birth.commit, record.created or 0)

    @classmethod
    def by(cls, node: Node) -> Claim:
        """What a record claims that is indexed by the id it has."""
        return cls(node.id, node.path, node.birth.commit, node.created)


def known_as(claims: Iterable[Claim], landing: Landing) -> dict[str, str]:
    """Return the id by which each file is known, by path: its own, or a surrogate where that is another's.

    Args:
        claims: every file's.
        landing: asked only where an id is claimed twice.
    """
    listed = list(claims)
    owner = owners(listed, landing)
    return {one.path: one.id if owner[one.id] == one.path else surrogate_id(one.path) for one in listed}


def owners(claims: Iterable[Claim], landing: Landing) -> dict[str, str]:
    """Return the path of the file that each id belongs to.

    Args:
        claims: every file's.
        landing: asked only where an id is claimed twice.
    """
    by_id: dict[str, list[Claim]] = {}
    for claim in claims:
        by_id.setdefault(claim.id, []).append(claim)
    contested = [claim for several in by_id.values() if len(several) > 1 for claim in several if claim.commit]
    commits = {claim.commit for claim in contested}
    order = landing.commits(commits) if len(commits) > 1 else {}
    begun = Counter((claim.id, claim.commit) for claim in contested)
    tied = {claim.path for claim in contested if begun[claim.id, claim.commit] > 1}
    came = landing.stood(tied) if tied else {}

    def age(claim: Claim) -> tuple[bool, int, int, str]:
        """What is committed is older than what is not; what came at once is told apart by path."""
        if not claim.commit:
            return True, 0, claim.created, claim.path
        return False, order.get(claim.commit, len(order)), came.get(claim.path, len(came)), claim.path

    return {each: min(several, key=age).path for each, several in by_id.items()}


def rivals(store: Store, node: Node) -> list[Node]:
    """The records that claim the id of another and would have it if that one were gone, the next one first."""
    claims = {}
    for other in store.lookup("open", ["id"]):
        record = store.read(other.path, other.birth.name).record
        if record is not None and record.id == node.id and other.path != node.path:
            claims[other.path] = Claim.of(record, other.birth)
    first = owners(claims.values(), landing(store, store.history)) if claims else {}
    return store.lookup("path", list(first.values())) if first else []


def refuse_unknown(store: Store, node: Node) -> None:
    """Refuse to write down an id that is only this clone's: of a file that states none, where history is cut.

    Such a file is known by its first name, and by another one in a full clone if it was ever moved: what is written
    here of it (a tombstone, an edge) would mean another record there.

    Raises:
        Conflict: says what brings the rest of history.
    """
    refuse_contested(store, node)
    record = store.read(node.path, node.birth.name).record if node.birth.unseen else None
    if record and not record.id_stated:
        cut = "states no id, and history is cut, so under which name it came first is not known here"
        raise Conflict(f"{store.shown(node.path)} {cut}", _BRING)


def refuse_contested(store: Store, node: Node) -> None:
    """Refuse to change the record of an id that several files state where history is cut: it may be another's.

    Raises:
        Conflict: says what brings the rest of history.
    """
    if told := unsettled(store, [node]).get(node.path):
        raise Conflict(told, _BRING)


def unsettled(store: Store, nodes: Iterable[Node]) -> dict[str, str]:
    """Say of records which other files claim their id, where history is cut, so that nobody knows who was first.

    Args:
        store: the parts.
        nodes: the records.

    Returns:
        In words, by path; nothing for all others.
    """
    asked = [node for node in nodes if node.birth.unseen]
    claims: dict[str, list[str]] = {}
    for node in store.lookup("open", ["id"] if asked else []):
        record = store.read(node.path, node.birth.name).record if node.birth.unseen else None
        if record is not None:
            claims.setdefault(record.id, []).append(node.path)
    for node in store.lookup("id", claims):
        if node.birth.unseen:
            claims[node.id].insert(0, node.path)
    claimed = {path: (one, paths) for one, paths in claims.items() for path in paths if len(paths) > 1}
    told = {}
    for node in asked:
        one, paths = claimed.get(node.path, ("", []))
        others = ", ".join(store.shown(path) for path in paths if path != node.path)
        if others:
            told[node.path] = f"{others} claims the id {one} too: {WHOSE}"
    return told
