"""What a commit of a repository holds, beside what the engine has of it.

Rule: a state is compared with a state, by blob ids; how one became the other does not matter. So a
force push, a rename, a forgotten record and its return are nothing special.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from filemem import config, secrets
from filemem.errors import BrokenStore
from filemem.files import MAX_SIZE, is_listed, is_private
from filemem.index import Doc, document
from filemem.memory.store import FORGOTTEN, mark_of
from filemem.org.engine import Repository
from filemem.query import Provenance
from filemem.record.parse import explained, parse
from filemem.repo.mirror import LISTED, Mirror, added, bring, contents

MOST_FILES = 50_000  # of one store: more are refused, so that none fills the database
MOST_BYTES = 500_000_000
CHUNK = 200  # records that are read and written at a time
PATH = 500  # characters of the longest path that is read
NAMED = 5  # records that `org status` names of those that are left out

Words = tuple[tuple[str, str], ...]  # a word of the project's for a status, and ours
Kept = Mapping[str, tuple[str, str]]  # path -> blob id and record id


class Standing(NamedTuple):
    """What the settings at HEAD say."""

    head: str  # the commit whose records count, "" for none
    store: str  # their folder
    mark: str = ""  # of the words
    words: Words = ()  # what the project calls a status


class Difference(NamedTuple):
    """What has to change."""

    files: Mapping[str, str]  # path in the store -> blob id
    gone: Sequence[str]  # paths whose records go
    differing: Sequence[str]  # paths to read
    born: Mapping[str, Provenance]  # who wrote new ones first
    marks: Collection[str]  # of forgotten records
    words: Words


class Changes(NamedTuple):
    """Some of the changes, and which records are left out."""

    docs: Mapping[str, Doc | None]
    left_out: Sequence[str]


def standing(repo: Mirror, last: Repository) -> Standing:
    """Read which commit counts, and where its records lie. Raises BrokenStore.

    `last`: the repository as it was at the last look.
    """
    head = repo.head() or ""
    if last.head and head == last.head:
        return Standing(last.head, last.store, last.words)
    stated = config.stated(_settings(repo, head))
    if stated.branch:
        head = repo.resolve(f"refs/heads/{stated.branch}") or ""
    if last.head and not head:
        hint = "its records stay; `filemem org remove` takes them out"
        raise BrokenStore("HEAD names no commit", hint)
    words = tuple(sorted(stated.status.items()))
    return Standing(head, _store(stated), mark_of(repr(words)) if words else "", words)


def _store(stated: config.Config) -> str:
    return "." if stated.branch else stated.store or config.Config().store


def _settings(repo: Mirror, head: str) -> bytes:
    """The settings at a commit. Raises BrokenStore: they cannot be read."""
    item = repo.item(config.REPOSITORY_FILE, head) if head else None
    if item is None:
        return b""
    bring(repo, (item.oid,))
    data = dict(contents(repo, (item.oid,), MAX_SIZE))[item.oid]
    if data is None:
        message = f"{config.REPOSITORY_FILE} cannot be read"
        raise BrokenStore(f"{message}, so it is unclear where its records lie")
    return data


def compare(repo: Mirror, last: Repository, now: Standing, kept: Kept) -> Difference:
    """Work out what has to change, and bring what that needs from the host. Raises BrokenStore."""
    files = _listed(repo, now)
    marks = {path.rpartition("/")[2] for path in files if path.startswith(f"{FORGOTTEN}/")}
    differing = list(filter(_is_public, files))
    if now.mark == last.words:
        differing = [path for path in differing if _blob(kept, path) != files[path]]
    hidden = {path for path, (_, id_) in kept.items() if mark_of(id_) in marks} if marks else set()
    gone = [path for path in kept if path not in files or path in hidden]
    born = _births(repo, now, last.head, {*differing} - kept.keys())
    _bring_all(repo, [files[path] for path in differing])
    return Difference(files, gone, differing, born, marks, now.words)


def _bring_all(repo: Mirror, blobs: Sequence[str]) -> None:
    """Fetch what a clone lacks. Raises BrokenStore: it is too much."""
    size = 0
    for chunk in _chunks(blobs):
        bring(repo, chunk)
        size += sum(len(data or b"") for _, data in contents(repo, chunk, MAX_SIZE))
        if size > MOST_BYTES:
            message = f"its new records have over {MOST_BYTES:,} bytes"
            raise BrokenStore(f"{message}: a repository may have no more")


def changes(repo: Mirror, difference: Difference, kept: Kept) -> Iterator[Changes]:
    """Read what has to change, some at a time; nothing is asked of the host."""
    if difference.gone:
        yield Changes(dict.fromkeys(difference.gone), ())
    for chunk in _chunks(difference.differing):
        data = dict(contents(repo, (difference.files[path] for path in chunk), MAX_SIZE))
        docs = dict[str, Doc | None]()
        left_out = list[str]()
        for path in chunk:
            blob = difference.files[path]
            doc, note = _document(data[blob], path, blob, difference)
            left_out += [note] if note else []
            if doc or path in kept:
                docs[path] = doc
        yield Changes(docs, left_out)


def summary(left_out: Sequence[str]) -> str:
    """Say which records are left out; "" if none is."""
    if not left_out:
        return ""
    more = f" and {len(left_out) - NAMED} more" if len(left_out) > NAMED else ""
    return f"left out, as they look like they hold secrets: {', '.join(left_out[:NAMED])}{more}"


def _chunks(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for at in range(0, len(names), CHUNK):
        yield names[at : at + CHUNK]


def _blob(kept: Kept, path: str) -> str:
    return kept[path][0] if path in kept else ""


def _is_public(path: str) -> bool:
    """Whether a file may be a record that all may see."""
    return is_listed(path) and not is_private(path) and path.isprintable() and len(path) <= PATH


def _prefix(now: Standing) -> str:
    return "" if now.store == "." else f"{now.store}/"


def _listed(repo: Mirror, now: Standing) -> dict[str, str]:
    """The files of the store: path -> blob id. Raises BrokenStore: too many."""
    if not now.head or "private" in now.store.split("/"):
        return {}
    listed = repo.listing(now.head, now.store, LISTED)
    if len(listed) > MOST_FILES:
        message = f"its store holds {len(listed):,} files; of one repository"
        raise BrokenStore(f"{message} at most {MOST_FILES:,} are read")
    return {path.removeprefix(_prefix(now)): blob for path, blob in listed.items()}


def _document(
    data: bytes | None, path: str, blob: str, difference: Difference
) -> tuple[Doc | None, str]:
    """What is kept of a file, None if it is not a record for all; and why it is left out, if so."""
    record = None if data is None else explained(parse(data, path), difference.words).record
    if record is None or data is None or mark_of(record.id) in difference.marks:
        return None, ""
    doc = document(record, blob)
    if doc.node.audience:
        return None, ""
    leaks = () if record.secrets_allowed else secrets.find(data.decode(errors="replace"))
    if leaks:
        return None, f"{path}:{leaks[0].line} ({leaks[0].kind})"
    return doc, ""


def _births(repo: Mirror, now: Standing, old: str, wanted: set[str]) -> dict[str, Provenance]:
    """Who first wrote some files: by the commits since the last look, else by all."""
    born: dict[str, Provenance] = {}
    for without in ((f"^{old}",), ()) if old else ((),):
        if not wanted - born.keys():
            break
        for path, who in added(repo, now.head, _prefix(now), without):
            born.setdefault(path, who)
    return born
