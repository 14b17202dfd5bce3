"""The search index of one work tree: derived, disposable, shared by processes. `Index` is all that others need.

Rule: it knows documents and nothing of records, files or Git; and it never answers "nothing" where the truth is
"broken": what it can not use raises `IndexDamaged`, what it lacks is told as `degraded`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from filemem.index import generation
from filemem.index.changing import Changing
from filemem.index.embed import BundledModel, ConfiguredModel, Embedder, ModelUnavailable, unavailable
from filemem.index.fresh import latest
from filemem.index.generation import Generation, IndexDamaged
from filemem.index.values import NOT_BUILT, Candidate, Found, Scope
from filemem.query import Filter, Terms

__all__ = ["NOT_BUILT", "Candidate", "Embedder", "Found", "Index", "IndexDamaged", "ModelUnavailable", "embedder"]

MANY_WAITING = 16  # saves that wait to be folded in; each costs a query a little
LONG_WAITING = 2 * 10**9  # nanoseconds; the same


def embedder(spec: str = "", download: bool = False) -> Embedder:
    """Return the embedder for a setting: the bundled model, or the named one.

    Args:
        spec: a folder or hub name of a model2vec model; empty for the bundled one.
        download: whether the network may be asked for a hub name.
    """
    return ConfiguredModel(spec, download) if spec else BundledModel()


class Index(Changing):
    """An index folder, open for questions and, where this process is the writer, for changes: see `Changing`."""

    @property
    def exists(self) -> bool:
        """Whether anything was ever built."""
        return self._now().generation is not None

    @property
    def empty(self) -> bool:
        """Whether it has no document."""
        return self._now().empty

    @property
    def sound(self) -> bool:
        """Whether something was built that can be read."""
        try:
            return self.exists
        except IndexDamaged:
            return False

    @property
    def stale(self) -> str:
        """Why the index should be rebuilt although it answers, or "": another model, records without vectors."""
        model, count = self._meaning.model, self.unembedded
        if model is None or not count:
            return ""
        if self.model in ("", model.name):
            return f"{count} record{'' if count == 1 else 's'} without vectors"
        return "made with another model than configured"

    @property
    def unembedded(self) -> int:
        """How many records have no vectors of the configured model."""
        current, model = self._now().generation, self._meaning.model
        if current is None or model is None:
            return 0
        return current.seal.missing if current.seal.model == model.name else current.seal.docs

    @property
    def outdated(self) -> bool:
        """Whether building anew would give vectors that are missing, or of another model; that model can be had."""
        return bool(self.stale) and not unavailable(self._meaning.model)

    @property
    def lacks_meaning(self) -> str:
        """Why nothing, or not everything, is found by meaning and what to do, or ""; asks the model."""
        return self._now().lacks_meaning()

    @property
    def model(self) -> str:
        """Name of the model that the vectors in use come from, or ""."""
        current = self._now().generation
        return current.seal.model if current else ""

    def pending(self) -> int:
        """Return how many saves wait to be folded in."""
        return len(self._now().items)

    @property
    def unreadable(self) -> bool:
        """Whether a save waits whose entry cannot be read: only a look at all files finds what it said."""
        return any(not item.path for item in self._now().items)

    def waiting(self) -> dict[str, str | None]:
        """Return what waits to be folded in: path -> blob id, None for what was removed."""
        last = latest(self._now().items)
        return {path: item.pending.doc.blob if item.pending else None for path, item in last.items()}

    @property
    def crowded(self) -> bool:
        """Whether what waits should be folded in now: it is much, or the first of it has waited for long."""
        items = self._now().items
        return len(items) >= MANY_WAITING or any(self._clock() - item.saved > LONG_WAITING for item in items[:1])

    def verify(self) -> list[str]:
        """Compare every file in use with its checksum; return what is wrong."""
        try:
            generation.load(self.root, _checked)
        except IndexDamaged as error:
            return [error.message]
        return []

    def rest(self) -> None:
        """Let go of memory that the next question can read again from the files."""
        self._current.rest()

    # at other times

    def then(self, tree: str, make: Callable[[Index], None]) -> Index:
        """Return the index of the store as it was in another state; made where there is none.

        Args:
            tree: what names the state: equal names mean equal files.
            make: brings an index that may hold the present state to that one.

        Raises:
            BrokenStore: the folder can not be written.
        """
        from filemem.index import past

        there = past.place(self.root, tree)
        if there.is_dir():
            past.used(self.root, tree)
            found = self._beside(there)
            if found.sound and found.model == self.model:
                return found
            past.forget(self.root, tree)
        head, aside = self.notes.head, past.begin(self.root)
        try:
            making = self._beside(aside)
            if making.exists:
                making.note(head=head)
            make(making)
            making.close()
            past.finish(self.root, aside, tree)
        finally:
            past.discard(aside)
        return self._beside(there)

    def _beside(self, folder: Path) -> Index:
        return Index(folder, self._meaning.model, self._clock)

    def forget_then(self, tree: str) -> None:
        """Remove the index of another state: it is damaged."""
        from filemem.index import past

        past.forget(self.root, tree)

    # questions

    def candidates(
        self,
        terms: Terms,
        wanted: Filter | None = None,
        depth: int = 100,
        *,
        mode: str = "hybrid",
        dead: Collection[str] = (),
        alive: Collection[str] = (),
        exclude_paths: Collection[str] = (),
        most: int | None = None,
    ) -> Found:
        """Return the best documents for a query, in no order: the best by words and the best by meaning.

        Args:
            terms: a parsed query.
            wanted: what every candidate must satisfy.
            depth: how many of each kind.
            mode: hybrid, keyword or vector.
            dead, alive: ids whose liveness the caller knows better; they count where `wanted.live`.
            exclude_paths: documents to leave out.
            most: return only this many, the best by words and meaning together.

        Raises:
            IndexDamaged: see `reset`.
        """
        scope = Scope(wanted or Filter(), frozenset(exclude_paths), frozenset(dead), frozenset(alive))
        return self._now().candidates(terms, scope, depth, mode, most)

    def newest(
        self,
        wanted: Filter | None = None,
        limit: int = 10,
        offset: int = 0,
        *,
        without: Terms | None = None,
        dead: Collection[str] = (),
        alive: Collection[str] = (),
        exclude_paths: Collection[str] = (),
    ) -> list[str]:
        """Return the nodes of the documents created last, newest first.

        Args:
            without: a query whose exclusions hold; it has no words of its own.
            wanted, limit, offset, dead, alive, exclude_paths: as for `candidates`.
        """
        scope = Scope(wanted or Filter(), frozenset(exclude_paths), frozenset(dead), frozenset(alive))
        return self._now().newest(scope, limit, offset, without)

    def count(self, wanted: Filter | None = None) -> int:
        """Return the number of documents that satisfy a filter."""
        return self._now().count(Scope(wanted or Filter()))

    def by_terms(self, wanted: Mapping[str, Collection[str]]) -> list[str]:
        """Return the nodes of all documents with one of the values in any of the fields (TERM_FIELDS, or "path")."""
        return self._now().by_terms(wanted)

    def by_prefix(self, field: str, prefix: str, limit: int = 20) -> list[str]:
        """Return the nodes of documents with a value that begins with `prefix`; at most `limit` values of them."""
        return self._now().by_prefix(field, prefix, limit)

    def terms(self, field: str, prefix: str = "") -> list[tuple[str, int]]:
        """Return (value, number of documents) of a field, in order."""
        return self._now().terms(field, prefix)

    def nodes(self) -> list[str]:
        """Return the nodes of all documents, newest first."""
        return self._now().nodes()

    def sealed_blobs(self, paths: Iterable[str]) -> dict[str, str]:
        """Return what these paths were folded in with: path -> blob id; those that are not there are left out."""
        return self._now().sealed_blobs(paths)

    def saves(self) -> frozenset[str]:
        """Return what names the entries that wait to be folded in now."""
        return frozenset(item.name for item in self._now().items)

    def pending_nodes(self) -> list[str]:
        """Return the nodes of what is saved and not yet folded in."""
        return [one.doc.node for one in self._now().pending]

    def removed_nodes(self) -> list[str]:
        """Return the nodes of records that were removed and are not yet taken out of the disk index."""
        return self._now().removed_nodes()

    def replaced_nodes(self) -> list[str]:
        """Return the nodes that the disk index still holds of records that were changed or removed since."""
        return self._now().replaced_nodes()


def _checked(current: Generation) -> Generation:
    current.check("")
    return current
