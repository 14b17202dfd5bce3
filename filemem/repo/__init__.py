"""Git: the only package that runs it. Knows nothing of records; paths are from the top of the work tree."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from filemem.changes import compute_object_id
from filemem.errors import BrokenStore, FilememError
from filemem.repo import modes, served, settings, staged, state
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
    read_file_stamp,
    read_git_file,
)
from filemem.repo.settings import GitSettings
from filemem.repo.state import Branch, SaveLock

__all__ = ["Branch", "Git", "GitError", "Repo"]

FOLDER = "filemem"  # of ours, in Git directories
_MAX_PATHS = 1_000  # paths
_MIN_HASHED_FILES = 64  # files that are hashed sooner than Git is asked
_ENTRIES_PER_HASH = 20  # entries of Git's index are read in the time of hashing one file
_DEFAULT_NAMES = ("main", "master", "trunk")
_LOCAL_BRANCHES, _REMOTE_BRANCHES = state.BRANCHES, "refs/remotes/origin/"


class Repo:
    """A Git repository with a work tree. Use `discover`; `close` when done. Without one: see `mirror`."""

    def __init__(
        self, path: Path, environment: Mapping[str, str], folders: GitFolders | None = None
    ) -> None:
        self.folders = folders = folders or find_repository(path)
        self.work_tree, self.git_dir, self.common_dir = folders
        self.private_folder, self.shared_folder = (
            self.git_dir / FOLDER,
            self.common_dir / FOLDER,
        )  # the second outlives a linked one
        self.spool = (
            self.private_folder / "spool"
        )  # where files for the work tree are written before they are renamed into it
        self.trouble = (
            ""  # what the last look at finished saves has found, with the command that helps
        )
        self.environment = environment
        self.git = Git(
            find_git(environment, folders.work_tree), folders, build_environment(environment)
        )
        self.settled_state: object = (
            None  # HEAD and index as they were when all that was saved lately was found in them
        )
        self.objects = ObjectDatabase(self)
        self._lock = SaveLock(self.shared_folder)
        self._settings: tuple[object, GitSettings] | None = None

    @classmethod
    def discover(
        cls,
        path: str | Path,
        *,
        environment: Mapping[str, str] | None = None,
        folders: GitFolders | None = None,
    ) -> Repo:
        """Find the repository that a folder belongs to; with `places` its Git directory may stand elsewhere.

        Raises NotFound; BrokenStore: no work tree, or no Git.
        """
        # The one read of the environment outside `config`: it is passed on to Git, nothing is decided by it.
        repo = cls(Path(path), os.environ if environment is None else environment, folders)
        if folders:
            git_variables = {"GIT_DIR": str(folders.git_dir)}
            repo.git = repo.git._replace(environment={**repo.git.environment, **git_variables})
        return repo

    # what it is

    @property
    def settings(self) -> GitSettings:
        """Git's configuration; it is asked again where one of its files was written since."""
        stamps = tuple(map(read_file_stamp, settings.list_config_files(self.git)))
        if self._settings is None or self._settings[0] != stamps:
            self._settings = stamps, settings.load_settings(self.git)
        return self._settings[1]

    @property
    def abandoned_search_count(self) -> int:
        """How many searches for a prompt hooks gave up here."""
        return served.read_abandoned_count(self.private_folder)

    @cached_property
    def hash_name(self) -> str:
        """The object format: "sha1" or "sha256"."""
        return self.settings.get_text("extensions.objectformat") or "sha1"

    def compute_blob_id(self, data: bytes) -> str:
        """The id of these bytes as a blob."""
        return compute_object_id("blob", data, self.hash_name)

    def require_identity(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Author and committer of our commits, each a name and an address. Raises BadInput where Git knows none."""
        config = self.settings
        return config.require_identity("author", self.environment), config.require_identity(
            "committer", self.environment
        )

    def describe_missing_history(self) -> str:
        """What is missing of history in a shallow or partial clone, in a sentence; "" where it is whole."""
        if (self.common_dir / "shallow").exists():
            return "history is incomplete here: a shallow clone (`git fetch --unshallow` brings the rest)"
        if self.is_partial:
            return "history is incomplete here: a partial clone (`git fetch --refetch --no-filter` brings the rest)"
        return ""

    @property
    def is_partial(self) -> bool:
        """Whether it is a partial clone."""
        return any((self.common_dir / "objects" / "pack").glob("*.promisor"))

    @property
    def shallow_boundary(self) -> frozenset[str]:
        """The commits at which a shallow clone ends: what they seem to bring came with them or before."""
        return frozenset(read_git_file(self.common_dir / "shallow").split())

    @property
    def index_entry_count(self) -> int:
        """How many entries the index file has, which Git writes whole at every save; a split index has few."""
        try:
            with (self.git_dir / "index").open("rb") as file:
                return int.from_bytes(file.read(12)[8:], "big")
        except OSError:
            return 0

    # where it stands

    def read_head(self) -> str | None:
        """The id of the current commit; None before the first one. Raises BrokenStore where HEAD cannot be read."""
        return state.read_head_branch(self.git).tip or None

    def read_branch(self) -> str | None:
        """The short name of the current branch; None where HEAD is detached."""
        return state.read_head_ref(self.git).removeprefix(state.BRANCHES) or None

    def find_busy_reason(self) -> str:
        """Why a commit must wait: what the user is in the middle of ("a rebase is in progress"), or ""."""
        return state.find_busy_reason(self.folders)

    def resolve_revision(self, rev: str) -> str | None:
        """The commit that a revision names: a branch, tag, id or the like; None for none."""
        with contextlib.suppress(GitError):
            if rev.isprintable():
                arguments = ("-q", "--verify", "--end-of-options", f"{rev}^{{commit}}")
                return self.git.run("rev-parse", *arguments).decode().strip()
        return None

    def find_default_branch(self) -> Branch | None:
        """The default branch, here or else as last seen on the other side; None where none is found.

        It is what `origin` says it is, else the first of the usual names that there is, else the only branch.
        """
        remote_default = read_git_file(self.common_dir / _REMOTE_BRANCHES / "HEAD").removeprefix(
            f"ref: {_REMOTE_BRANCHES}"
        )
        for name in filter(None, (remote_default, *_DEFAULT_NAMES)):
            if tip := state.read_tip(self.git, _LOCAL_BRANCHES + name) or state.read_tip(
                self.git, _REMOTE_BRANCHES + name
            ):
                return Branch(name, tip)
        rows = self.git.run(
            "for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", _LOCAL_BRANCHES
        ).splitlines()
        tip, _, name = os.fsdecode(rows[0]).partition(" ") if len(rows) == 1 else ("", "", "")
        return Branch(name, tip) if tip else None

    def read_current_branch(self) -> Branch:
        """The branch that is checked out."""
        return Branch(self.read_branch() or "", self.read_head() or "")

    def list_default_tips(self) -> tuple[str, ...]:
        """The commits of the default branch, here and as last seen on the other side."""
        branch = self.find_default_branch()
        sides = (_LOCAL_BRANCHES, _REMOTE_BRANCHES) if branch else ()
        name = branch.name if branch else ""
        tips = (state.read_tip(self.git, side + name) for side in sides)
        return tuple(filter(None, tips))

    def list_work_trees(self) -> list[Path]:
        """The tops of all work trees of the repository."""
        rows = self.git.run("worktree", "list", "--porcelain").decode("utf-8", "surrogateescape")
        cells = (row.partition(" ") for row in rows.splitlines())
        return [Path(path) for word, _, path in cells if word == "worktree"]

    def find_commit_at(self, tip: str, timestamp: int) -> str:
        """What a branch was at a time (epoch ms), along its first parents; "" before its first commit."""
        arguments = ("rev-list", "--first-parent", "-1", f"--before={timestamp // 1000}", tip, "--")
        return self.git.run(*arguments).decode().strip()

    def find_merge_base(self, first_commit: str, second_commit: str) -> str:
        """The last commit that two have in common; "" where there is none."""
        try:
            return self.git.run("merge-base", first_commit, second_commit).decode().split("\n")[0]
        except GitError as error:
            if error.code == 1:
                return ""
            raise

    def count_commits(self, commit: str, excluded: str) -> int:
        """How many commits one has that another has not."""
        return int(self.git.run("rev-list", "--count", commit, f"^{excluded}", "--"))

    # reading

    def read_blob(self, oid: str, max_size: int | None = None) -> bytes | None:
        """The bytes of a blob by its id, None where there is none here, or it has more than `most` bytes."""
        return self.objects.read_object(oid, "blob", max_size)

    def iter_blobs(self, oids: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """The bytes of many blobs by their ids, in order, each with its id; None where there is none here."""
        wanted_ids = tuple(oids)
        yield from zip(wanted_ids, self.objects.iter_objects(wanted_ids), strict=True)

    def list_files(self, commit: str, folder: str, max_size: int = -1) -> dict[str, str]:
        """The regular files below a folder ("." for all) in a commit, by full id: path -> blob id.

        Raises BrokenStore: Git lists more than `most` bytes, if that is given.
        """
        pathspec = () if folder == "." else (f"{folder}/",)
        process = self.git.start("ls-tree", "-r", "-z", "--full-tree", commit, "--", *pathspec)
        assert process.stdout is not None  # noqa: S101 - opened as a pipe
        answer = process.stdout.read(max_size + 1) if max_size >= 0 else b""
        if 0 <= max_size < len(answer):
            end_process(process)
            raise BrokenStore("it lists more files than are read of one repository")
        answer += finish_process(process, "ls-tree", limit=LONG_LIMIT)
        cells = (
            row.partition("\t")
            for row in answer.decode("utf-8", "surrogateescape").split("\0")[:-1]
        )
        return {path: head.split()[2] for head, _, path in cells if head.startswith("100")}

    def find_item(self, path: str, commit: str = "HEAD") -> TreeItem | None:
        """Mode and blob id of a path in HEAD, or in a commit by its full id ("" for none); None for no such path."""
        tip = self.read_head() if commit == "HEAD" else commit
        return self.objects.find_item(tip, path) if tip else None

    def read_staged(self, paths: Sequence[str]) -> dict[str, str]:
        """What the user's index holds for some files or folders: path -> blob id; nothing for one in conflict."""
        arguments = (
            () if (is_too_long := len(paths) > _MAX_PATHS) else paths
        )  # a command line takes no more: then all are asked for
        answer = (
            self.git.run("ls-files", "-s", "-z", "--", *arguments).decode(
                "utf-8", "surrogateescape"
            )
            if paths
            else ""
        )
        cells = (row.partition("\t") for row in answer.split("\0")[:-1])
        fields, wanted_paths = ((head.split(), path) for head, _, path in cells), {*paths}
        return {
            path: oid
            for (_, oid, stage), path in fields
            if stage == "0" and (not is_too_long or path in wanted_paths)
        }

    def find_unchanged_blobs(self, files: Mapping[str, os.stat_result]) -> dict[str, str]:
        """Return the blob ids of the bytes of some files, as far as Git's index is proof.

        `files`: what `stat` says of them now. Git's blob has the bytes of the file if both are as
        long and no filter is in force: what Git does to the ends of lines changes the length.
        """
        is_worthwhile = len(files) > max(
            _MIN_HASHED_FILES, self.index_entry_count // _ENTRIES_PER_HASH
        )
        if not is_worthwhile or self.hash_name != "sha1":
            return {}
        try:
            path_by_folder = {path.rpartition("/")[0]: path for path in files}
            if settings.has_filters(self, path_by_folder.values()):
                return {}
            entries = staged.read_index(self.git_dir)
            index_blobs = {
                path: entries[path].blob
                for path, stat in files.items()
                if path in entries and entries[path].is_unchanged(stat)
            }
            sizes = self.objects.read_sizes(set(index_blobs.values()))
        except GitError:
            return {}
        return {p: blob for p, blob in index_blobs.items() if sizes.get(blob) == files[p].st_size}

    def is_edited(self, path: str, data: bytes) -> bool:
        """Whether these bytes are not what HEAD holds for a file; False where only a filter could tell."""
        item = self.find_item(path)
        if (
            item is None
            or item.oid == self.compute_blob_id(data)
            or settings.find_obstacle(self, path)
        ):
            return False
        return self.compute_committed_id(path, data, item.oid) != item.oid

    def convert_for_commit(self, path: str, data: bytes, old_blob: str) -> bytes:
        """The bytes that Git would commit for a file: CRLF may become LF, unless `old`, the blob in HEAD, has CRLF."""
        if b"\r\n" not in data or (filter_settings := self.settings.no_filter_settings) is None:
            return data
        if settings.find_obstacle(self, path) or b"\r\n" in (self.read_blob(old_blob) or b""):
            return data
        arguments = ("hash-object", "--stdin", f"--path={path}")
        git_blob = (
            self.git.run(
                *arguments, input_data=data, config=("core.safecrlf=false", *filter_settings)
            )
            .decode()
            .strip()
        )
        unix_data = data.replace(b"\r\n", b"\n")
        return unix_data if self.compute_blob_id(unix_data) == git_blob else data

    def compute_committed_id(self, path: str, data: bytes, old_blob: str) -> str:
        """The id of the blob that Git would commit; arguments as for `committed`."""
        return self.compute_blob_id(self.convert_for_commit(path, data, old_blob))

    def find_ignored(self, *paths: str) -> str:
        """Which of some paths Git ignores, by which rule; "" for none."""
        return settings.find_ignored(self, *paths)

    def list_sparse_files(self, folder: str) -> frozenset[str]:
        """The files of a folder ("." for all) that a sparse checkout hides."""
        if not self.settings.get_flag("core.sparsecheckout"):
            return frozenset()
        pathspec = () if folder == "." else (f"{folder}/",)
        answer = self.git.run("ls-files", "-t", "-z", "--", *pathspec).decode(
            "utf-8", "surrogateescape"
        )
        return frozenset(row[2:] for row in answer.split("\0") if row.startswith("S "))

    # saving

    @contextlib.contextmanager
    def save_lock(self, timeout: float = state.SAVE_TIMEOUT) -> Iterator[None]:
        """Hold the lock of saves; errors as for `SaveLock.held`."""
        with self._lock.hold(timeout):
            try:
                yield
            finally:
                self.share_folders()

    @property
    def group(self) -> str:
        """Who shares the repository, as `core.sharedRepository` says it; "" for nobody."""
        key = "core.sharedrepository"
        is_stated = (
            key[5:] in read_git_file(self.common_dir / "config").lower()
        )  # to ask Git takes longer
        return self.settings.get_text(key) if is_stated else ""

    def share_folders(self) -> None:
        """Let those who share the repository use what we have made."""
        if group := self.group:
            for folder in {self.private_folder, self.shared_folder}:
                modes.share_folder(folder, group)

    def claim_notice(self, name: str) -> bool:
        """Whether what is to be said once here was not said yet; from now on it was."""
        marker = self.shared_folder / "told" / name
        try:
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch(exist_ok=False)
        except OSError:  # it is there, or nothing can be written
            return False
        return True

    @property
    def has_unfinished_saves(self) -> bool:
        """Whether the journal holds saves that are to be finished or looked after; cheap enough for every command."""
        return any(
            state.list_entry_names(self.shared_folder / folder) for folder in ("journal", "recent")
        )

    def close(self) -> None:
        """End the helper process."""
        with contextlib.suppress(FilememError):  # Git cannot be asked any more
            self.share_folders()
        self.objects.close()
