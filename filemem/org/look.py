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
from filemem.index import Doc, build_document
from filemem.memory.store import FORGOTTEN, compute_tombstone
from filemem.org.engine import Repository
from filemem.query import Provenance
from filemem.record.parse import parse_record, resolve_own_status
from filemem.repo.mirror import (
    MAX_LISTING_SIZE,
    Mirror,
    fetch_blobs,
    iter_added_files,
    iter_small_blobs,
)

MAX_FILES = 50_000  # of one store: more are refused, so that none fills the database
MAX_BYTES = 500_000_000
CHUNK_SIZE = 200  # records that are read and written at a time
MAX_PATH = 500  # characters of the longest path that is read
MAX_NAMED = 5  # records that `org status` names of those that are left out

StatusWords = tuple[tuple[str, str], ...]  # a word of the project's for a status, and ours
Manifest = Mapping[str, tuple[str, str]]  # path -> blob id and record id


class HeadState(NamedTuple):
    """What the settings at HEAD say."""

    head: str  # the commit whose records count, "" for none
    store: str  # their folder
    words_mark: str = ""  # of the words
    status_words: StatusWords = ()  # what the project calls a status


class Difference(NamedTuple):
    """What has to change."""

    files: Mapping[str, str]  # path in the store -> blob id
    removed_paths: Sequence[str]  # paths whose records go
    changed_paths: Sequence[str]  # paths to read
    first_authors: Mapping[str, Provenance]  # who wrote new ones first
    marks: Collection[str]  # of forgotten records
    status_words: StatusWords


class Changes(NamedTuple):
    """Some of the changes, and which records are left out."""

    docs: Mapping[str, Doc | None]
    left_out: Sequence[str]


def read_head_state(repo: Mirror, last: Repository) -> HeadState:
    """Read which commit counts, and where its records lie. Raises BrokenStore.

    `last`: the repository as it was at the last look.
    """
    head = repo.read_head() or ""
    if last.head and head == last.head:
        return HeadState(last.head, last.store, last.words)
    settings = config.parse_repository_settings(_read_settings(repo, head))
    if settings.branch:
        head = repo.resolve_revision(f"refs/heads/{settings.branch}") or ""
    if last.head and not head:
        hint = "its records stay; `filemem org remove` takes them out"
        raise BrokenStore("HEAD names no commit", hint)
    status_words = tuple(sorted(settings.status.items()))
    return HeadState(
        head,
        _get_store(settings),
        compute_tombstone(repr(status_words)) if status_words else "",
        status_words,
    )


def _get_store(settings: config.Config) -> str:
    return "." if settings.branch else settings.store or config.Config().store


def _read_settings(repo: Mirror, head: str) -> bytes:
    """The settings at a commit. Raises BrokenStore: they cannot be read."""
    item = repo.find_item(config.REPOSITORY_FILE, head) if head else None
    if item is None:
        return b""
    fetch_blobs(repo, (item.oid,))
    data = dict(iter_small_blobs(repo, (item.oid,), MAX_SIZE))[item.oid]
    if data is None:
        message = f"{config.REPOSITORY_FILE} cannot be read"
        raise BrokenStore(f"{message}, so it is unclear where its records lie")
    return data


def fetch_difference(
    repo: Mirror, last: Repository, head_state: HeadState, manifest: Manifest
) -> Difference:
    """Work out what has to change, and bring what that needs from the host. Raises BrokenStore."""
    files = _list_files(repo, head_state)
    marks = {path.rpartition("/")[2] for path in files if path.startswith(f"{FORGOTTEN}/")}
    changed_paths = [path for path in files if _is_public(path)]
    if head_state.words_mark == last.words:
        changed_paths = [path for path in changed_paths if _get_blob(manifest, path) != files[path]]
    new_paths = set(changed_paths) - manifest.keys()
    first_authors = _find_first_authors(repo, head_state, last.head, new_paths)
    _fetch_blobs(repo, [files[path] for path in changed_paths])
    return Difference(
        files=files,
        removed_paths=_list_removed_paths(manifest, files, marks),
        changed_paths=changed_paths,
        first_authors=first_authors,
        marks=marks,
        status_words=head_state.status_words,
    )


def _list_removed_paths(
    manifest: Manifest, files: Collection[str], marks: Collection[str]
) -> list[str]:
    """List the known records whose file is missing, or that a tombstone forgets."""
    removed_paths = []
    for path, (_, record_id) in manifest.items():
        is_forgotten = bool(marks) and compute_tombstone(record_id) in marks
        if is_forgotten or path not in files:
            removed_paths.append(path)
    return removed_paths


def _fetch_blobs(repo: Mirror, blobs: Sequence[str]) -> None:
    """Fetch what a clone lacks. Raises BrokenStore: it is too much."""
    size = 0
    for chunk in _iter_chunks(blobs):
        fetch_blobs(repo, chunk)
        for _, data in iter_small_blobs(repo, chunk, MAX_SIZE):
            size += len(data or b"")
        if size > MAX_BYTES:
            message = f"its new records have over {MAX_BYTES:,} bytes"
            raise BrokenStore(f"{message}: a repository may have no more")


def iter_changes(repo: Mirror, difference: Difference, manifest: Manifest) -> Iterator[Changes]:
    """Read what has to change, some at a time; nothing is asked of the host."""
    if difference.removed_paths:
        yield Changes(dict.fromkeys(difference.removed_paths), ())
    for chunk in _iter_chunks(difference.changed_paths):
        blobs = [difference.files[path] for path in chunk]
        contents = dict(iter_small_blobs(repo, blobs, MAX_SIZE))
        docs: dict[str, Doc | None] = {}
        left_out: list[str] = []
        for path in chunk:
            blob = difference.files[path]
            doc, note = _build_document(contents[blob], path, blob, difference)
            if note:
                left_out.append(note)
            if doc or path in manifest:
                docs[path] = doc
        yield Changes(docs, left_out)


def format_left_out(left_out: Sequence[str]) -> str:
    """Say which records are left out; "" if none is."""
    if not left_out:
        return ""
    text = ", ".join(left_out[:MAX_NAMED])
    if len(left_out) > MAX_NAMED:
        text += f" and {len(left_out) - MAX_NAMED} more"
    return f"left out, as they look like they hold secrets: {text}"


def _iter_chunks(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), CHUNK_SIZE):
        yield names[start : start + CHUNK_SIZE]


def _get_blob(manifest: Manifest, path: str) -> str:
    return manifest[path][0] if path in manifest else ""


def _is_public(path: str) -> bool:
    """Whether a file may be a record that all may see."""
    return is_listed(path) and not is_private(path) and path.isprintable() and len(path) <= MAX_PATH


def _get_prefix(head_state: HeadState) -> str:
    return "" if head_state.store == "." else f"{head_state.store}/"


def _list_files(repo: Mirror, head_state: HeadState) -> dict[str, str]:
    """The files of the store: path -> blob id. Raises BrokenStore: too many."""
    if not head_state.head or "private" in head_state.store.split("/"):
        return {}
    files = repo.list_files(head_state.head, head_state.store, MAX_LISTING_SIZE)
    if len(files) > MAX_FILES:
        message = f"its store holds {len(files):,} files; of one repository"
        raise BrokenStore(f"{message} at most {MAX_FILES:,} are read")
    prefix = _get_prefix(head_state)
    return {path.removeprefix(prefix): blob for path, blob in files.items()}


def _build_document(
    data: bytes | None, path: str, blob: str, difference: Difference
) -> tuple[Doc | None, str]:
    """Build the document of a file; None if it is no public record, with the reason to report."""
    if data is None:
        return None, ""
    record = resolve_own_status(parse_record(data, path), difference.status_words).record
    if record is None or compute_tombstone(record.id) in difference.marks:
        return None, ""
    doc = build_document(record, blob)
    if doc.node.audience:
        return None, ""
    if record.secrets_allowed:
        return doc, ""
    leaks = secrets.find_secrets(data.decode(errors="replace"))
    if leaks:
        return None, f"{path}:{leaks[0].line} ({leaks[0].kind})"
    return doc, ""


def _find_first_authors(
    repo: Mirror, head_state: HeadState, old_head: str, paths: set[str]
) -> dict[str, Provenance]:
    """Find who first wrote some files: in the commits since the last look, or else in all."""
    first_authors: dict[str, Provenance] = {}
    exclusions: list[list[str]] = [[]]
    if old_head:
        exclusions.insert(0, [f"^{old_head}"])
    prefix = _get_prefix(head_state)
    for excluded in exclusions:
        if not paths - first_authors.keys():
            break
        for path, provenance in iter_added_files(repo, head_state.head, prefix, excluded):
            first_authors.setdefault(path, provenance)
    return first_authors
