"""What the commands of `filemem org` do: each returns an answer, and a text that shows it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from filemem import config
from filemem.dialects.tool import format_count
from filemem.errors import BadInput, NotFound
from filemem.index import open_model
from filemem.org import access, audit
from filemem.org.postgres import Postgres
from filemem.org.queue import LATE_SECONDS, Queue, RepositoryStatus
from filemem.org.workers import Workers
from filemem.record import format_time
from filemem.repo.mirror import resolve_source


class CommandResult(NamedTuple):
    """What a command came to."""

    answer: Mapping[str, Any]
    text: str


@contextmanager
def open_index(folder: Path) -> Iterator[Postgres]:
    """Open the database that the environment or the user's own settings name.

    Raises BrokenStore, BadInput.
    """
    settings = config.load(folder)
    model = open_model(settings.model)
    with closing(Postgres(settings.org_dsn, model, settings.org_read_dsn)) as index:
        yield index


def init(index: Postgres) -> CommandResult:
    """Make the database ready."""
    message = index.init_tables()
    return CommandResult({"message": message}, message)


def add(
    index: Postgres, folder: Path, repositories: Sequence[str], file: Path | None
) -> CommandResult:
    """Add repositories, and those of a file with one a line. Raises BadInput."""
    addresses = list(repositories)
    if file:
        lines = file.read_text(encoding="utf-8").splitlines()
        addresses += [line.strip() for line in lines if line.strip() and line[0] != "#"]
    if not addresses:
        hint = "filemem org add REPO..., or --from FILE with one a line"
        raise BadInput("no repository is named", hint)
    sources = dict(resolve_source(address, folder) for address in addresses)
    added_count = index.add_repositories(sources)
    known_count = len(sources) - added_count
    answer = {"added": added_count, "repositories": sorted(sources)}
    return CommandResult(answer, f"{added_count} added; {known_count} there before")


def remove(index: Postgres, name: str) -> CommandResult:
    """Take a repository out. Raises NotFound."""
    count = index.drop_repository(name)
    text = f"{format_count(count, 'record')} taken out, and the rights to see {name}"
    return CommandResult({"records": count}, text)


def work_once(index: Postgres, folder: Path, names: Sequence[str]) -> CommandResult:
    """Look at all repositories once, or at those of some names. Raises NotFound."""
    result = _build_workers(index, folder).run_once(names)
    text = f"{format_count(result.changed, 'record')} changed"
    if result.failed:
        text += f", {format_count(result.failed, 'failure')}: `filemem org status` says why"
    return CommandResult(result._asdict(), text)


def work(index: Postgres, folder: Path, interval: float, threads: int) -> None:
    """Look at repositories until a signal comes; a second one ends the process at once.

    Raises BrokenStore, before it begins: the database cannot be used.
    """
    index.list_repositories()
    workers = _build_workers(index, folder, interval)

    def stop_workers(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        workers.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop_workers)
    workers.run(threads)


def _build_workers(index: Postgres, folder: Path, interval: float = 0) -> Workers:
    return Workers(index, config.load(folder).index_cache / "mirrors", os.environ, interval)


def show_status(index: Postgres) -> CommandResult:
    """Show the repositories, and what is wrong with each."""
    statuses = Queue(index).list_statuses()
    rows = [_build_row(repository) for repository in statuses]
    lines = []
    for row in rows:
        seen_at = row["seen_at"] or "never"
        lines.append(f"{row['records']:>7,}  {seen_at:24}  {row['repository']}")
    for repository in statuses:
        lines += _iter_problems(repository)
    text = "\n".join(lines) or "no repository yet: filemem org add"
    return CommandResult({"count": len(rows), "repositories": rows}, text)


def _build_row(repository: RepositoryStatus) -> dict[str, Any]:
    return {
        "repository": repository.name,
        "records": repository.records,
        "seen_at": format_time(repository.seen_at) if repository.seen_at else "",
        "failed": repository.failure,
        "late": round(repository.late_seconds),
        "left_out": repository.left_out,
    }


def _iter_problems(repository: RepositoryStatus) -> Iterator[str]:
    """What is wrong with a repository."""
    if repository.failure:
        yield f"failed: {repository.name}: {repository.failure}"
    if repository.left_out:
        yield f"{repository.name}: {repository.left_out}"
    if repository.late_seconds > LATE_SECONDS:
        reason = "a push has waited" if repository.has_push else "it has been due"
        delay = f"{repository.late_seconds / 60:,.0f} min"
        yield f"late: {repository.name}: {reason} for {delay}; does a worker run?"


def purge(index: Postgres, record_id: str) -> CommandResult:
    """Delete the records with an id. Raises NotFound."""
    deleted_count = index.purge_record(record_id)
    if not deleted_count:
        hint = "purge takes whole ids, as `filemem get` shows them"
        raise NotFound(f"no record has the id {record_id[:80]!r}", hint)
    return CommandResult(
        {"deleted": deleted_count},
        f"{deleted_count} deleted; backups of the database still have it",
    )


def manage_tokens(index: Postgres, action: str, name: str, days: int | None) -> CommandResult:
    """Add, revoke or list tokens. Raises BadInput, NotFound."""
    with index.transaction() as con:
        if action == "add":
            new_token = access.add_token(con, name, days)
            return CommandResult({"name": name, "token": new_token}, new_token)
        if action == "revoke":
            count = access.revoke_tokens(con, name)
            text = f"{format_count(count, 'token')} revoked"
            return CommandResult({"name": name, "revoked": count}, text)
        rows = access.list_tokens(con)
    lines = ["  ".join(row.values()).rstrip() for row in rows]
    return CommandResult({"tokens": rows}, "\n".join(lines) or "nobody has a token")


def replace_rights(index: Postgres, file: Path) -> CommandResult:
    """Replace all rights by those of a file. Raises BadInput."""
    rights = access.read_rights(file)
    with index.transaction() as con:
        count, unknown_names = access.replace_rights(con, rights)
    lines = [f"rights: {count}"]
    lines += [f"not in the index, so nobody sees it: {name}" for name in unknown_names]
    return CommandResult({"rights": count, "unknown": unknown_names}, "\n".join(lines))


def list_questions(index: Postgres, name: str) -> CommandResult:
    """List what was asked lately, by one name or by all."""
    with index.transaction() as con:
        rows = audit.list_questions(con, name)
    lines = [
        f"{row['at']}  {row['name']}  {row['verb']}  {row['query']}  {len(row['shown'])} shown"
        for row in rows
    ]
    return CommandResult({"audit": rows}, "\n".join(lines) or "nothing is noted")
