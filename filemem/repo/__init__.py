"""Git: the only package that runs it. Knows nothing of records; paths are from the top of the work tree."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from filemem.changes import object_id
from filemem.errors import BrokenStore, FilememError
from filemem.repo import modes, served, settings, staged, state
from filemem.repo.objects import Item, Objects
from filemem.repo.run import (
    LONG,
    Git,
    GitError,
    Places,
    clean,
    end,
    find,
    finish,
    locate,
    read,
    stamp,
)
from filemem.repo.settings import Settings
from filemem.repo.state import Branch, SaveLock

__all__ = ["Branch", "Git", "GitError", "Repo"]

FOLDER = "filemem"  # of ours, in Git directories
_MANY = 1_000  # paths
_FEW = 64  # files that are hashed sooner than Git is asked
_WORTH = 20  # entries of Git's index are read in the time of hashing one file
_USUAL = ("main", "master", "trunk")
_HEADS, _THERE = state.BRANCHES, "refs/remotes/origin/"


class Repo:
    """A Git repository with a work tree. Use `discover`; `close` when done. Without one: see `mirror`."""

    def __init__(
        self, path: Path, environment: Mapping[str, str], places: Places | None = None
    ) -> None:
        self.places = places = places or find(path)
        self.work_tree, self.git_dir, self.common_dir = places
        self.private, self.shared = (
            self.git_dir / FOLDER,
            self.common_dir / FOLDER,
        )  # the second outlives a linked one
        self.spool = (
            self.private / "spool"
        )  # where files for the work tree are written before they are renamed into it
        self.trouble = (
            ""  # what the last look at finished saves has found, with the command that helps
        )
        self.environment = environment
        self.git = Git(locate(environment, places.work_tree), places, clean(environment))
        self.settled: object = (
            None  # HEAD and index as they were when all that was saved lately was found in them
        )
        self.objects = Objects(self)
        self._lock = SaveLock(self.shared)
        self._settings: tuple[object, Settings] | None = None

    @classmethod
    def discover(
        cls,
        path: str | Path,
        *,
        environment: Mapping[str, str] | None = None,
        places: Places | None = None,
    ) -> Repo:
        """Find the repository that a folder belongs to; with `places` its Git directory may stand elsewhere.

        Raises NotFound; BrokenStore: no work tree, or no Git.
        """
        # The one read of the environment outside `config`: it is passed on to Git, nothing is decided by it.
        repo = cls(Path(path), os.environ if environment is None else environment, places)
        if places:
            there = {"GIT_DIR": str(places.git_dir)}
            repo.git = repo.git._replace(environment={**repo.git.environment, **there})
        return repo

    # what it is

    @property
    def settings(self) -> Settings:
        """Git's configuration; it is asked again where one of its files was written since."""
        seen = tuple(map(stamp, settings.files(self.git)))
        if self._settings is None or self._settings[0] != seen:
            self._settings = seen, settings.load(self.git)
        return self._settings[1]

    @property
    def given_up(self) -> int:
        """How many searches for a prompt hooks gave up here."""
        return served.given_up(self.private)

    @cached_property
    def hash_name(self) -> str:
        """The object format: "sha1" or "sha256"."""
        return self.settings.text("extensions.objectformat") or "sha1"

    def blob_id(self, data: bytes) -> str:
        """The id of these bytes as a blob."""
        return object_id("blob", data, self.hash_name)

    def identity(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Author and committer of our commits, each a name and an address. Raises BadInput where Git knows none."""
        found = self.settings
        return found.identity("author", self.environment), found.identity(
            "committer", self.environment
        )

    def incomplete(self) -> str:
        """What is missing of history in a shallow or partial clone, in a sentence; "" where it is whole."""
        if (self.common_dir / "shallow").exists():
            return "history is incomplete here: a shallow clone (`git fetch --unshallow` brings the rest)"
        if self.partial:
            return "history is incomplete here: a partial clone (`git fetch --refetch --no-filter` brings the rest)"
        return ""

    @property
    def partial(self) -> bool:
        """Whether it is a partial clone."""
        return any((self.common_dir / "objects" / "pack").glob("*.promisor"))

    @property
    def boundary(self) -> frozenset[str]:
        """The commits at which a shallow clone ends: what they seem to bring came with them or before."""
        return frozenset(read(self.common_dir / "shallow").split())

    @property
    def entries(self) -> int:
        """How many entries the index file has, which Git writes whole at every save; a split index has few."""
        try:
            with (self.git_dir / "index").open("rb") as file:
                return int.from_bytes(file.read(12)[8:], "big")
        except OSError:
            return 0

    # where it stands

    def head(self) -> str | None:
        """The id of the current commit; None before the first one. Raises BrokenStore where HEAD cannot be read."""
        return state.head(self.git).tip or None

    def branch(self) -> str | None:
        """The short name of the current branch; None where HEAD is detached."""
        return state.head_ref(self.git).removeprefix(state.BRANCHES) or None

    def busy(self) -> str:
        """Why a commit must wait: what the user is in the middle of ("a rebase is in progress"), or ""."""
        return state.busy(self.places)

    def resolve(self, rev: str) -> str | None:
        """The commit that a revision names: a branch, tag, id or the like; None for none."""
        with contextlib.suppress(GitError):
            if rev.isprintable():
                asked = ("-q", "--verify", "--end-of-options", f"{rev}^{{commit}}")
                return self.git.run("rev-parse", *asked).decode().strip()
        return None

    def default_branch(self) -> Branch | None:
        """The default branch, here or else as last seen on the other side; None where none is found.

        It is what `origin` says it is, else the first of the usual names that there is, else the only branch.
        """
        stated = read(self.common_dir / _THERE / "HEAD").removeprefix(f"ref: {_THERE}")
        for name in filter(None, (stated, *_USUAL)):
            if tip := state.tip_of(self.git, _HEADS + name) or state.tip_of(
                self.git, _THERE + name
            ):
                return Branch(name, tip)
        here = self.git.run(
            "for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", _HEADS
        ).splitlines()
        tip, _, name = os.fsdecode(here[0]).partition(" ") if len(here) == 1 else ("", "", "")
        return Branch(name, tip) if tip else None

    def present_branch(self) -> Branch:
        """The branch that is checked out."""
        return Branch(self.branch() or "", self.head() or "")

    def default_tips(self) -> tuple[str, ...]:
        """The commits of the default branch, here and as last seen on the other side."""
        branch = self.default_branch()
        sides = (_HEADS, _THERE) if branch else ()
        name = branch.name if branch else ""
        tips = (state.tip_of(self.git, side + name) for side in sides)
        return tuple(filter(None, tips))

    def work_trees(self) -> list[Path]:
        """The tops of all work trees of the repository."""
        rows = self.git.run("worktree", "list", "--porcelain").decode("utf-8", "surrogateescape")
        cells = (row.partition(" ") for row in rows.splitlines())
        return [Path(path) for word, _, path in cells if word == "worktree"]

    def at_time(self, tip: str, when: int) -> str:
        """What a branch was at a time (epoch ms), along its first parents; "" before its first commit."""
        asked = ("rev-list", "--first-parent", "-1", f"--before={when // 1000}", tip, "--")
        return self.git.run(*asked).decode().strip()

    def parted(self, one: str, other: str) -> str:
        """The last commit that two have in common; "" where there is none."""
        try:
            return self.git.run("merge-base", one, other).decode().split("\n")[0]
        except GitError as error:
            if error.code == 1:
                return ""
            raise

    def between(self, commit: str, without: str) -> int:
        """How many commits one has that another has not."""
        return int(self.git.run("rev-list", "--count", commit, f"^{without}", "--"))

    # reading

    def blob(self, oid: str, most: int | None = None) -> bytes | None:
        """The bytes of a blob by its id, None where there is none here, or it has more than `most` bytes."""
        return self.objects.read(oid, "blob", most)

    def blobs(self, oids: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """The bytes of many blobs by their ids, in order, each with its id; None where there is none here."""
        asked = tuple(oids)
        yield from zip(asked, self.objects.read_all(asked), strict=True)

    def listing(self, commit: str, folder: str, most: int = -1) -> dict[str, str]:
        """The regular files below a folder ("." for all) in a commit, by full id: path -> blob id.

        Raises BrokenStore: Git lists more than `most` bytes, if that is given.
        """
        below = () if folder == "." else (f"{folder}/",)
        process = self.git.start("ls-tree", "-r", "-z", "--full-tree", commit, "--", *below)
        assert process.stdout is not None  # noqa: S101 - opened as a pipe
        answer = process.stdout.read(most + 1) if most >= 0 else b""
        if 0 <= most < len(answer):
            end(process)
            raise BrokenStore("it lists more files than are read of one repository")
        answer += finish(process, "ls-tree", limit=LONG)
        cells = (
            row.partition("\t")
            for row in answer.decode("utf-8", "surrogateescape").split("\0")[:-1]
        )
        return {path: head.split()[2] for head, _, path in cells if head.startswith("100")}

    def item(self, path: str, commit: str = "HEAD") -> Item | None:
        """Mode and blob id of a path in HEAD, or in a commit by its full id ("" for none); None for no such path."""
        tip = self.head() if commit == "HEAD" else commit
        return self.objects.find(tip, path) if tip else None

    def staged(self, paths: Sequence[str]) -> dict[str, str]:
        """What the user's index holds for some files or folders: path -> blob id; nothing for one in conflict."""
        asked = (
            () if (many := len(paths) > _MANY) else paths
        )  # a command line takes no more: then all are asked for
        answer = (
            self.git.run("ls-files", "-s", "-z", "--", *asked).decode("utf-8", "surrogateescape")
            if paths
            else ""
        )
        cells = (row.partition("\t") for row in answer.split("\0")[:-1])
        fields, wanted = ((head.split(), path) for head, _, path in cells), {*paths}
        return {
            path: oid
            for (_, oid, stage), path in fields
            if stage == "0" and (not many or path in wanted)
        }

    def unchanged(self, files: Mapping[str, os.stat_result]) -> dict[str, str]:
        """Return the blob ids of the bytes of some files, as far as Git's index is proof.

        `files`: what `stat` says of them now. Git's blob has the bytes of the file if both are as
        long and no filter is in force: what Git does to the ends of lines changes the length.
        """
        worth = len(files) > max(_FEW, self.entries // _WORTH)
        if not worth or self.hash_name != "sha1":
            return {}
        try:
            of_folders = {path.rpartition("/")[0]: path for path in files}
            if settings.filters(self, of_folders.values()):
                return {}
            entries = staged.read_index(self.git_dir)
            same = {
                path: entries[path].blob
                for path, stat in files.items()
                if path in entries and entries[path].is_of(stat)
            }
            sizes = self.objects.sizes(set(same.values()))
        except GitError:
            return {}
        return {p: blob for p, blob in same.items() if sizes.get(blob) == files[p].st_size}

    def edited(self, path: str, data: bytes) -> bool:
        """Whether these bytes are not what HEAD holds for a file; False where only a filter could tell."""
        item = self.item(path)
        if item is None or item.oid == self.blob_id(data) or settings.obstacle(self, path):
            return False
        return self.committed_id(path, data, item.oid) != item.oid

    def committed(self, path: str, data: bytes, old: str) -> bytes:
        """The bytes that Git would commit for a file: CRLF may become LF, unless `old`, the blob in HEAD, has CRLF."""
        if b"\r\n" not in data or (off := self.settings.unfiltered) is None:
            return data
        if settings.obstacle(self, path) or b"\r\n" in (self.blob(old) or b""):
            return data
        asked = ("hash-object", "--stdin", f"--path={path}")
        made = (
            self.git.run(*asked, input=data, config=("core.safecrlf=false", *off)).decode().strip()
        )
        plain = data.replace(b"\r\n", b"\n")
        return plain if self.blob_id(plain) == made else data

    def committed_id(self, path: str, data: bytes, old: str) -> str:
        """The id of the blob that Git would commit; arguments as for `committed`."""
        return self.blob_id(self.committed(path, data, old))

    def ignored(self, *paths: str) -> str:
        """Which of some paths Git ignores, by which rule; "" for none."""
        return settings.ignored(self, *paths)

    def sparse(self, folder: str) -> frozenset[str]:
        """The files of a folder ("." for all) that a sparse checkout hides."""
        if not self.settings.flag("core.sparsecheckout"):
            return frozenset()
        below = () if folder == "." else (f"{folder}/",)
        answer = self.git.run("ls-files", "-t", "-z", "--", *below).decode(
            "utf-8", "surrogateescape"
        )
        return frozenset(row[2:] for row in answer.split("\0") if row.startswith("S "))

    # saving

    @contextlib.contextmanager
    def saving(self, patience: float = state.SWARM) -> Iterator[None]:
        """Hold the lock of saves; errors as for `SaveLock.held`."""
        with self._lock.held(patience):
            try:
                yield
            finally:
                self.share()

    @property
    def group(self) -> str:
        """Who shares the repository, as `core.sharedRepository` says it; "" for nobody."""
        key = "core.sharedrepository"
        stated = key[5:] in read(self.common_dir / "config").lower()  # to ask Git takes longer
        return self.settings.text(key) if stated else ""

    def share(self) -> None:
        """Let those who share the repository use what we have made."""
        if group := self.group:
            for folder in {self.private, self.shared}:
                modes.share(folder, group)

    def first(self, name: str) -> bool:
        """Whether what is to be said once here was not said yet; from now on it was."""
        mark = self.shared / "told" / name
        try:
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch(exist_ok=False)
        except OSError:  # it is there, or nothing can be written
            return False
        return True

    @property
    def unfinished(self) -> bool:
        """Whether the journal holds saves that are to be finished or looked after; cheap enough for every command."""
        return any(state.numbered(self.shared / folder) for folder in ("journal", "recent"))

    def close(self) -> None:
        """End the helper process."""
        with contextlib.suppress(FilememError):  # Git cannot be asked any more
            self.share()
        self.objects.close()
