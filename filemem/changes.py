"""What changed between two looks at the store: pure comparison of two listings.

Content identity is the Git blob id. Size and time are only a shortcut that says "this file need not
be hashed".
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

ADDED = "added"
MODIFIED = "modified"
REMOVED = "removed"


class Entry(NamedTuple):
    """One file of the store as it was seen."""

    blob: str  # its id, 40 or 64 hex digits
    size: int = -1  # bytes
    mtime: int = -1  # nanoseconds


Manifest = Mapping[str, Entry]  # store-relative path -> entry


def compute_object_id(kind: str, data: bytes, hash_name: str) -> str:
    """Return Git's name for an object; `hash_name` is the repository's object format."""
    import hashlib  # noqa: PLC0415 - 4 ms, for OpenSSL; a search hashes nothing

    return hashlib.new(
        hash_name, b"%b %d\0%b" % (kind.encode(), len(data), data), usedforsecurity=False
    ).hexdigest()


def compute_blob_id(data: bytes, hash_name: str = "sha1") -> str:
    """Return Git's name for these bytes as a file's content."""
    return compute_object_id("blob", data, hash_name)


class Change(NamedTuple):
    """One difference: `entry` is None for a removed file."""

    kind: str
    path: str
    entry: Entry | None


def iter_changes(before: Manifest, after: Manifest) -> Iterator[Change]:
    """Yield what must be done to bring an index built from `before` to `after`, in path order."""
    for path in sorted(before.keys() | after.keys()):
        old = before.get(path)
        new = after.get(path)
        if new is None:
            yield Change(REMOVED, path, None)
        elif old is None:
            yield Change(ADDED, path, new)
        elif old.blob != new.blob:
            yield Change(MODIFIED, path, new)


def list_visibility_changes(
    ids: Mapping[str, str],
    files: Manifest,
    other_changes: Iterable[Change],
    is_hidden: Callable[[str], bool],
) -> list[Change]:
    """Return what a tombstone hides, or hides no more, though its file is as it was.

    `ids`: of the records that are shown, by path; `news`: what differs anyway.
    """
    hidden_paths = {path for path, name in ids.items() if is_hidden(name)}
    paths = (hidden_paths | (files.keys() - ids.keys())) & files.keys()
    paths -= {change.path for change in other_changes}
    return [Change(MODIFIED, path, files[path]) for path in sorted(paths)]
