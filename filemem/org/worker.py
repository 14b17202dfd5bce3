"""Bring repositories into the engine: what it holds of one is what the commit at its head holds.

Rule: a host is asked in no transaction and under no lock of the database. The rows and the commit
that they are of change in one short transaction. A repository that fails is noted and stops no
other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import FilememError, Locked, NotFound
from filemem.org import look
from filemem.org.engine import Repository
from filemem.org.hosts import MAX_PER_HOST
from filemem.repo.mirror import HostTimeout, Mirror, open_mirror
from filemem.repo.run import LONG_LIMIT

if TYPE_CHECKING:
    from filemem.org.postgres import Postgres

# What a repository can bring upon a worker.
SYNC_ERRORS = (FilememError, OSError, ValueError, LookupError, RecursionError)
MAX_DOUBLINGS = 5  # how often the limit of a call doubles with failures: to about an hour
_MAX_ATTEMPTS = 3  # attempts while other workers write the same repository


class SyncResult(NamedTuple):
    """What one look at some repositories came to."""

    changed: int = 0  # records that were put in or taken out
    failed: int = 0  # repositories


class _SyncRun:
    """One look at some repositories: each host has threads of its own, and waits for no other."""

    def __init__(self, engine: Postgres, cache: Path, environment: Mapping[str, str]) -> None:
        self._engine = engine
        self._clone_options = (cache, environment)
        self._silent_hosts = set[str]()  # hosts that did not answer

    def sync_repository(self, repository: Repository) -> SyncResult:
        """Look at one. A host that was silent once is not asked again."""
        try:
            if repository.host in self._silent_hosts:
                raise HostTimeout(f"{repository.host} did not answer before, so it was not asked")
            changed_count = sync_repository(self._engine, repository.number, *self._clone_options)
            return SyncResult(changed_count)
        except SYNC_ERRORS as error:
            if isinstance(error, HostTimeout):
                self._silent_hosts.add(repository.host)
            self._engine.note_failure(repository.number, format_reason(error))
            return SyncResult(failed=1)

    def run(self, repositories: Collection[Repository]) -> SyncResult:
        """Look at all of them."""
        executors: dict[str, ThreadPoolExecutor] = {}
        futures = []
        with ExitStack() as stack:
            for host in {repository.host for repository in repositories}:
                executors[host] = stack.enter_context(ThreadPoolExecutor(MAX_PER_HOST))
            for repository in repositories:
                executor = executors[repository.host]
                futures.append(executor.submit(self.sync_repository, repository))
        results = [future.result() for future in futures]
        changed_count = sum(result.changed for result in results)
        failed_count = sum(result.failed for result in results)
        return SyncResult(changed_count, failed_count)


def sync_repositories(
    engine: Postgres, cache: Path, environment: Mapping[str, str], names: Collection[str] = ()
) -> SyncResult:
    """Look at every repository once, or at those of some names.

    Args:
        engine: the database.
        cache: the folder of clones.
        environment: of the calls of Git.
        names: as `org status` shows them; none for all.

    Raises NotFound: a name is not in the index.
    """
    repositories = engine.list_repositories()
    if names:
        repositories = [repository for repository in repositories if repository.name in names]
        unknown_names = set(names) - {repository.name for repository in repositories}
        if unknown_names:
            raise NotFound(
                f"no repository {min(unknown_names)!r}", "`filemem org status` lists them"
            )
    result = _SyncRun(engine, cache, environment).run(repositories)
    engine.update_statistics()
    return result


def format_reason(error: Exception) -> str:
    """Say in one sentence why a look failed."""
    if isinstance(error, FilememError):
        return error.one_line
    return f"{type(error).__name__}: {error}"


def sync_repository(
    engine: Postgres, number: int, cache: Path, environment: Mapping[str, str]
) -> int:
    """Bring one repository in step; return how many records changed.

    Raises any of SYNC_ERRORS. A call of Git may take longer each time that the repository failed,
    so a large one comes in.
    """
    repository = engine.read_repository(number)
    if repository is None:
        return 0
    limit = LONG_LIMIT * 2 ** min(repository.failure_count, MAX_DOUBLINGS)
    with open_mirror(repository.source, cache, environment, limit) as repo:
        for _ in range(_MAX_ATTEMPTS):
            changed_count = _sync_once(engine, number, repo)
            if changed_count is not None:
                return changed_count
    raise Locked("other workers change it all the time", "it is tried again")


def _sync_once(engine: Postgres, number: int, repo: Mirror) -> int | None:
    """Bring in what differs; None if another worker changed the repository meanwhile."""
    last = engine.read_repository(number)
    if last is None:
        return 0
    head_state = look.read_head_state(repo, last)
    if head_state[:3] == (last.head, last.store, last.words):
        engine.note_seen(number)
        return 0
    manifest = engine.read_manifest(number)
    difference = look.fetch_difference(repo, last, head_state, manifest)
    changed_count = 0
    left_out = list[str]()
    with engine.lock_shelf(number) as shelf:
        if shelf is None or shelf.repository.head != last.head:
            return None if shelf else 0
        for part in look.iter_changes(repo, difference, manifest):
            shelf.put(part.docs, difference.first_authors)
            changed_count += len(part.docs)
            left_out += part.left_out
        shelf.note_state(
            head_state.head, head_state.store, head_state.words_mark, look.format_left_out(left_out)
        )
    return changed_count
