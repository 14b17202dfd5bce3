"""Compare two listings of the store.

Git blob ids identify contents. Size and time only show which files need not be hashed again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

ADDED = "added"
MODIFIED = "modified"
REMOVED = "removed"


class Entry(NamedTuple):
    """The state of one file of the store."""

    blob: str  # its id, 40 or 64 hex digits
    size: int = -1  # bytes
    mtime: int = -1  # nanoseconds


Manifest = Mapping[str, Entry]  # store-relative path -> entry


def compute_object_id(kind: str, data: bytes, hash_name: str) -> str:
    """Compute Git's id of an object; `hash_name` is the repository's object format."""
    import hashlib  # noqa: PLC0415 - 4 ms, for OpenSSL; a search hashes nothing

    header = f"{kind} {len(data)}\0".encode()
    digest = hashlib.new(hash_name, header + data, usedforsecurity=False)
    return digest.hexdigest()


def compute_blob_id(data: bytes, hash_name: str = "sha1") -> str:
    """Compute Git's id of a file's content."""
    return compute_object_id("blob", data, hash_name)


class Change(NamedTuple):
    """One difference: `entry` is None for a removed file."""

    kind: str
    path: str
    entry: Entry | None


def iter_changes(before: Manifest, after: Manifest) -> Iterator[Change]:
    """Yield the changes that turn `before` into `after`, in order of paths."""
    for path in sorted(before.keys() | after.keys()):
        old = before.get(path)
        new = after.get(path)
        if new is None:
            yield Change(REMOVED, path, entry=None)
        elif old is None:
            yield Change(ADDED, path, entry=new)
        elif old.blob != new.blob:
            yield Change(MODIFIED, path, entry=new)


def list_visibility_changes(
    ids: Mapping[str, str],
    files: Manifest,
    other_changes: Iterable[Change],
    is_hidden: Callable[[str], bool],
) -> list[Change]:
    """List unchanged files that a tombstone hides, or hides no longer.

    Args:
        ids: The records shown so far, by path.
        other_changes: Changes of files, which are left out here.
    """
    changed_paths = {change.path for change in other_changes}
    visibility_changes = []
    for path in sorted(files):
        if path in changed_paths:
            continue
        if path not in ids or is_hidden(ids[path]):
            visibility_changes.append(Change(MODIFIED, path, files[path]))
    return visibility_changes
