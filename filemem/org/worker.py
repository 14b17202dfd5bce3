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
from filemem.org.hosts import AT_ONCE
from filemem.repo.mirror import Mirror, Silent, opened
from filemem.repo.run import LONG

if TYPE_CHECKING:
    from filemem.org.postgres import Postgres

# What a repository can bring upon a worker.
TROUBLE = (FilememError, OSError, ValueError, LookupError, RecursionError)
DOUBLED = 5  # how often the limit of a call doubles with failures: to about an hour
_ROUNDS = 3  # attempts while other workers write the same repository


class Pass(NamedTuple):
    """What one look at some repositories came to."""

    changed: int = 0  # records that were put in or taken out
    failed: int = 0  # repositories


class _Looks:
    """One look at some repositories: each host has threads of its own, and waits for no other."""

    def __init__(self, engine: Postgres, cache: Path, environment: Mapping[str, str]) -> None:
        self._engine = engine
        self._where = (cache, environment)
        self._silent = set[str]()  # hosts that did not answer

    def look(self, repository: Repository) -> Pass:
        """Look at one. A host that was silent once is not asked again."""
        try:
            if repository.host in self._silent:
                raise Silent(f"{repository.host} did not answer before, so it was not asked")
            return Pass(changed=take(self._engine, repository.number, *self._where))
        except TROUBLE as error:
            if isinstance(error, Silent):
                self._silent.add(repository.host)
            self._engine.fail(repository.number, reason(error))
            return Pass(failed=1)

    def run(self, repositories: Collection[Repository]) -> Pass:
        """Look at all of them."""
        with ExitStack() as stack:
            hosts = {repository.host for repository in repositories}
            lanes = {host: stack.enter_context(ThreadPoolExecutor(AT_ONCE)) for host in hosts}
            ends = [lanes[row.host].submit(self.look, row) for row in repositories]
        passes = [end.result() for end in ends]
        changed = sum(done.changed for done in passes)
        return Pass(changed, sum(done.failed for done in passes))


def work(
    engine: Postgres, cache: Path, environment: Mapping[str, str], names: Collection[str] = ()
) -> Pass:
    """Look at every repository once, or at those of some names.

    Args:
        engine: the database.
        cache: the folder of clones.
        environment: of the calls of Git.
        names: as `org status` shows them; none for all.

    Raises NotFound: a name is not in the index.
    """
    repositories = engine.repositories()
    if names:
        repositories = [repository for repository in repositories if repository.name in names]
        unknown = set(names) - {repository.name for repository in repositories}
        if unknown:
            raise NotFound(f"no repository {min(unknown)!r}", "`filemem org status` lists them")
    done = _Looks(engine, cache, environment).run(repositories)
    engine.tidy()
    return done


def reason(error: Exception) -> str:
    """Why a look failed, in a sentence."""
    return getattr(error, "told", "") or f"{type(error).__name__}: {error}"


def take(engine: Postgres, number: int, cache: Path, environment: Mapping[str, str]) -> int:
    """Bring one repository in step; return how many records changed.

    Raises what is in TROUBLE. A call of Git may take longer each time that the repository failed,
    so a large one comes in.
    """
    repository = engine.repository(number)
    if repository is None:
        return 0
    limit = LONG * 2 ** min(repository.tries, DOUBLED)
    with opened(repository.source, cache, environment, limit) as repo:
        for _ in range(_ROUNDS):
            changed = _brought(engine, number, repo)
            if changed is not None:
                return changed
    raise Locked("other workers change it all the time", "it is tried again")


def _brought(engine: Postgres, number: int, repo: Mirror) -> int | None:
    """Bring in what differs; None if another worker changed the repository meanwhile."""
    last = engine.repository(number)
    if last is None:
        return 0
    now = look.standing(repo, last)
    if now[:3] == (last.head, last.store, last.words):
        engine.seen(number)
        return 0
    kept = engine.kept(number)
    difference = look.compare(repo, last, now, kept)
    changed = 0
    left_out = list[str]()
    with engine.taking(number) as shelf:
        if shelf is None or shelf.repository.head != last.head:
            return None if shelf else 0
        for part in look.changes(repo, difference, kept):
            shelf.put(part.docs, difference.born)
            changed += len(part.docs)
            left_out += part.left_out
        shelf.done(now.head, now.store, now.mark, look.summary(left_out))
    return changed
