"""Repositories that are only read, by their objects: in place, or a bare clone of an address.

Rule: an address is https or ssh and names no program, no option and no password. A repository
without a work tree has no files of its own that could be read by mistake; of its settings none
runs a program (`run.OFF`).
"""

from __future__ import annotations

import contextlib
import fcntl
import re
import resource
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from filemem import secrets
from filemem.changes import compute_object_id
from filemem.errors import BadInput, BrokenStore
from filemem.query import Provenance
from filemem.repo import Repo
from filemem.repo.history import MAX_NAME_SIZE
from filemem.repo.run import (
    LONG_LIMIT,
    SAFE_SETTINGS,
    GitError,
    GitFolders,
    build_environment,
    find_git,
    find_repository,
    finish_process,
    start_process,
)

_ADDRESS = re.compile(
    r"(?:https://|ssh://(?:\w[\w.-]*@)?|\w[\w.-]*@(?=[\w.-]+:))(\w[\w.-]*(?::\d+)?[/:][\w./~%+-]+?)(?:\.git)?/?"
)
MAX_FILE_SIZE = 20_000_000_000  # of one file of a clone: a pack of more is not fetched
_MAX_LOGIN_SIZE = 32  # characters of a login; a longer one is a token
_USER_SETTINGS = (
    "core.sshCommand",
    "credential.helper",
    "protocol.allow",
)  # of the user's own settings, here
_NETWORK_SETTINGS = (
    *(setting for setting in SAFE_SETTINGS if not setting.startswith(_USER_SETTINGS)),
    "protocol.allow=never",
)
_NETWORK_SETTINGS += (
    "protocol.https.allow=always",
    "protocol.ssh.allow=always",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
)
_HEAD = "refs/filemem/head"  # in a clone: what HEAD is there, whatever the branch is called
_FETCH_BATCH = 1000  # objects that are fetched by one call
MAX_LISTING_SIZE = (
    50_000_000  # bytes of a list of files: a tree that holds itself again and again has no end
)


class HostTimeout(BrokenStore):
    """A host did not answer in time."""


class Mirror(Repo):
    """A repository that is only read."""

    hash_name = "sha1"  # of what is written, which is nothing: Git need not be asked
    limit = 0.0  # seconds for a call that reaches the host of a clone; 0 for a repository in place


def resolve_source(text: str, base: Path) -> tuple[str, str]:
    """Return the name of a repository and where Git reads it.

    `text` is an address, or a path relative to `here`.
    Raises BadInput: neither; or a path at which there is no repository.
    """
    if name := parse_repository_name(text):
        return name, text
    path = (base / text).resolve()
    hint = "give https://host/path, ssh://host/path, user@host:path (no password or token in it) or a folder"
    if (
        "://" in text
        or "::" in text
        or text.startswith("-")
        or not text.isprintable()
        or not path.is_dir()
    ):
        raise BadInput(
            f"{text[:200]!r} is no repository that can be read", hint, field="repository"
        )
    _find_folders(path)
    return str(path), str(path)


def parse_repository_name(address: str) -> str:
    """Return the name of the repository at an https or ssh address, "" if the text is none."""
    match = _ADDRESS.fullmatch(address)
    user = address.rpartition("@")[0].rpartition("/")[2]
    if len(user) > _MAX_LOGIN_SIZE or secrets.find_secrets(user):
        return ""
    return re.sub(r":(?!\d+/)", "/", match[1], count=1) if match else ""


def build_page_url(source: str) -> str:
    """Return the address at which people read a repository, "" for one on this machine."""
    return (
        ""
        if source.startswith("/")
        else f"https://{re.sub(r':[0-9]+(?=/)', '', resolve_source(source, Path())[0])}"
    )


def _find_folders(path: Path) -> GitFolders:
    """The folders of a repository on this machine, taken as one without a work tree.

    Raises NotFound, BrokenStore.
    """
    is_bare = all((path / name).exists() for name in ("HEAD", "objects", "refs"))
    git_dir = path if is_bare else find_repository(path).common_dir
    return GitFolders(git_dir, git_dir, git_dir)


@contextlib.contextmanager
def open_mirror(
    source: str, cache: Path, environment: Mapping[str, str], limit: float = LONG_LIMIT
) -> Iterator[Mirror]:
    """Open a repository as it is now: of an address a bare clone below `cache`.

    Old contents are not cloned if possible. One process at a time uses a clone. `limit`: seconds for
    a call that reaches the host. Raises NotFound, BrokenStore: it cannot be read; Silent.
    """
    if source.startswith("/"):
        repo = Mirror(Path(source), environment, _find_folders(Path(source)))
        with contextlib.closing(repo):
            yield repo
        return
    # Records of others, whoever else has an account here.
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = cache / f"{compute_object_id('blob', source.encode(), 'sha1')}.git"
    with folder.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _update_clone(source, folder, environment, limit)
        repo = Mirror(folder, environment, _find_folders(folder))
        repo.limit = limit
        with contextlib.closing(repo):
            yield repo


def _update_clone(source: str, folder: Path, environment: Mapping[str, str], limit: float) -> None:
    """Clone a repository, or fetch what is new there."""
    if not folder.exists():
        new_folder = folder.with_suffix(".new")
        shutil.rmtree(new_folder, ignore_errors=True)
        options = ("--bare", "--quiet", "--no-tags", "--template=", "--filter=blob:none")
        clone = ("clone", *options, "--", source, str(new_folder))
        _run_network_command(folder.parent, environment, *clone, limit=limit)
        _run_network_command(new_folder, environment, "symbolic-ref", "HEAD", _HEAD)
        new_folder.rename(folder)
    refspecs = ["+refs/heads/*:refs/heads/*"]
    if (folder / "packed-refs").exists() or any((folder / "refs/heads").iterdir()):
        refspecs.append(f"+HEAD:{_HEAD}")  # an empty one has no HEAD
    fetch = ("fetch", *_QUIET_OPTIONS, "--prune", "--", "origin", *refspecs)
    _run_network_command(folder, environment, *fetch, limit=limit)


_QUIET_OPTIONS = ("--quiet", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no")


def fetch_blobs(repo: Mirror, blobs: Iterable[str]) -> None:
    """Fetch the blobs that a clone may lack, many at once. Raises BrokenStore."""
    unique_blobs = list(dict.fromkeys(blobs))
    if not repo.limit or not repo.is_partial:
        return
    for offset in range(0, len(unique_blobs), _FETCH_BATCH):
        data = "".join(f"{oid}\n" for oid in unique_blobs[offset : offset + _FETCH_BATCH]).encode()
        options = (*_QUIET_OPTIONS, "--filter=blob:none", "--stdin", "origin")
        _run_network_command(
            repo.git_dir, repo.environment, "fetch", *options, data=data, limit=repo.limit
        )


def iter_small_blobs(
    repo: Repo, blobs: Iterable[str], max_size: int
) -> Iterator[tuple[str, bytes | None]]:
    """Yield the bytes of blobs that are here, each with its id; None for one that has more than `most`."""
    unique_blobs = list(dict.fromkeys(blobs))
    yield from zip(
        unique_blobs, repo.objects.iter_objects(unique_blobs, max_size=max_size), strict=True
    )


def iter_added_files(
    repo: Repo, head: str, prefix: str, excluded: Iterable[str]
) -> Iterator[tuple[str, Provenance]]:
    """Yield the files below a folder that commits added, oldest first, and who added them.

    `prefix`: the folder with its slash, or "".
    """
    options = (
        "--reverse",
        "--diff-filter=A",
        "--no-renames",
        "--name-only",
        "-z",
        "--ignore-missing",
        "--encoding=UTF-8",
    )
    log_format = (
        "--format=%x01%H%x00%an%x00%ct%x00%(trailers:key=Agent,valueonly,separator=%x20)%x00"
    )
    output = repo.git.run(
        "log",
        *options,
        log_format,
        head,
        *excluded,
        "--",
        *((prefix,) if prefix else ()),
        limit=LONG_LIMIT,
    )
    fields = iter(output.decode("utf-8", "replace").split("\0"))
    provenance = Provenance()
    for field in fields:
        if field.startswith("\x01"):
            author, seconds, agent = (next(fields) for _ in range(3))
            provenance = Provenance(
                author=author[:MAX_NAME_SIZE],
                agent=agent[:MAX_NAME_SIZE],
                commit=field[1:],
                date=int(seconds) * 1000,
            )
        elif path := field.lstrip("\n"):
            yield path.removeprefix(prefix), provenance


def _run_network_command(
    folder: Path,
    environment: Mapping[str, str],
    *arguments: str,
    data: bytes = b"",
    limit: float = LONG_LIMIT,
) -> None:
    """Run a call that reaches another machine, with the user's own keys and helpers.

    Raises Silent: it took longer than `limit` seconds; BrokenStore: it failed.
    """
    settings = (part for setting in _NETWORK_SETTINGS for part in ("-c", setting))
    program = find_git(environment, folder)
    command = [program, "--no-pager", *settings, *arguments]
    process = start_process(command, folder, build_environment(environment))
    if sys.platform == "linux":  # and of what it starts
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (MAX_FILE_SIZE, MAX_FILE_SIZE))
    try:
        finish_process(process, arguments[0], data, limit)
    except GitError as error:
        error_class = HostTimeout if error.code == -1 else BrokenStore
        hint = "check the address, and whether this user may read it there"
        raise error_class(error.message, hint) from None
