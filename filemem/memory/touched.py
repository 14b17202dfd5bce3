"""What a branch, the last session and the last days changed, from Git and its reflogs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property

from filemem.files import is_listed
from filemem.memory.store import Store
from filemem.repo import Branch, GitError, Repo
from filemem.repo.log import read_moves
from filemem.repo.state import BRANCHES, read_tip

RECENT_DAYS = 14
MAX_COMMITS = 200  # commits of those days that are read
_DIFF_OPTIONS = ("--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "-z")


class BranchView:
    """The current branch beside the default one: what each changed since they parted.

    Each part is read on first use. A whole brief runs Git four times if references are files and
    origin is neither ahead nor behind, and once more on the default branch.
    """

    def __init__(self, store: Store) -> None:
        code = store.code
        default = code.find_default_branch()
        self.store = store
        self.has_own_branch = store.repo is not code  # the records have a branch of their own
        self.head = code.read_head() or ""
        self.name = code.read_branch() or ""
        self.default = default.name if default else ""
        self._tips = list_tips(code, default) if default and self.head else []

    @cached_property
    def dirty_paths(self) -> set[str]:
        """The files of the work tree that are not committed."""
        return read_dirty_paths(self.store.code)

    @cached_property
    def changed_blobs(self) -> dict[str, str]:
        """What this branch changed since it left each tip of the default branch: blob by path."""
        sides = [read_changed_blobs(self.store.code, tip, self.head) for tip in self._tips]
        if not sides:
            return {}
        first_side = sides[0]
        common_paths = set(first_side).intersection(*sides)
        return {path: blob for path, blob in first_side.items() if path in common_paths}

    @cached_property
    def default_blobs(self) -> dict[str, str]:
        """The records that the default branch changed since then: blob by store path."""
        if self.has_own_branch:
            return {}
        files = self.store.files
        blobs: dict[str, str] = {}
        for tip in self._tips:
            blobs |= read_changed_blobs(self.store.code, self.head, tip, files.store)
        return {files.to_store_path(path): blob for path, blob in blobs.items()}

    @cached_property
    def foreign_paths(self) -> set[str]:
        """The records that others brought to this branch alone, as store paths."""
        if self.has_own_branch:
            return set()
        files = self.store.files
        changed_blobs = self.changed_blobs
        if self.head and not self.default:
            changed_blobs = self.store.code.list_files(self.head, files.store)
        default_blobs = self.default_blobs
        branch_blobs: dict[str, str] = {}
        for path, blob in changed_blobs.items():
            store_path = files.to_store_path(path)
            if files.is_in_store(path) and default_blobs.get(store_path) != blob:
                branch_blobs[store_path] = blob
        return read_foreign_paths(self.store, branch_blobs) | self._list_merging()

    def _list_merging(self) -> set[str]:
        """List the uncommitted records of an open merge."""
        code = self.store.code
        files = self.store.files
        if not code.find_busy_reason() and not (code.git_dir / "SQUASH_MSG").exists():
            return set()
        return {files.to_store_path(path) for path in self.dirty_paths if files.is_in_store(path)}

    @cached_property
    def code_paths(self) -> set[str]:
        """The files of code that the branch touches."""
        return self._filter_code({*self.changed_blobs, *self.dirty_paths})

    def list_session_paths(self) -> set[str]:
        """List the files of code that the last session changed; none if it saved a record."""
        return self._filter_code(read_session_paths(self.store, self.dirty_paths))

    def list_recent_paths(self) -> set[str]:
        """List the files of code that changed in the last days."""
        return self._filter_code(read_recent_paths(self.store.code, self.head))

    def _filter_code(self, paths: Collection[str]) -> set[str]:
        if self.has_own_branch:
            return set(paths)
        return {path for path in paths if not self.store.files.is_in_store(path)}


def list_tips(repo: Repo, default: Branch) -> list[str]:
    """List the tips of the default branch, here and on the remote: either may be outdated."""
    tips: dict[str, None] = {}
    if default.tip:
        tips[default.tip] = None
    if (repo.common_dir / "refs/remotes/origin").is_dir():
        remote_tip = read_tip(repo.git, f"refs/remotes/origin/{default.name}")
        if remote_tip:
            tips[remote_tip] = None
    return list(tips)


def _read_fields(
    repo: Repo, *arguments: str, data: bytes | None = None, config: Sequence[str] = ()
) -> list[str]:
    """Run Git with -z and return the fields of its output."""
    output = repo.git.run(*arguments, input_data=data, config=config)
    text = output.decode("utf-8", "surrogateescape")
    fields = text.split("\0")
    return fields[:-1]  # behind the last separator is nothing


def read_changed_blobs(repo: Repo, base: str, other: str, *folders: str) -> dict[str, str]:
    """Read what `other` changed since it left `base`: blob by path, "" for a deleted file."""
    if base == other:
        return {}
    arguments = ("diff", "--raw", "--no-abbrev", *_DIFF_OPTIONS)
    try:
        fields = _read_fields(repo, *arguments, f"{base}...{other}", "--", *folders)
    except GitError:  # no common ancestor in this clone
        fields = _read_fields(repo, *arguments, base, other, "--", *folders)
    blobs: dict[str, str] = {}
    for header, path in _iter_files(fields):
        blob = _get_new_blob(header)
        is_deleted = not blob.strip("0")
        blobs[path] = "" if is_deleted else blob
    return blobs


def _iter_files(fields: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the header and the path of each file in the raw output of a diff."""
    for position in range(0, len(fields), 2):
        yield fields[position], fields[position + 1]


def _get_new_blob(header: str) -> str:
    return header.split(" ")[3]


def read_recent_paths(repo: Repo, head: str) -> set[str]:
    """Read the files that commits changed in the last RECENT_DAYS before HEAD's own time."""
    if not head:
        return set()
    arguments = ("log", "--format=/%ct", "--name-only", "--no-show-signature", f"-{MAX_COMMITS}")
    paths: set[str] = set()
    newest_time = 0
    for field in _read_fields(repo, *arguments, *_DIFF_OPTIONS, head, "--"):
        if not field.startswith("/"):
            paths.add(field.removeprefix("\n"))
            continue
        time = int(field[1:])  # of a commit; no path begins with a slash
        if not newest_time:
            newest_time = time
        if newest_time - time > RECENT_DAYS * 86_400:
            break
    return paths


def read_foreign_paths(store: Store, blobs: Mapping[str, str]) -> set[str]:
    """Return which records (blobs by path) no commit made in this clone brought."""
    record_blobs = {path: blob for path, blob in blobs.items() if blob and is_listed(path)}
    if not record_blobs:
        return set()
    own_blobs = _read_own_blobs(store)
    return {path for path, blob in record_blobs.items() if blob not in own_blobs}


def _read_own_blobs(store: Store) -> set[str]:
    """Read the blobs of records in the commits that were made in this clone."""
    git = store.code.git
    own_commits = set[str]()
    for ref in ("HEAD", f"{BRANCHES}{store.code.read_branch()}"):
        moves = read_moves(git, ref)
        own_commits.update(move.new_tip for move in moves if move.is_save or move.is_commit)
    fields = _read_fields(
        store.code,
        "diff-tree",
        "--stdin",
        "-r",
        "--root",
        "--no-commit-id",
        "--raw",
        "--no-abbrev",
        "--no-renames",
        "-z",
        "--",
        store.files.store,
        data="\n".join([*own_commits, ""]).encode(),
    )
    return {_get_new_blob(header) for header, _ in _iter_files(fields)}


def read_changed_paths(
    store: Store, commit: str, since: float, dirty_paths: Collection[str]
) -> set[str]:
    """Return what changed since a commit, and the uncommitted files written since a time."""
    paths = set[str]()
    if commit.strip("0"):
        arguments = ("diff", "--name-only", *_DIFF_OPTIONS, commit, "HEAD", "--")
        paths.update(_read_fields(store.code, *arguments))
    for path in dirty_paths:
        with suppress(OSError):
            if (store.code.work_tree / path).lstat().st_mtime >= since:
                paths.add(path)
    return paths


def read_dirty_paths(repo: Repo) -> set[str]:
    """Read the files of the work tree that differ from HEAD or are untracked.

    Returns:
        Nothing if Git would have to run a filter.
    """
    unfiltered_config = repo.settings.no_filter_settings
    if unfiltered_config is None:
        return set()
    rows = _read_fields(
        repo,
        "status",
        "--porcelain",
        "--no-renames",
        "--untracked-files=all",
        "--ignore-submodules=all",
        "-z",
        config=unfiltered_config,
    )
    return {row[3:] for row in rows}


def read_session_paths(store: Store, dirty_paths: Collection[str]) -> set[str]:
    """Return what the last session changed; nothing if it saved a record."""
    first_commit = ""
    session_start = 0
    for move in reversed(read_moves(store.code.git, "HEAD")):
        if not move.is_commit:
            session_start = move.seconds
            break
        first_commit = move.old_tip
    try:
        paths = read_changed_paths(store, first_commit, session_start + 1, dirty_paths)
    except GitError:  # the commit no longer exists
        return set()
    if store.repo is store.code and _has_record(store, paths):
        return set()
    return paths


def _has_record(store: Store, paths: Iterable[str]) -> bool:
    for path in paths:
        if store.files.is_in_store(path) and is_listed(store.files.to_store_path(path)):
            return True
    return False
