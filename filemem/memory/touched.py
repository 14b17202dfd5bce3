"""What a branch, the last session and the last days changed, as Git and its reflogs say."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from filemem.files import is_listed
from filemem.memory.store import Store
from filemem.repo import Branch, GitError, Repo
from filemem.repo.state import BRANCHES, moves, tip_of

DAYS = 14  # which are the last days
COMMITS = 200  # that are looked at for them
_DIFF = ("--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "-z")


def tips(repo: Repo, default: Branch) -> list[str]:
    """The tips of the default branch, here and on the remote: one of the two may be old."""
    ref = f"refs/remotes/origin/{default.name}"
    there = tip_of(repo.git, ref) if (repo.common_dir / "refs/remotes/origin").is_dir() else ""
    return [*dict.fromkeys(filter(None, (default.tip, there)))]


def _fields(
    repo: Repo, *words: str, data: bytes | None = None, config: Sequence[str] = ()
) -> list[str]:
    """Git's output with -z, as fields."""
    output = repo.git.run(*words, input=data, config=config)
    return output.decode("utf-8", "surrogateescape").split("\0")[:-1]


def between(repo: Repo, base: str, other: str, *below: str) -> dict[str, str]:
    """What `other` changed since it parted from `base`: blob by path, "" for a deleted file."""
    if base == other:
        return {}
    words = ("diff", "--raw", "--no-abbrev", *_DIFF)
    try:
        fields = _fields(repo, *words, f"{base}...{other}", "--", *below)
    except GitError:  # they have nothing in common, as far as this clone knows
        fields = _fields(repo, *words, base, other, "--", *below)
    blobs = (head.split(" ")[3] for head in fields[::2])
    pairs = zip(fields[1::2], blobs, strict=True)
    return {path: blob if blob.strip("0") else "" for path, blob in pairs}


def recent(repo: Repo, head: str) -> set[str]:
    """The files that commits changed in the last DAYS before HEAD's own: no clock is asked."""
    if not head:
        return set()
    words = ("log", "--format=/%ct", "--name-only", "--no-show-signature", f"-{COMMITS}")
    paths: set[str] = set()
    first = 0
    for field in _fields(repo, *words, *_DIFF, head, "--"):
        if field.startswith("/"):  # the time of a commit; no path begins so
            time = int(field[1:])
            first = first or time
            if first - time > DAYS * 86_400:
                break
        else:
            paths.add(field.removeprefix("\n"))
    return paths


def foreign(store: Store, blobs: Mapping[str, str]) -> set[str]:
    """The paths, among some records (blobs by path), that no commit made in this clone brought."""
    listed = {path: blob for path, blob in blobs.items() if blob and is_listed(path)}
    if not listed:
        return set()
    refs = ("HEAD", f"{BRANCHES}{store.code.branch()}")
    steps = [move for ref in refs for move in moves(store.code.git, ref)]
    made = {move.new for move in steps if move.saves or move.commits}
    how = [
        "--stdin",
        "-r",
        "--root",
        "--no-commit-id",
        "--raw",
        "--no-abbrev",
        "--no-renames",
        "-z",
        "--",
    ]
    data = "\n".join([*made, ""]).encode()
    fields = _fields(store.code, "diff-tree", *how, store.files.store, data=data)
    brought = {head.split(" ")[3] for head in fields[::2]}
    return {path for path, blob in listed.items() if blob not in brought}


def changed(store: Store, commit: str, at: float, unclean: Collection[str]) -> set[str]:
    """What changed since a commit, and which of some files were written since a time."""
    paths = set[str]()
    if commit.strip("0"):
        paths |= {*_fields(store.code, "diff", "--name-only", *_DIFF, commit, "HEAD", "--")}
    for path in unclean:
        with suppress(OSError):
            if (store.code.work_tree / path).lstat().st_mtime >= at:
                paths.add(path)
    return paths


def dirty(repo: Repo) -> set[str]:
    """The files of the work tree that differ from HEAD or are untracked.

    None if a filter would have to run.
    """
    unfiltered = repo.settings.unfiltered
    if unfiltered is None:
        return set()
    how = ("--porcelain", "--no-renames", "--untracked-files=all", "--ignore-submodules=all", "-z")
    return {row[3:] for row in _fields(repo, "status", *how, config=unfiltered)}


def session(store: Store, unclean: Collection[str]) -> set[str]:
    """What the last session changed; nothing if it saved a record."""
    start = ""
    at = 0
    for move in reversed(moves(store.code.git, "HEAD")):
        if not move.commits:
            at = move.at
            break
        start = move.old
    with suppress(GitError):  # a commit that is gone
        paths = changed(store, start, at + 1, unclean)
        written = (store.files.inside(path) for path in paths if store.files.holds(path))
        return set() if store.repo is store.code and any(map(is_listed, written)) else paths
    return set()
