"""What `check` has found before: in texts by their blobs, and in whole states of the memory.

Rule: it is kept in the search index and nowhere else. Where there is none, none is made, and the
answers are the same. A change of any module of filemem makes all of it void.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from filemem.changes import blob_id
from filemem.errors import FilememError
from filemem.files import is_listed
from filemem.memory.snapshot import Snapshot
from filemem.memory.store import Store
from filemem.record import Parsed, Problem, lint, parse

_TOP = Path(__file__).parents[1]
_PASSING = "future-"  # how problems begin that end by themselves
_WHOLE = "whole"  # before the name of a state


@cache
def rules() -> str:
    """Return what is another word after any change of the code."""
    modules = sorted(_TOP.rglob("*.py"))
    return _digest(module.read_bytes() for module in modules)


def _digest(parts: Iterable[bytes]) -> str:
    return hashlib.sha1(b"\0".join(parts), usedforsecurity=False).hexdigest()


class Remembered:
    """What was found in one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._old: dict[str, str] | None = None  # what is wrong in a text, by its blob
        self._new: dict[str, str] = {}
        self._blobs: dict[str, str] = {}  # of the texts that were read, by path

    def lint(self, data: bytes, path: str) -> Parsed:
        """Read one record and say all that is wrong with it alone."""
        parsed = parse(data, path)
        if self._old is None:
            self._old = self._asked(rules())
        blob = self._blobs[path] = blob_id(data, self._store.repo.hash_name)
        if parsed.record is None or parsed.record.secrets_allowed:
            return lint.lint(data, path)
        rows = self._old.get(blob)
        if rows is None:
            rows = json.dumps([row[1:] for row in lint.in_text(path, data, parsed.record)])
            self._new[blob] = rows
        problems = (Problem(path, *row) for row in json.loads(rows))
        return parsed._replace(problems=(*parsed.problems, *problems))

    def problems(
        self, now: Snapshot, before: Snapshot | None, find: Callable[[], list[Problem]]
    ) -> list[Problem]:
        """Return what `find` does, from memory where nothing has changed that it asks."""
        name = f"{_WHOLE} {'base' if before else 'work tree'}"
        state = self._state(now, before)
        if rows := self._asked(state).get(name):
            return [Problem(*row) for row in json.loads(rows)]
        problems = find()
        self._note(rules(), self._new)
        passing = any(problem.code.startswith(_PASSING) for problem in problems)
        if not passing and (before or self._is_as_listed(now)):
            self._note(state, {name: json.dumps(problems)})
        return problems

    def _is_as_listed(self, now: Snapshot) -> bool:
        """Whether the files were read as they had been listed."""
        listed = {path: blob for path, blob in now.files.items() if is_listed(path)}
        return listed == self._blobs

    def _state(self, now: Snapshot, before: Snapshot | None) -> str:
        """Name all that the problems of a snapshot follow from."""
        store = self._store
        parts: list[object] = [
            rules(),
            store.name,
            store.words,
            store.synonyms,
            store.repo.boundary,
        ]
        parts += [store.repo.head(), store.code.head(), store.repo.incomplete()]
        for snapshot in filter(None, (before, now)):
            parts += [sorted(snapshot.files.items()), sorted(snapshot.forgotten), snapshot.tips]
            parts += [snapshot.skipped, sorted(snapshot.untracked), snapshot.conflicts]
        return _digest(repr(part).encode("utf-8", "surrogatepass") for part in parts)

    def _asked(self, state: str) -> dict[str, str]:
        with suppress(FilememError):
            return self._store.index.checked(state)
        return {}

    def _note(self, state: str, values: dict[str, str]) -> None:
        with suppress(FilememError):  # what is not kept is found again
            self._store.index.note_checked(state, values)
