"""What Git makes of two commits, and no trace of it: they are merged in a scratch repository, which then has the merge.

Rule: this is Git's own merge, through renames of files and folders and from any number of common ancestors. What both
sides changed is merged line by line; no driver, filter or attribute that a repository names has a say in it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from filemem.errors import BrokenStore, Conflict
from filemem.repo import shallow
from filemem.repo.discovery import Places
from filemem.repo.git import LONG, Git, GitError
from filemem.repo.scratch import make_scratch, quoted, temporary
from filemem.repo.settings import Settings

_BASE, _BRANCH, _MERGE = "refs/heads/base", "refs/heads/branch", "refs/heads/merge"
_PREFIX = "filemem-merge-"
_ALONE = {"GIT_ATTR_NOSYSTEM": "1"}
_PLAIN = (
    f"core.attributesFile={os.devnull}",
    "merge.default=text",
)  # the drivers of one user are not what others merge with
_PARTIAL = ("partialclone = ours",)  # so that what ours lacks is no damage in the other either
_USAGE = 129  # how Git ends for an option that it does not know
_CLASH = "CONFLICT"
_APART = frozenset(("file/directory", "distinct modes"))  # for these it makes up a name, such as `x.md~branch`
_BASES, _BRANCHES = "2", "3"  # Git's stages of what it could not merge


class Clash(NamedTuple):
    """What Git cannot merge.

    Args:
        kind: in Git's words for programs, such as "contents" or "modify/delete".
        paths: the files that it is about, from the top, the first as it would be in the work tree.
    """

    kind: str
    paths: tuple[str, ...]


class _Outcome(NamedTuple):
    """What `git merge-tree` says.

    Args:
        tree: of the merge.
        stages: mode and blob of what it could not merge, by path and stage.
        clashes: what that is.
        aside: what it had to give a name of its own, since the other side has something else there: path by that name.
    """

    tree: str
    stages: Mapping[str, Mapping[str, tuple[str, str]]]
    clashes: tuple[Clash, ...]
    aside: Mapping[str, str]


@contextlib.contextmanager
def merged(
    git: Git, settings: Settings, base: str, branch: str, changes: Mapping[str, bytes | None]
) -> Iterator[tuple[Git, tuple[Clash, ...]]]:
    """Merge a branch into its base, in a repository that is gone afterwards.

    Args:
        git: of our repository.
        settings: its configuration.
        base, branch: two commits.
        changes: what is to be changed on the branch first, bytes by path from the top, None removes.

    Returns:
        Git in that repository, whose HEAD is the merge: of what Git cannot merge it has the branch's version; and what
        that is.

    Raises:
        Conflict: the two have no history in common.
        BrokenStore: Git is too old for this, or lacks what it needs.
    """
    with temporary(_PREFIX, head=_MERGE) as folder:
        rows = _PARTIAL if shallow.partial(git.places.common_dir) else ()
        make_scratch(folder, git.places, settings, {_BASE: base, _BRANCH: branch}, head=_MERGE, rows=rows)
        there = git._replace(places=Places(folder, folder, folder))
        if changes:
            _commit(there, _BRANCH, (_BRANCH,), (_change(path, data) for path, data in sorted(changes.items())))
        outcome = _merged(there)
        _commit(there, _MERGE, (_BASE, _BRANCH), _rows(outcome))
        yield there, outcome.clashes


def _merged(git: Git) -> _Outcome:
    names = f"{_name(_BASE)} {_name(_BRANCH)}"  # what conflicting files are called after
    try:
        told = git.run("merge-tree", "--stdin", input=f"{names}\n".encode(), limit=LONG, config=_PLAIN, extra=_ALONE)
    except GitError as error:
        if error.code == _USAGE:
            raise BrokenStore(
                "what a merge would bring is asked of Git 2.39 or newer", "install one, or check without --base"
            ) from None
        if "unrelated histories" in error.stderr:
            raise Conflict("the two have no history in common") from None
        raise
    return _read(iter(told.decode("utf-8", "surrogateescape").split("\0")))


def _read(fields: Iterator[str]) -> _Outcome:
    """Read what `git merge-tree --stdin` tells of one merge."""
    next(fields)  # whether it is clean
    tree, stages, clashes = next(fields), dict[str, dict[str, tuple[str, str]]](), list[Clash]()
    while entry := next(fields, ""):
        head, _, path = entry.partition("\t")
        mode, oid, stage = head.split()
        stages.setdefault(path, {})[stage] = mode, oid
    while (count := next(fields, "")).isdigit():
        paths = tuple(next(fields) for _ in range(int(count)))
        kind, _ = next(fields), next(fields)
        if kind.startswith(_CLASH):
            clashes.append(Clash(kind.removeprefix(_CLASH).strip(" ()"), paths))
    aside = {name: path for clash in clashes for name, path in _named_apart(clash)}
    named = (clash._replace(paths=tuple(dict.fromkeys(aside.get(p, p) for p in clash.paths))) for clash in clashes)
    return _Outcome(tree, stages, tuple(named), aside)


def _named_apart(clash: Clash) -> Iterator[tuple[str, str]]:
    """The names that Git made up for two things that cannot stand at one path, each with that path."""
    if clash.kind in _APART:
        path = min(clash.paths, key=len)
        yield from ((name, path) for name in clash.paths if name.startswith(f"{path}~"))


def _rows(outcome: _Outcome) -> Iterator[bytes]:
    """The merge as the branch would have it, in the words of `git fast-import`."""
    yield _row("M 040000", outcome.tree, "")
    kept = {held[_BRANCHES] for held in outcome.stages.values() if held.keys() == {_BRANCHES}}
    for name, path in outcome.aside.items():
        yield _row("D", name)
        held = outcome.stages.get(name, {})
        if name.startswith(f"{path}~{_name(_BRANCH)}") and _BRANCHES in held:
            mode, oid = held[_BRANCHES]
            yield _row("D", path)
            yield _row(f"M {mode}", oid, path)
    for path, held in outcome.stages.items():
        if path in outcome.aside:
            continue
        if held.keys() >= {_BASES, _BRANCHES}:
            mode, oid = held[_BRANCHES]
            yield _row(f"M {mode}", oid, path)
        elif held.keys() == {_BASES} and held[_BASES] in kept:  # each side has given it another name
            yield _row("D", path)


def _name(ref: str) -> str:
    return ref.rpartition("/")[2]


def _change(path: str, data: bytes | None) -> bytes:
    if data is None:
        return _row("D", path)
    return _row("M 100644 inline", path) + f"data {len(data)}\n".encode() + data + b"\n"


def _row(*words: str) -> bytes:
    *plain, path = words
    return os.fsencode(f"{' '.join((*plain, quoted(path)))}\n")


def _commit(git: Git, ref: str, parents: tuple[str, ...], rows: Iterable[bytes]) -> None:
    """Make a commit of what some rows make of the tree of its first parent."""
    ways = (f"{way} {parent}^0\n".encode() for way, parent in zip(("from", "merge"), parents, strict=False))
    head = f"commit {ref}\ncommitter filemem <filemem> now\ndata 0\n".encode()
    stream = b"".join((head, *ways, *rows))
    git.run("fast-import", "--quiet", "--date-format=now", input=stream, limit=LONG, config=("core.fsync=none",))
