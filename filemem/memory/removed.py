"""Records that were removed: finding one again by its name, and what takes one out of history for good."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import NotFound
from filemem.memory import home, tombstones
from filemem.record import Record, parse, short_id

if TYPE_CHECKING:
    from filemem.memory.store import Store


class Gone(NamedTuple):
    """A record that was removed, or is hidden: what it last said, where it stood, and its bytes."""

    record: Record
    path: str
    data: bytes


def find(store: Store, wanted: str) -> Gone:
    """Find a record that was removed, by id, unique start of its short id, path, file name or title.

    Args:
        store: the parts.
        wanted: any of these.

    Raises:
        NotFound: none or several answer to it.
    """
    inside = store.asked(wanted)
    found = {one.record.id: one for one in _gone(store) if _goes_by(one, inside)}
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        told = "; ".join(f"{one.record.title} ({short_id(one.record.id)})" for one in found.values())
        raise NotFound(f"{len(found)} removed records answer to {wanted!r}: {told}", "name one by its short id or path")
    missing = " in the part of history that is here" if store.repo.history.boundary() else ""
    raise NotFound(f"no record {wanted!r} was removed{missing}", "git log --diff-filter=D --name-only lists what was")


def _gone(store: Store) -> Iterator[Gone]:
    """Every record that history shows to have been removed, and those that stand but are hidden."""
    walk, known = store.history.walk(store.files.store), store.tombstones
    for path, last in walk.removed.items():
        data = store.repo.blob(last.blob)
        if path.endswith(".md") and data is not None:
            yield from _read(store.files.inside(path), data)
    for path in walk.births if known else ():
        inside = store.files.inside(path)
        if path.endswith(".md") and store.files.exists(inside):
            yield from (
                one for one in _read(inside, store.files.read(inside)) if tombstones.forgotten(one.record.id, known)
            )


def _read(path: str, data: bytes) -> Iterator[Gone]:
    record = parse(data, path).record
    if record is not None:
        yield Gone(record, path, data)


def _goes_by(gone: Gone, wanted: str) -> bool:
    short = short_id(gone.record.id)
    names = {gone.record.id, gone.path, posixpath.basename(gone.path), gone.record.title}
    return wanted in names or (len(wanted) >= 4 and short.startswith(wanted))


# What a message says of a record goes; trailers stay, for they tie the commit to others.
_MESSAGE = (
    'awk \'{ row[NR] = $0 } index($0, "Filemem-Id: %s") { ours = 1 } END { for (n = 1; n <= NR; n++) '
    'if (!ours || (n > 1 && row[n] ~ /^$|^[A-Z][A-Za-z-]*: /)) print row[n]; else if (n == 1) print "purged" }\''
)


def purging(store: Store, path: str, record_id: str) -> tuple[str, ...]:
    """The commands that take a record out of history for good, which is the user's decision and never ours.

    Args:
        store: the parts.
        path: of the record, store-relative.
        record_id: its id, by which the messages of its commits are found.
    """
    named = store.files.named(path)
    log = store.repo.history.logs({named: ""}, beyond=True)[named]  # before it was brought back, too
    paths = sorted({revision.path for revision in log} | {named})
    remove = f"git --literal-pathspecs rm -q --cached --ignore-unmatch -- {' '.join(map(shlex.quote, paths))}"
    unsaid = _MESSAGE % record_id
    span = f"refs/heads/{store.repo.branch()}" if store.files.store == home.TOP else "--all"
    rewrite = (
        "FILTER_BRANCH_SQUELCH_WARNING=1 git filter-branch -f --tag-name-filter cat "
        f"--index-filter {shlex.quote(remove)} --msg-filter {shlex.quote(unsaid)} -- {span}",
        "git for-each-ref --format='delete %(refname)' refs/original | git update-ref --stdin",
    )
    sharing = store.repo.sharing
    branch = store.repo.branch() or ""
    name = sharing.upstream(branch) or sharing.usual(branch)
    if name is not None:
        return (
            f"git clone --mirror {shlex.quote(name.push_url)} purge.git && cd purge.git",
            *rewrite,
            "git push --force --mirror",
        )
    ours = shlex.quote(str(store.repo.shared))
    index = shlex.quote(str(store.index.root))
    return (
        f"cd {shlex.quote(str(store.repo.work_tree))}",
        *rewrite,
        f"rm -rf {ours}/recent {index}",
        "git reflog expire --expire=now --expire-unreachable=now --all && git gc -q --prune=now",
    )
