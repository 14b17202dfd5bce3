"""What a branch, the last session and the last days changed, as Git and its reflogs say."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cached_property

from filemem.files import is_listed
from filemem.memory.store import Store
from filemem.repo import Branch, GitError, Repo
from filemem.repo.state import BRANCHES, read_moves, read_tip

RECENT_DAYS = 14  # which are the last days
MAX_COMMITS = 200  # that are looked at for them
_DIFF_OPTIONS = ("--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "-z")


class BranchView:
    """The current branch beside the default one: what each changed since they parted.

    What is asked is found when it is first asked for. A whole brief calls Git four times, if
    references are files and origin is neither ahead nor behind, and once more on the default
    branch.
    """

    def __init__(self, store: Store) -> None:
        code = store.code
        default_name = code.find_default_branch()
        self.store = store
        self.has_own_branch = store.repo is not code  # the records have a branch of their own
        self.head = code.read_head() or ""
        self.name = code.read_branch() or ""
        self.default = default_name.name if default_name else ""
        self._tips = list_tips(code, default_name) if default_name and self.head else []

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
        changed = set(sides[0]).intersection(*sides)
        return {path: blob for path, blob in sides[0].items() if path in changed}

    @cached_property
    def default_blobs(self) -> dict[str, str]:
        """What the default branch changed of the records since: blob by path in the store."""
        code_paths = self.store.files
        blobs: dict[str, str] = {}
        for tip in () if self.has_own_branch else self._tips:
            blobs |= read_changed_blobs(self.store.code, self.head, tip, code_paths.store)
        return {code_paths.to_store_path(path): blob for path, blob in blobs.items()}

    @cached_property
    def foreign_paths(self) -> set[str]:
        """The paths in the store of the records that others brought to this branch alone."""
        if self.has_own_branch:
            return set()
        files = self.store.files
        changed_blobs = self.changed_blobs
        if self.head and not self.default:
            changed_blobs = self.store.code.list_files(self.head, files.store)
        records = {
            files.to_store_path(path): blob
            for path, blob in changed_blobs.items()
            if files.is_in_store(path)
        }
        default = self.default_blobs
        own_blobs = {path: blob for path, blob in records.items() if default.get(path) != blob}
        return read_foreign_paths(self.store, own_blobs) | self._list_merging()

    def _list_merging(self) -> set[str]:
        """The records that an open merge has brought: they are not committed yet."""
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
        """The files of code that the last session changed; none if it saved a record."""
        return self._filter_code(read_session_paths(self.store, self.dirty_paths))

    def list_recent_paths(self) -> set[str]:
        """The files of code that changed in the last days."""
        return self._filter_code(read_recent_paths(self.store.code, self.head))

    def _filter_code(self, paths: Collection[str]) -> set[str]:
        return {
            path for path in paths if self.has_own_branch or not self.store.files.is_in_store(path)
        }


def list_tips(repo: Repo, default: Branch) -> list[str]:
    """The tips of the default branch, here and on the remote: one of the two may be old."""
    ref = f"refs/remotes/origin/{default.name}"
    remote_tip = (
        read_tip(repo.git, ref) if (repo.common_dir / "refs/remotes/origin").is_dir() else ""
    )
    return [*dict.fromkeys(filter(None, (default.tip, remote_tip)))]


def _read_fields(
    repo: Repo, *arguments: str, data: bytes | None = None, config: Sequence[str] = ()
) -> list[str]:
    """Git's output with -z, as fields."""
    output = repo.git.run(*arguments, input_data=data, config=config)
    return output.decode("utf-8", "surrogateescape").split("\0")[:-1]


def read_changed_blobs(repo: Repo, base: str, other: str, *folders: str) -> dict[str, str]:
    """What `other` changed since it parted from `base`: blob by path, "" for a deleted file."""
    if base == other:
        return {}
    arguments = ("diff", "--raw", "--no-abbrev", *_DIFF_OPTIONS)
    try:
        fields = _read_fields(repo, *arguments, f"{base}...{other}", "--", *folders)
    except GitError:  # they have nothing in common, as far as this clone knows
        fields = _read_fields(repo, *arguments, base, other, "--", *folders)
    blobs = (head.split(" ")[3] for head in fields[::2])
    pairs = zip(fields[1::2], blobs, strict=True)
    return {path: blob if blob.strip("0") else "" for path, blob in pairs}


def read_recent_paths(repo: Repo, head: str) -> set[str]:
    """The files that commits changed in the last DAYS before HEAD's own: no clock is asked."""
    if not head:
        return set()
    arguments = ("log", "--format=/%ct", "--name-only", "--no-show-signature", f"-{MAX_COMMITS}")
    paths: set[str] = set()
    newest_time = 0
    for field in _read_fields(repo, *arguments, *_DIFF_OPTIONS, head, "--"):
        if field.startswith("/"):  # the time of a commit; no path begins so
            time = int(field[1:])
            newest_time = newest_time or time
            if newest_time - time > RECENT_DAYS * 86_400:
                break
        else:
            paths.add(field.removeprefix("\n"))
    return paths


def read_foreign_paths(store: Store, blobs: Mapping[str, str]) -> set[str]:
    """The paths, among some records (blobs by path), that no commit made in this clone brought."""
    record_blobs = {path: blob for path, blob in blobs.items() if blob and is_listed(path)}
    if not record_blobs:
        return set()
    refs = ("HEAD", f"{BRANCHES}{store.code.read_branch()}")
    steps = [move for ref in refs for move in read_moves(store.code.git, ref)]
    own_commits = {move.new_tip for move in steps if move.is_save or move.is_commit}
    options = [
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
    data = "\n".join([*own_commits, ""]).encode()
    fields = _read_fields(store.code, "diff-tree", *options, store.files.store, data=data)
    own_blobs = {head.split(" ")[3] for head in fields[::2]}
    return {path for path, blob in record_blobs.items() if blob not in own_blobs}


def read_changed_paths(
    store: Store, commit: str, since: float, dirty_paths: Collection[str]
) -> set[str]:
    """What changed since a commit, and which of some files were written since a time."""
    paths = set[str]()
    if commit.strip("0"):
        paths |= {
            *_read_fields(store.code, "diff", "--name-only", *_DIFF_OPTIONS, commit, "HEAD", "--")
        }
    for path in dirty_paths:
        with suppress(OSError):
            if (store.code.work_tree / path).lstat().st_mtime >= since:
                paths.add(path)
    return paths


def read_dirty_paths(repo: Repo) -> set[str]:
    """The files of the work tree that differ from HEAD or are untracked.

    None if a filter would have to run.
    """
    unfiltered_config = repo.settings.no_filter_settings
    if unfiltered_config is None:
        return set()
    options = (
        "--porcelain",
        "--no-renames",
        "--untracked-files=all",
        "--ignore-submodules=all",
        "-z",
    )
    return {row[3:] for row in _read_fields(repo, "status", *options, config=unfiltered_config)}


def read_session_paths(store: Store, dirty_paths: Collection[str]) -> set[str]:
    """What the last session changed; nothing if it saved a record."""
    first_commit = ""
    session_start = 0
    for move in reversed(read_moves(store.code.git, "HEAD")):
        if not move.is_commit:
            session_start = move.seconds
            break
        first_commit = move.old_tip
    with suppress(GitError):  # a commit that is gone
        paths = read_changed_paths(store, first_commit, session_start + 1, dirty_paths)
        written_paths = (
            store.files.to_store_path(path) for path in paths if store.files.is_in_store(path)
        )
        return set() if store.repo is store.code and any(map(is_listed, written_paths)) else paths
    return set()
