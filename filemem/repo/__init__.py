"""Git: the only package that runs it. It knows nothing of records.

Paths are relative to the top of the work tree.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from filemem.changes import compute_object_id
from filemem.errors import BrokenStore, FilememError
from filemem.repo import disk, served, settings, staged, state
from filemem.repo.objects import ObjectDatabase, TreeItem
from filemem.repo.run import (
    LONG_LIMIT,
    Git,
    GitError,
    GitFolders,
    build_environment,
    end_process,
    find_git,
    find_repository,
    finish_process,
    list_entry_names,
    read_file_stamp,
    read_git_file,
)
from filemem.repo.settings import GitSettings
from filemem.repo.state import Branch, SaveLock

__all__ = ["Branch", "Git", "GitError", "Repo"]

FOLDER = "filemem"  # our folder in Git directories
_MAX_PATHS = 1_000  # paths on one command line
_MIN_HASHED_FILES = 64  # up to so many files, hashing is faster than asking Git
_ENTRIES_PER_HASH = 20  # entries of Git's index that are read while one file is hashed
_DEFAULT_NAMES = ("main", "master", "trunk")
_LOCAL_BRANCHES = state.BRANCHES
_REMOTE_BRANCHES = "refs/remotes/origin/"


class Repo:
    """A Git repository with a work tree; see `mirror` for one without.

    Use `discover`; `close` when done.
    """

    def __init__(
        self, path: Path, environment: Mapping[str, str], folders: GitFolders | None = None
    ) -> None:
        self.folders = folders or find_repository(path)
        self.work_tree = self.folders.work_tree
        self.git_dir = self.folders.git_dir
        self.common_dir = self.folders.common_dir
        self.private_folder = self.git_dir / FOLDER
        self.shared_folder = self.common_dir / FOLDER  # stays when a linked work tree is removed
        # Files for the work tree are written here before they are renamed into it.
        self.spool = self.private_folder / "spool"
        # What the last check of saves found wrong, with the command that helps.
        self.trouble = ""
        # HEAD and index when all recent saves were found in them.
        self.settled_state: object = None
        self.environment = environment
        program = find_git(environment, self.work_tree)
        self.git = Git(program, self.folders, build_environment(environment))
        self.objects = ObjectDatabase(self)
        self._lock = SaveLock(self.shared_folder)
        self._settings = GitSettings({})
        self._settings_stamps: object = None  # of Git's configuration files, when last read

    @classmethod
    def discover(
        cls,
        path: str | Path,
        *,
        environment: Mapping[str, str] | None = None,
        folders: GitFolders | None = None,
    ) -> Repo:
        """Find the repository of a folder, or use `folders`: its Git directory may be elsewhere.

        Raises NotFound; BrokenStore: no work tree, or no Git.
        """
        # Only `config` reads the environment otherwise; here it is only passed on to Git.
        if environment is None:
            environment = os.environ
        repo = cls(Path(path), environment, folders)
        if folders:
            git_environment = {**repo.git.environment, "GIT_DIR": str(folders.git_dir)}
            repo.git = repo.git._replace(environment=git_environment)
        return repo

    # what it is

    @property
    def settings(self) -> GitSettings:
        """Git's configuration; read again when one of its files has changed."""
        files = settings.list_config_files(self.git)
        stamps = [read_file_stamp(file) for file in files]
        if self._settings_stamps != stamps:
            self._settings = settings.load_settings(self.git)
            self._settings_stamps = stamps
        return self._settings

    @property
    def abandoned_search_count(self) -> int:
        """How many searches for a prompt hooks gave up here."""
        return served.read_abandoned_count(self.private_folder)

    @cached_property
    def hash_name(self) -> str:
        """The object format: "sha1" or "sha256"."""
        return self.settings.get_text("extensions.objectformat") or "sha1"

    def compute_blob_id(self, data: bytes) -> str:
        """Compute the id of these bytes as a blob."""
        return compute_object_id("blob", data, self.hash_name)

    def require_identity(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Return author and committer of our commits, each a name and an address.

        Raises BadInput if Git knows none.
        """
        config = self.settings
        author = config.require_identity("author", self.environment)
        committer = config.require_identity("committer", self.environment)
        return author, committer

    def describe_missing_history(self) -> str:
        """Say what a shallow or partial clone lacks of history; "" for nothing."""
        if (self.common_dir / "shallow").exists():
            kind = "a shallow clone"
            command = "git fetch --unshallow"
        elif self.is_partial:
            kind = "a partial clone"
            command = "git fetch --refetch --no-filter"
        else:
            return ""
        return f"history is incomplete here: {kind} (`{command}` brings the rest)"

    @property
    def is_partial(self) -> bool:
        """Whether it is a partial clone."""
        return any((self.common_dir / "objects" / "pack").glob("*.promisor"))

    @property
    def shallow_boundary(self) -> frozenset[str]:
        """The commits at which a shallow clone ends; their files may be older than they are."""
        return frozenset(read_git_file(self.common_dir / "shallow").split())

    @property
    def index_entry_count(self) -> int:
        """How many entries the index file has; few if it is a split index."""
        try:
            with (self.git_dir / "index").open("rb") as file:
                return int.from_bytes(file.read(12)[8:], "big")
        except OSError:
            return 0

    # where it stands

    def read_head(self) -> str | None:
        """Read the id of the current commit; None before the first one. Raises BrokenStore."""
        return state.read_head_branch(self.git).tip or None

    def read_branch(self) -> str | None:
        """Read the short name of the current branch; None if HEAD is detached."""
        return state.read_head_ref(self.git).removeprefix(state.BRANCHES) or None

    def find_busy_reason(self) -> str:
        """Return why a commit must wait ("a rebase is in progress"), or ""."""
        return state.find_busy_reason(self.folders)

    def resolve_revision(self, rev: str) -> str | None:
        """Find the commit that a revision names: a branch, tag, id or the like; None for none."""
        if not rev.isprintable():
            return None
        arguments = ("-q", "--verify", "--end-of-options", f"{rev}^{{commit}}")
        try:
            return self.git.run("rev-parse", *arguments).decode().strip()
        except GitError:
            return None

    def find_default_branch(self) -> Branch | None:
        """Find the default branch, here or else as last seen on `origin`; None for none.

        It is the one that `origin` names, else the first usual name that exists, else the only
        branch.
        """
        remote_head = read_git_file(self.common_dir / _REMOTE_BRANCHES / "HEAD")
        remote_default = remote_head.removeprefix(f"ref: {_REMOTE_BRANCHES}")
        names = [remote_default] if remote_default else []
        names += _DEFAULT_NAMES
        for name in names:
            for side in (_LOCAL_BRANCHES, _REMOTE_BRANCHES):
                tip = state.read_tip(self.git, side + name)
                if tip:
                    return Branch(name, tip)
        return self._find_only_branch()

    def _find_only_branch(self) -> Branch | None:
        """Find the branch of a repository that has one; None if it has none or several."""
        row_format = "--format=%(objectname) %(refname:lstrip=2)"
        rows = self.git.run("for-each-ref", row_format, _LOCAL_BRANCHES).splitlines()
        if len(rows) != 1:
            return None
        tip, _, name = os.fsdecode(rows[0]).partition(" ")
        return Branch(name, tip)

    def read_current_branch(self) -> Branch:
        """Read the branch that is checked out."""
        return Branch(self.read_branch() or "", self.read_head() or "")

    def list_default_tips(self) -> list[str]:
        """List the tips of the default branch, here and as last seen on `origin`."""
        branch = self.find_default_branch()
        if branch is None:
            return []
        sides = (_LOCAL_BRANCHES, _REMOTE_BRANCHES)
        tips = [state.read_tip(self.git, side + branch.name) for side in sides]
        return [tip for tip in tips if tip]

    def list_work_trees(self) -> list[Path]:
        """List the top folders of all work trees of the repository."""
        answer = self.git.run("worktree", "list", "--porcelain")
        paths = []
        for row in answer.decode("utf-8", "surrogateescape").splitlines():
            word, _, path = row.partition(" ")
            if word == "worktree":
                paths.append(Path(path))
        return paths

    def find_commit_at(self, tip: str, timestamp: int) -> str:
        """Find what a branch was at a time (epoch ms), along its first parents; "" for nothing."""
        arguments = ("rev-list", "--first-parent", "-1", f"--before={timestamp // 1000}", tip, "--")
        return self.git.run(*arguments).decode().strip()

    def find_merge_base(self, first_commit: str, second_commit: str) -> str:
        """Find the last commit that two commits have in common; "" for none."""
        try:
            answer = self.git.run("merge-base", first_commit, second_commit)
        except GitError as error:
            if error.code == 1:
                return ""
            raise
        return answer.decode().split("\n")[0]

    def count_commits(self, commit: str, excluded: str) -> int:
        """Count the commits that `commit` reaches and `excluded` does not."""
        return int(self.git.run("rev-list", "--count", commit, f"^{excluded}", "--"))

    # reading

    def read_blob(self, oid: str, max_size: int | None = None) -> bytes | None:
        """Read a blob by its id; None if it is missing or larger than `max_size` bytes."""
        return self.objects.read_object(oid, "blob", max_size)

    def iter_blobs(self, oids: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """Read many blobs by id, in order: id and bytes; None for one that is missing."""
        wanted_ids = tuple(oids)
        yield from zip(wanted_ids, self.objects.iter_objects(wanted_ids), strict=True)

    def list_files(self, commit: str, folder: str, max_size: int = -1) -> dict[str, str]:
        """List the regular files below a folder ("." for all) in a commit: path -> blob id.

        `commit` is a full id. Raises BrokenStore if `max_size` is given and Git's list is longer
        than so many bytes.
        """
        arguments = ["ls-tree", "-r", "-z", "--full-tree", commit, "--", *_build_pathspec(folder)]
        process = self.git.start(*arguments)
        assert process.stdout is not None  # noqa: S101 - opened as a pipe
        answer = b""
        if max_size >= 0:
            answer = process.stdout.read(max_size + 1)
            if len(answer) > max_size:
                end_process(process)
                raise BrokenStore("it lists more files than are read of one repository")
        answer += finish_process(process, "ls-tree", limit=LONG_LIMIT)
        files = {}
        for row in _split_rows(answer):
            head, _, path = row.partition("\t")
            if head.startswith("100"):
                files[path] = head.split()[2]
        return files

    def find_item(self, path: str, commit: str = "HEAD") -> TreeItem | None:
        """Find mode and blob id of a path in a commit; None for no such path.

        `commit` is "HEAD", a full id, or "" for none.
        """
        if commit == "HEAD":
            commit = self.read_head() or ""
        if not commit:
            return None
        return self.objects.find_item(commit, path)

    def read_staged(self, paths: Sequence[str]) -> dict[str, str]:
        """Read what the user's index holds below some paths: path -> blob id.

        What is in conflict is left out.
        """
        if not paths:
            return {}
        has_too_many = len(paths) > _MAX_PATHS  # for a command line: then ask for all files
        pathspec = () if has_too_many else paths
        wanted_paths = frozenset(paths)
        staged = {}
        for row in _split_rows(self.git.run("ls-files", "-s", "-z", "--", *pathspec)):
            head, _, path = row.partition("\t")
            _, oid, stage = head.split()
            if stage == "0" and (not has_too_many or path in wanted_paths):
                staged[path] = oid
        return staged

    def find_unchanged_blobs(self, files: Mapping[str, os.stat_result]) -> dict[str, str]:
        """Find the blob ids of files that Git's index proves unchanged: path -> blob id.

        `files`: what `stat` says of them now. Git's blob has the bytes of the file if both have the
        same length and no filter applies: a conversion of line ends changes the length.
        """
        min_count = max(_MIN_HASHED_FILES, self.index_entry_count // _ENTRIES_PER_HASH)
        if len(files) <= min_count or self.hash_name != "sha1":
            return {}
        try:
            path_by_folder = {path.rpartition("/")[0]: path for path in files}
            if settings.has_filters(self, path_by_folder.values()):
                return {}
            index_blobs = self._find_untouched(files)
            sizes = self.objects.read_sizes(set(index_blobs.values()))
        except GitError:
            return {}
        unchanged = {}
        for path, blob in index_blobs.items():
            size = files[path].st_size
            if sizes.get(blob) == size:
                unchanged[path] = blob
        return unchanged

    def _find_untouched(self, files: Mapping[str, os.stat_result]) -> dict[str, str]:
        """Find the files that were not written since Git saw them last: path -> blob id."""
        entries = staged.read_index(self.git_dir)
        blobs = {}
        for path, stat in files.items():
            entry = entries.get(path)
            if entry is not None and entry.is_unchanged(stat):
                blobs[path] = entry.blob
        return blobs

    def is_edited(self, path: str, data: bytes) -> bool:
        """Whether these bytes differ from a file in HEAD; False if only a filter could tell."""
        item = self.find_item(path)
        if item is None or item.oid == self.compute_blob_id(data):
            return False
        if settings.find_obstacle(self, path):
            return False
        return self.compute_committed_id(path, data, item.oid) != item.oid

    def convert_for_commit(self, path: str, data: bytes, old_blob: str) -> bytes:
        """Return the bytes that Git would commit for a file: CRLF may become LF.

        CRLF stays if `old_blob`, the blob of the file in HEAD, has it.
        """
        if b"\r\n" not in data:
            return data
        filter_settings = self.settings.no_filter_settings
        if filter_settings is None or settings.find_obstacle(self, path):
            return data
        old_data = self.read_blob(old_blob)
        if old_data and b"\r\n" in old_data:
            return data
        answer = self.git.run(
            "hash-object",
            "--stdin",
            f"--path={path}",
            input_data=data,
            config=("core.safecrlf=false", *filter_settings),
        )
        unix_data = data.replace(b"\r\n", b"\n")
        is_converted = self.compute_blob_id(unix_data) == answer.decode().strip()
        return unix_data if is_converted else data

    def compute_committed_id(self, path: str, data: bytes, old_blob: str) -> str:
        """Compute the id of the blob that Git would commit; see `convert_for_commit`."""
        return self.compute_blob_id(self.convert_for_commit(path, data, old_blob))

    def find_ignored(self, *paths: str) -> str:
        """Return which of some paths Git ignores, and by which rule; "" for none."""
        return settings.find_ignored(self, *paths)

    def list_sparse_files(self, folder: str) -> frozenset[str]:
        """List the files of a folder ("." for all) that a sparse checkout hides."""
        if not self.settings.get_flag("core.sparsecheckout"):
            return frozenset()
        answer = self.git.run("ls-files", "-t", "-z", "--", *_build_pathspec(folder))
        rows = _split_rows(answer)
        return frozenset(row.removeprefix("S ") for row in rows if row.startswith("S "))

    # saving

    @contextlib.contextmanager
    def save_lock(self, timeout: float = state.SAVE_TIMEOUT) -> Iterator[None]:
        """Hold the lock of saves; raises as `SaveLock.hold`."""
        with self._lock.hold(timeout):
            try:
                yield
            finally:
                self.share_folders()

    @property
    def group(self) -> str:
        """Who shares the repository, as in `core.sharedRepository`; "" if not shared."""
        # Reading the file is faster than asking Git, and answers most often.
        config = read_git_file(self.common_dir / "config").lower()
        if "sharedrepository" not in config:
            return ""
        return self.settings.get_text("core.sharedrepository")

    def share_folders(self) -> None:
        """Let those who share the repository use what we have made."""
        group = self.group
        if group:
            for folder in {self.private_folder, self.shared_folder}:
                disk.share_folder(folder, group)

    def claim_notice(self, name: str) -> bool:
        """Mark a notice as shown; True if it was not before, so that it is shown once only."""
        marker = self.shared_folder / "told" / name
        try:
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch(exist_ok=False)
        except OSError:  # it was shown, or nothing can be written
            return False
        return True

    @property
    def has_unfinished_saves(self) -> bool:
        """Whether the journal holds saves to finish or to check; cheap enough for every command."""
        folders = (self.shared_folder / name for name in ("journal", "recent"))
        return any(map(list_entry_names, folders))

    def close(self) -> None:
        """End the helper process."""
        with contextlib.suppress(FilememError):  # Git cannot be asked any more
            self.share_folders()
        self.objects.close()


def _build_pathspec(folder: str) -> tuple[str, ...]:
    """Build the arguments that limit a Git command to a folder ("." for all)."""
    return () if folder == "." else (f"{folder}/",)


def _split_rows(answer: bytes) -> list[str]:
    """Split the output of a Git command with `-z` into its rows."""
    return answer.decode("utf-8", "surrogateescape").split("\0")[:-1]
