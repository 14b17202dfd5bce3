"""The queue of repositories that a worker should look at: one row each, in PostgreSQL.

Rule: a row says when its repository is due, and a push makes it due now. A worker holds a row for a
short time and renews that, in no transaction: what a killed worker held comes back by itself. Only
the clock of the database counts.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

    from filemem.org.postgres import Postgres

METRICS = "metrics"  # the name whose token may read figures: rights.sql
CHANNEL = "filemem_push"  # on which waiting workers hear of pushes: rights.sql
LEASE_SECONDS = 120  # seconds that a worker holds a repository, unless it renews that
REPORTED_PAUSE = 3600  # seconds between two looks at a repository whose pushes are reported
MAX_PAUSE = 3600  # seconds to the next attempt, however often a repository has failed
LATE_SECONDS = 300.0  # seconds after which a repository that is due counts as late
_TAKE = """update job set holder = %s, held = now() + make_interval(secs => %s) where repo =
  (select j.repo from job j join repo r on r.id = j.repo and r.host <> all(%s)
   where j.due <= now() and (j.held is null or j.held < now())
   order by j.pushed is null, j.due limit 1 for update of j skip locked) returning repo,
  (select name from repo r where r.id = job.repo),
  (select host from repo r where r.id = job.repo), pushed"""
_RENEW = (
    "update job set held = now() + make_interval(secs => %s) where holder = %s and repo = any(%s)"
)
_FREE = "update job set holder = '', held = null where holder = %s"
_NEXT = """update job set holder = '', held = null, tries = %(tries)s * (tries + 1),
  pushed = case when %(tries)s = 0 then nullif(pushed, %(pushed)s) else pushed end,
  due = case when pushed is distinct from %(pushed)s then now() when %(tries)s = 1
    then now() + make_interval(secs => least(%(longest)s, %(pause)s * 2 ^ least(tries, 20)))
    else now() + make_interval(secs => (.9 + random() / 5) *
      case when hooked is null then %(pause)s else greatest(%(pause)s, %(hourly)s) end) end
  where repo = %(repo)s and holder = %(holder)s"""


class Job(NamedTuple):
    """A repository that is to be looked at."""

    repository: int
    name: str
    host: str  # the machine that Git asks, "" for this one
    pushed_at: datetime | None  # the newest push that was reported when the job was taken


class RepositoryStatus(NamedTuple):
    """How a repository stands."""

    name: str
    seen_at: int | None  # when it was last looked at with success, epoch milliseconds
    age: float | None  # seconds since then
    failure: str  # why the last look failed, "" if it did not
    records: int
    passages: int
    has_push: bool  # whether a reported push waits
    is_held: bool  # whether a worker looks at it now
    late_seconds: float  # seconds since it was due
    left_out: str  # which records are left out and why, in a sentence


class Queue:
    """The queue of an index, as one process uses it."""

    def __init__(self, engine: Postgres) -> None:
        self._engine = engine
        self._holder = secrets.token_hex(8)

    def report_pushes(self, names: Collection[str]) -> int:
        """Note that repositories have something new, and wake the workers.

        Return how many are in the index.
        """
        lower_names = [name.lower() for name in names]
        with self._engine.transaction() as con:
            row = con.execute("select report(%s)", (lower_names,)).fetchone()
        return int(row[0]) if row else 0

    def add_missing_and_renew(self, busy_repositories: Collection[int]) -> None:
        """Put in the repositories that are missing, and hold on to the busy ones."""
        with self._engine.transaction() as con:
            con.execute("insert into job(repo) select id from repo on conflict do nothing")
            con.execute(_RENEW, (LEASE_SECONDS, self._holder, list(busy_repositories)))

    def take_job(self, avoided_hosts: Sequence[str] = ()) -> Job | None:
        """Take what is due, pushes first; None if nothing is due."""
        values = (self._holder, LEASE_SECONDS, list(avoided_hosts))
        with self._engine.transaction() as con:
            row = con.execute(_TAKE, values).fetchone()
        return Job(*row) if row else None

    def finish_job(self, job: Job, pause: float, *, has_failed: bool) -> None:
        """Say when the repository is due again.

        Args:
            job: what was taken.
            pause: seconds between two looks. It doubles with each failure.
            has_failed: whether the look failed.
        """
        values = {"repo": job.repository, "pushed": job.pushed_at, "holder": self._holder}
        limits = {
            "pause": pause,
            "hourly": REPORTED_PAUSE,
            "longest": MAX_PAUSE,
            "tries": int(has_failed),
        }
        with self._engine.transaction() as con:
            con.execute(_NEXT, values | limits)

    def list_statuses(self, token_hash: bytes = b"") -> list[RepositoryStatus]:
        """Return how all repositories stand, by name.

        Args:
            token_hash: the hash of a token of METRICS; needed if the login of the database may
                not read this.
        """
        source = "standing"
        values = None
        if token_hash:
            source = "figures(%s)"
            values = (token_hash,)
        with self._engine.transaction() as con:
            rows = con.execute(f"select * from {source} order by name", values)
            return [RepositoryStatus(*row) for row in rows]

    def release_jobs(self) -> None:
        """Give back what this process holds."""
        with self._engine.transaction() as con:
            con.execute(_FREE, (self._holder,))
