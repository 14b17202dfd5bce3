"""What a branch, the last session and the last days changed, as Git and its reflogs say."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cached_property

from filemem.files import is_listed
from filemem.memory.store import Store
from filemem.repo import Branch, GitError, Repo
from filemem.repo.state import BRANCHES, moves, tip_of

DAYS = 14  # which are the last days
COMMITS = 200  # that are looked at for them
_DIFF = ("--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "-z")


class BranchView:
    """The current branch beside the default one: what each changed since they parted.

    What is asked is found when it is first asked for. A whole brief calls Git four times, if
    references are files and origin is neither ahead nor behind, and once more on the default
    branch.
    """

    def __init__(self, store: Store) -> None:
        code = store.code
        default = code.default_branch()
        self.store = store
        self.own_branch = store.repo is not code  # the records have a branch of their own
        self.head = code.head() or ""
        self.name = code.branch() or ""
        self.default = default.name if default else ""
        self._tips = tips(code, default) if default and self.head else []

    @cached_property
    def dirty(self) -> set[str]:
        """The files of the work tree that are not committed."""
        return dirty(self.store.code)

    @cached_property
    def changes(self) -> dict[str, str]:
        """What this branch changed since it left each tip of the default branch: blob by path."""
        sides = [between(self.store.code, tip, self.head) for tip in self._tips]
        if not sides:
            return {}
        changed = set(sides[0]).intersection(*sides)
        return {path: blob for path, blob in sides[0].items() if path in changed}

    @cached_property
    def default_changes(self) -> dict[str, str]:
        """What the default branch changed of the records since: blob by path in the store."""
        files = self.store.files
        blobs: dict[str, str] = {}
        for tip in () if self.own_branch else self._tips:
            blobs |= between(self.store.code, self.head, tip, files.store)
        return {files.inside(path): blob for path, blob in blobs.items()}

    @cached_property
    def foreign(self) -> set[str]:
        """The paths in the store of the records that others brought to this branch alone."""
        if self.own_branch:
            return set()
        files = self.store.files
        changes = self.changes
        if self.head and not self.default:
            changes = self.store.code.listing(self.head, files.store)
        records = {files.inside(path): blob for path, blob in changes.items() if files.holds(path)}
        default = self.default_changes
        own = {path: blob for path, blob in records.items() if default.get(path) != blob}
        return foreign(self.store, own) | self._merging()

    def _merging(self) -> set[str]:
        """The records that an open merge has brought: they are not committed yet."""
        code = self.store.code
        files = self.store.files
        if not code.busy() and not (code.git_dir / "SQUASH_MSG").exists():
            return set()
        return {files.inside(path) for path in self.dirty if files.holds(path)}

    @cached_property
    def files(self) -> set[str]:
        """The files of code that the branch touches."""
        return self._code({*self.changes, *self.dirty})

    def session(self) -> set[str]:
        """The files of code that the last session changed; none if it saved a record."""
        return self._code(session(self.store, self.dirty))

    def recent(self) -> set[str]:
        """The files of code that changed in the last days."""
        return self._code(recent(self.store.code, self.head))

    def _code(self, paths: Collection[str]) -> set[str]:
        return {path for path in paths if self.own_branch or not self.store.files.holds(path)}


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
