"""A cache of the problems that `check` finds, by blob for texts, and for states of the memory.

It is kept in the search index and nowhere else; without an index nothing is cached. A change of any
module of filemem invalidates all of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from filemem.changes import compute_blob_id
from filemem.errors import FilememError
from filemem.files import is_listed
from filemem.memory.snapshot import Snapshot
from filemem.memory.store import Store
from filemem.record import ParsedRecord, Problem, lint, parse_record

_PACKAGE_FOLDER = Path(__file__).parents[1]
_TRANSIENT_PREFIX = "future-"  # of problems that end by themselves
_STATE_PREFIX = "whole"  # of the name of a state


@cache
def compute_code_digest() -> str:
    """Return a digest of all modules of filemem."""
    modules = sorted(_PACKAGE_FOLDER.rglob("*.py"))
    return _compute_digest(module.read_bytes() for module in modules)


def _compute_digest(parts: Iterable[bytes]) -> str:
    return hashlib.sha1(b"\0".join(parts), usedforsecurity=False).hexdigest()


class CheckCache:
    """The cached problems of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cached_rows: dict[str, str] | None = None  # problems of a text as JSON, by blob
        self._new_rows: dict[str, str] = {}
        self._blobs: dict[str, str] = {}  # blobs of the texts that were read, by path

    def lint(self, data: bytes, path: str) -> ParsedRecord:
        """Read one record and find its own problems."""
        parsed = parse_record(data, path)
        if self._cached_rows is None:
            self._cached_rows = self._read_cached(compute_code_digest())
        blob = compute_blob_id(data, self._store.repo.hash_name)
        self._blobs[path] = blob
        record = parsed.record
        if record is None or record.secrets_allowed:
            return lint.lint_record(data, path)
        rows = self._cached_rows.get(blob)
        if rows is None:
            rows = _dump_rows(lint.check_text(path, data, record))
            self._new_rows[blob] = rows
        problems = [Problem(path, *row) for row in json.loads(rows)]
        return parsed._replace(problems=(*parsed.problems, *problems))

    def find_problems(
        self, current: Snapshot, before: Snapshot | None, check: Callable[[], list[Problem]]
    ) -> list[Problem]:
        """Return the problems of a state, from the cache if nothing has changed since.

        Args:
            current: the state.
            before: the state that it is compared with; None for the work tree alone.
            check: finds the problems.
        """
        kind = "base" if before else "work tree"
        name = f"{_STATE_PREFIX} {kind}"
        state = self._compute_state(current, before)
        rows = self._read_cached(state).get(name)
        if rows:
            return [Problem(*row) for row in json.loads(rows)]
        problems = check()
        self._write_cached(compute_code_digest(), self._new_rows)
        if _has_transient(problems):
            return problems
        if before or self._is_as_listed(current):
            rows = json.dumps(problems)
            self._write_cached(state, {name: rows})
        return problems

    def _is_as_listed(self, current: Snapshot) -> bool:
        """Return whether the files were read as they had been listed."""
        listed_blobs = {path: blob for path, blob in current.files.items() if is_listed(path)}
        return listed_blobs == self._blobs

    def _compute_state(self, current: Snapshot, before: Snapshot | None) -> str:
        """Return a digest of everything that the problems of a snapshot depend on."""
        store = self._store
        parts: list[object] = [
            compute_code_digest(),
            store.name,
            store.status_words,
            store.synonyms,
            store.repo.shallow_boundary,
            store.repo.read_head(),
            store.code.read_head(),
            store.repo.describe_missing_history(),
        ]
        for snapshot in (before, current):
            if snapshot is None:
                continue
            parts += [
                sorted(snapshot.files.items()),
                sorted(snapshot.tombstones),
                snapshot.tips,
                snapshot.scan_problems,
                sorted(snapshot.untracked_paths),
                snapshot.conflicts,
            ]
        return _compute_digest(repr(part).encode("utf-8", "surrogatepass") for part in parts)

    def _read_cached(self, state: str) -> dict[str, str]:
        with suppress(FilememError):
            return self._store.index.read_check_results(state)
        return {}

    def _write_cached(self, state: str, values: dict[str, str]) -> None:
        with suppress(FilememError):  # without a cache it is found again
            self._store.index.write_check_results(state, values)


def _dump_rows(problems: Iterable[Problem]) -> str:
    """Return problems of one file as JSON, without its path."""
    return json.dumps([problem[1:] for problem in problems])


def _has_transient(problems: Iterable[Problem]) -> bool:
    """Return whether a problem will end by itself, so that it must not be cached."""
    return any(problem.code.startswith(_TRANSIENT_PREFIX) for problem in problems)
