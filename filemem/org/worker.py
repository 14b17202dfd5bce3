"""Bring repositories into the engine, each in one transaction: what it holds is what the commit at its head holds.

Rule: a state is compared with a state, by blob ids; how one became the other is nobody's business. So a force push, a
rename, a forgotten record and its return are nothing special. A repository that fails is noted, and stops nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filemem import config
from filemem.errors import BrokenStore, FilememError
from filemem.files import MAX_SIZE, is_listed, is_private
from filemem.index import Doc, document
from filemem.memory.store import FORGOTTEN, mark_of
from filemem.org.engine import Repository, Shelf
from filemem.query import Provenance
from filemem.record.parse import explained, parse
from filemem.repo import Repo
from filemem.repo.mirror import LISTED, added, contents, opened

if TYPE_CHECKING:
    from filemem.org.postgres import Postgres

MOST_FILES, MOST_BYTES = (
    50_000,
    500_000_000,
)  # of one store: more are refused, so that none fills the database
TROUBLE = (
    FilememError,
    OSError,
    ValueError,
    LookupError,
    RecursionError,
)  # what a repository can bring upon a worker
_CHUNK = 200  # records that are read and written at a time
_PATH = 500  # characters of the longest path that is read
_AT_ONCE = 4  # repositories: a host that does not answer holds up one


Words = tuple[tuple[str, str], ...]  # a word of the project's for a status, and ours


class Pass(NamedTuple):
    """What one look at all repositories came to."""

    changed: int = 0  # records that were put in or taken out
    failed: int = 0  # repositories


def work(engine: Postgres, cache: Path, environment: Mapping[str, str]) -> Pass:
    """Look at every repository once; `cache` is the folder of clones."""

    def look(one: Repository) -> Pass:
        try:
            return Pass(changed=take(engine, one.number, cache, environment))
        except TROUBLE as error:
            engine.fail(one.number, reason(error))
            return Pass(failed=1)

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        looks = list(threads.map(look, engine.repositories()))
    engine.tidy()
    return Pass(sum(one.changed for one in looks), sum(one.failed for one in looks))


def reason(error: Exception) -> str:
    """Why a look failed, in a sentence."""
    return getattr(error, "told", "") or f"{type(error).__name__}: {error}"


def take(engine: Postgres, number: int, cache: Path, environment: Mapping[str, str]) -> int:
    """Bring one repository in step, if no other worker has it; return how many records changed."""
    with engine.taking(number) as shelf:
        if shelf is None:
            return 0
        known = shelf.repository
        with closing(opened(known.source, cache, environment)) as repo:
            now = _Standing(known.head, known.store, known.words)
            if not known.head or repo.head() != known.head:
                now = _standing(repo, known.source)
            if known.head and not now.head:
                raise BrokenStore(
                    "HEAD names no commit", "its records stay; `filemem org remove` takes them out"
                )
            same = now[:3] == (known.head, known.store, known.words)
            changed = 0 if same else _changed(shelf, repo, now)
            shelf.done(now.head, now.store, now.mark)
        return changed


class _Standing(NamedTuple):
    """What the settings at HEAD say."""

    head: str  # the commit whose records count, "" for none
    store: str  # their folder
    mark: str = ""  # of the words
    words: Words = ()  # what the project calls a status


def _standing(repo: Repo, source: str) -> _Standing:
    head = repo.head() or ""
    item = repo.item(config.REPOSITORY_FILE, head) if head else None
    data = dict(contents(repo, source, (item.oid,), MAX_SIZE))[item.oid] if item else b""
    if data is None:
        raise BrokenStore(
            f"{config.REPOSITORY_FILE} cannot be read, so nobody knows where its records lie"
        )
    stated = config.stated(data)
    if stated.branch:
        head = repo.resolve(f"refs/heads/{stated.branch}") or ""
    words = tuple(sorted(stated.status.items()))
    mark = mark_of(repr(words)) if words else ""
    store = "." if stated.branch else stated.store or config.Config().store
    return _Standing(head, store, mark, words)


def _changed(shelf: Shelf, repo: Repo, now: _Standing) -> int:
    """Put in what differs, and take out what is gone, forgotten or private; return how many records those are."""
    head, store = now.head, now.store
    anew = now.mark != shelf.repository.words
    prefix = "" if store == "." else f"{store}/"
    listed = repo.listing(head, store, LISTED) if head and "private" not in store.split("/") else {}
    files = {path.removeprefix(prefix): blob for path, blob in listed.items()}
    marks = {path.rpartition("/")[2] for path in files if path.startswith(f"{FORGOTTEN}/")}
    if len(files) > MOST_FILES:
        raise BrokenStore(
            f"its store holds {len(files):,} files; of one repository at most {MOST_FILES:,} are read"
        )
    there = shelf.kept()
    hidden = {path for path, (_, id_) in there.items() if mark_of(id_) in marks} if marks else set()
    gone = dict.fromkeys(path for path in there if path not in files or path in hidden)
    changed = [path for path, blob in files.items() if anew or there.get(path, ("",))[0] != blob]
    public = [path for path in changed if is_listed(path) and not is_private(path)]
    differing = [path for path in public if path.isprintable() and len(path) <= _PATH]
    born = _births(repo, head, shelf.repository.head, prefix, {*differing} - there.keys())
    count, size, rest = 0, 0, iter(differing)
    while (chunk := list(islice(rest, _CHUNK))) or gone:
        data = dict(
            contents(repo, shelf.repository.source, (files[path] for path in chunk), MAX_SIZE)
        )
        if (size := size + sum(len(one or b"") for one in data.values())) > MOST_BYTES:
            raise BrokenStore(
                f"its new records have over {MOST_BYTES:,} bytes: more are not read of one repository"
            )
        docs: dict[str, Doc | None] = {
            path: _document(data[files[path]], path, files[path], marks, now.words)
            for path in chunk
        }
        news = gone | {path: doc for path, doc in docs.items() if doc or path in there}
        shelf.put(news, born)
        count, gone = count + len(news), {}
    return count


def _document(
    data: bytes | None, path: str, blob: str, marks: Collection[str], words: Words
) -> Doc | None:
    """What is kept of a file; None if it is no record, is forgotten, or is not for everybody."""
    record = None if data is None else explained(parse(data, path), words).record
    if record is None or mark_of(record.id) in marks:
        return None
    doc = document(record, blob)
    return None if doc.node.audience else doc


def _births(
    repo: Repo, head: str, old: str, prefix: str, wanted: set[str]
) -> dict[str, Provenance]:
    """Who first wrote some files: by the commits since the last look, else by all."""
    found: dict[str, Provenance] = {}
    for without in ((f"^{old}",), ()) if old else ((),):
        if not wanted - found.keys():
            break
        for path, who in added(repo, head, prefix, without):
            found.setdefault(path, who)
    return found
