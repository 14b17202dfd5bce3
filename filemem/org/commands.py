"""What the commands of `filemem org` do: each returns an answer, and a text that shows it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from filemem import config
from filemem.dialects.tool import counted
from filemem.errors import BadInput, NotFound
from filemem.index import embedder
from filemem.org import access, audit
from filemem.org.postgres import Postgres
from filemem.org.queue import LATE, Queue, Standing
from filemem.org.workers import Workers
from filemem.record import format_time
from filemem.repo.mirror import named


class Done(NamedTuple):
    """What a command came to."""

    answer: Mapping[str, Any]
    text: str


@contextmanager
def opened(here: Path) -> Iterator[Postgres]:
    """Open the database that the environment or the user's own settings name.

    Raises BrokenStore, BadInput.
    """
    settings = config.load(here)
    model = embedder(settings.model)
    with closing(Postgres(settings.org_dsn, model, settings.org_read_dsn)) as index:
        yield index


def init(index: Postgres) -> Done:
    """Make the database ready."""
    message = index.init()
    return Done({"message": message}, message)


def add(index: Postgres, here: Path, repositories: Sequence[str], file: Path | None) -> Done:
    """Add repositories, and those of a file with one a line. Raises BadInput."""
    lines = file.read_text(encoding="utf-8").splitlines() if file else ()
    listed = [line.strip() for line in lines if not line.startswith("#")]
    addresses = [*repositories, *filter(None, listed)]
    if not addresses:
        hint = "filemem org add REPO..., or --from FILE with one a line"
        raise BadInput("no repository is named", hint)
    sources = dict(named(address, here) for address in addresses)
    new = index.add(sources)
    answer = {"added": new, "repositories": sorted(sources)}
    return Done(answer, f"{new} added; {len(sources) - new} there before")


def remove(index: Postgres, name: str) -> Done:
    """Take a repository out. Raises NotFound."""
    count = index.drop(name)
    text = f"{counted(count, 'record')} taken out, and the rights to see {name}"
    return Done({"records": count}, text)


def work_once(index: Postgres, here: Path, names: Sequence[str]) -> Done:
    """Look at all repositories once, or at those of some names. Raises NotFound."""
    looks = _workers(index, here).once(names)
    failed = counted(looks.failed, "failure") if looks.failed else ""
    advice = f", {failed}: `filemem org status` says why" if failed else ""
    return Done(looks._asdict(), f"{counted(looks.changed, 'record')} changed{advice}")


def work(index: Postgres, here: Path, every: float, threads: int) -> None:
    """Look at repositories until a signal comes; a second one ends the process at once.

    Raises BrokenStore, before it begins: the database cannot be used.
    """
    index.repositories()
    workers = _workers(index, here, every)

    def end(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        workers.end()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    workers.run(threads)


def _workers(index: Postgres, here: Path, every: float = 0) -> Workers:
    return Workers(index, config.load(here).index_cache / "mirrors", os.environ, every)


def status(index: Postgres) -> Done:
    """Show the repositories, and what is wrong with each."""
    standing = Queue(index).standing()
    rows = [_row(repository) for repository in standing]
    lines = [
        f"{row['records']:>7,}  {row['seen_at'] or 'never':24}  {row['repository']}" for row in rows
    ]
    lines += [line for repository in standing for line in _wrong(repository)]
    text = "\n".join(lines) or "no repository yet: filemem org add"
    return Done({"count": len(rows), "repositories": rows}, text)


def _row(repository: Standing) -> dict[str, Any]:
    return {
        "repository": repository.name,
        "records": repository.records,
        "seen_at": format_time(repository.seen) if repository.seen else "",
        "failed": repository.failed,
        "late": round(repository.late),
        "left_out": repository.left_out,
    }


def _wrong(repository: Standing) -> Iterator[str]:
    """What is wrong with a repository."""
    if repository.failed:
        yield f"failed: {repository.name}: {repository.failed}"
    if repository.left_out:
        yield f"{repository.name}: {repository.left_out}"
    if repository.late > LATE:
        what = "a push has waited" if repository.pushed else "it has been due"
        late = f"{repository.late / 60:,.0f} min"
        yield f"late: {repository.name}: {what} for {late}; does a worker run?"


def purge(index: Postgres, record_id: str) -> Done:
    """Delete the records with an id. Raises NotFound."""
    gone = index.purge(record_id)
    if not gone:
        hint = "purge takes whole ids, as `filemem get` shows them"
        raise NotFound(f"no record has the id {record_id[:80]!r}", hint)
    return Done({"deleted": gone}, f"{gone} deleted; backups of the database still have it")


def token(index: Postgres, action: str, name: str, days: int | None) -> Done:
    """Add, revoke or list tokens. Raises BadInput, NotFound."""
    with index.transaction() as con:
        if action == "add":
            made = access.add_token(con, name, days)
            return Done({"name": name, "token": made}, made)
        if action == "revoke":
            count = access.revoke(con, name)
            return Done({"name": name, "revoked": count}, f"{counted(count, 'token')} revoked")
        rows = access.tokens(con)
    lines = ["  ".join(row.values()).rstrip() for row in rows]
    return Done({"tokens": rows}, "\n".join(lines) or "nobody has a token")


def give(index: Postgres, file: Path) -> Done:
    """Replace all rights by those of a file. Raises BadInput."""
    rights = access.read(file)
    with index.transaction() as con:
        count, unknown = access.give(con, rights)
    lines = [f"not in the index, so nobody sees it: {name}" for name in unknown]
    return Done({"rights": count, "unknown": unknown}, "\n".join([f"rights: {count}", *lines]))


def questions(index: Postgres, name: str) -> Done:
    """List what was asked lately, by one name or by all."""
    with index.transaction() as con:
        rows = audit.lines(con, name)
    lines = [
        f"{row['at']}  {row['name']}  {row['verb']}  {row['query']}  {len(row['shown'])} shown"
        for row in rows
    ]
    return Done({"audit": rows}, "\n".join(lines) or "nothing is noted")
