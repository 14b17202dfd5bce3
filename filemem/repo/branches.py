"""Branches: which one is the default, what one was at a time, how two stand to each other. Rule: Git is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from filemem.repo.run import GitError, read

if TYPE_CHECKING:
    from filemem.repo import Repo

ORIGIN = "origin"  # whose word on the default branch counts
USUAL = ("main", "master", "trunk")
_HEADS, _THERE = "refs/heads/", f"refs/remotes/{ORIGIN}/"


class Branch(NamedTuple):
    """A branch: its name without `refs/heads/` or the remote's, and its last commit."""

    name: str
    tip: str


_known: WeakKeyDictionary[Repo, tuple[list[tuple[str, int]], Branch | None]] = WeakKeyDictionary()


def default_branch(repo: Repo) -> Branch | None:
    """The default branch, as it is here or else as it was last seen on the other side; None where none can be found.

    It is what the other side says it is (`refs/remotes/origin/HEAD`), else the first of the usual names that there is,
    else the only branch. Where files do not show it, Git is asked, again when a reference was written since.
    """
    refs = repo.common_dir / "refs"
    name = read(refs / "remotes" / ORIGIN / "HEAD").removeprefix(f"ref: {_THERE}") or USUAL[0]
    if (tip := read(refs / "heads" / name)) and not tip.startswith("ref: "):
        return Branch(name, tip)
    # Git replaces files, so their folders show it.
    places = [repo.common_dir / "packed-refs", repo.common_dir / "reftable" / "tables.list", refs / "heads"]
    stamps = [(str(one), one.stat().st_mtime_ns) for one in (*places, *sorted(refs.glob("remotes/*"))) if one.exists()]
    if (known := _known.get(repo)) is None or known[0] != stamps:
        asked = ("for-each-ref", "--format=%(refname)%00%(objectname)%00%(symref)", _HEADS, _THERE)
        rows = [row.split("\0") for row in repo.git.run(*asked).decode("utf-8", "surrogateescape").splitlines()]
        tips = {ref: oid for ref, oid, target in rows if not target}
        stated = [target.removeprefix(_THERE) for ref, _, target in rows if ref == f"{_THERE}HEAD"]
        here = [ref.removeprefix(_HEADS) for ref in tips if ref.startswith(_HEADS)]
        names = (*stated, *USUAL, *(here if len(here) == 1 else ()))
        found = (Branch(name, tips[at + name]) for name in names for at in (_HEADS, _THERE) if at + name in tips)
        known = _known[repo] = stamps, next(found, None)
    return known[1]


def at_time(repo: Repo, tip: str, when: int) -> str:
    """What a branch was at a time (epoch ms), along its first parents; "" before its first commit."""
    asked = ("rev-list", "--first-parent", "-1", f"--before={when // 1000}", tip, "--")
    return repo.git.run(*asked).decode().strip()


def parted(repo: Repo, one: str, other: str) -> str:
    """The last commit that two have in common; "" where there is none."""
    try:
        return repo.git.run("merge-base", one, other).decode().split("\n")[0]
    except GitError as error:
        if error.code == 1:
            return ""
        raise


def between(repo: Repo, commit: str, without: str) -> int:
    """How many commits one has that another has not."""
    return int(repo.git.run("rev-list", "--count", commit, f"^{without}", "--"))
