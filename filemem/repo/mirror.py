"""Repositories that are only read, by their objects: in place, or a bare clone of an address.

Rule: an address is https or ssh and names no program, no option and no password. A repository
without a work tree has no files of its own that could be read by mistake; of its settings none
runs a program (`run.SAFE_SETTINGS`).
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
from filemem.repo.commits import MAX_NAME_SIZE
from filemem.repo.run import (
    LONG_LIMIT,
    SAFE_SETTINGS,
    GitError,
    GitFolders,
    build_environment,
    find_git,
    find_repository,
    finish_process,
    is_git_directory,
    start_process,
)

_ADDRESS = re.compile(
    r"(?:https://|ssh://(?:\w[\w.-]*@)?|\w[\w.-]*@(?=[\w.-]+:))"
    r"(\w[\w.-]*(?::\d+)?[/:][\w./~%+-]+?)(?:\.git)?/?"
)
MAX_FILE_SIZE = 20_000_000_000  # of one file of a clone: a pack of more is not fetched
_MAX_LOGIN_SIZE = 32  # characters of a login; a longer one is a token
# The user's own values apply to these:
_USER_SETTINGS = ("core.sshCommand", "credential.helper", "protocol.allow")
_NETWORK_SETTINGS = (
    *(setting for setting in SAFE_SETTINGS if not setting.startswith(_USER_SETTINGS)),
    "protocol.allow=never",
    "protocol.https.allow=always",
    "protocol.ssh.allow=always",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
)
_HEAD = "refs/filemem/head"  # in a clone: what HEAD is there, whatever the branch is called
_FETCH_BATCH = 1000  # objects that are fetched by one call
_ADDITION_FORMAT = (
    "--format=%x01%H%x00%an%x00%ct%x00%(trailers:key=Agent,valueonly,separator=%x20)%x00"
)
# Bytes of a list of files: a hostile tree may refer to one folder again and again, without end.
MAX_LISTING_SIZE = 50_000_000


class HostTimeout(BrokenStore):
    """A host did not answer in time."""


class Mirror(Repo):
    """A repository that is only read."""

    hash_name = "sha1"  # of what is written, which is nothing: Git need not be asked
    limit = 0.0  # seconds for a call that reaches the host of a clone; 0 for a repository in place


def resolve_source(text: str, base: Path) -> tuple[str, str]:
    """Return the name of a repository and where Git reads it.

    `text` is an address, or a path relative to `base`. Raises BadInput if it is neither, or no
    repository is at the path.
    """
    name = parse_repository_name(text)
    if name:
        return name, text
    path = (base / text).resolve()
    if not _is_local_path(text) or not path.is_dir():
        message = f"{text[:200]!r} is no repository that can be read"
        hint = (
            "give https://host/path, ssh://host/path, user@host:path"
            " (no password or token in it) or a folder"
        )
        raise BadInput(message, hint, field="repository")
    _find_folders(path)
    return str(path), str(path)


def _is_local_path(text: str) -> bool:
    """Whether Git would take a text for a path, not for an address or an option."""
    if text.startswith("-") or not text.isprintable():
        return False
    return "://" not in text and "::" not in text


def parse_repository_name(address: str) -> str:
    """Return the name of the repository at an https or ssh address; "" if the text is none."""
    match = _ADDRESS.fullmatch(address)
    login, _, _ = address.rpartition("@")
    _, _, user = login.rpartition("/")
    if match is None or len(user) > _MAX_LOGIN_SIZE or secrets.find_secrets(user):
        return ""
    return re.sub(r":(?!\d+/)", "/", match[1], count=1)


def build_page_url(source: str) -> str:
    """Return the address at which people read a repository; "" for one on this machine."""
    if source.startswith("/"):
        return ""
    name, _ = resolve_source(source, Path())
    name_without_port = re.sub(r":[0-9]+(?=/)", "", name)
    return f"https://{name_without_port}"


def _find_folders(path: Path) -> GitFolders:
    """Find a repository on this machine, to be read as one without a work tree.

    Raises NotFound, BrokenStore.
    """
    git_dir = path if is_git_directory(path) else find_repository(path).common_dir
    return GitFolders(git_dir, git_dir, git_dir)


@contextlib.contextmanager
def open_mirror(
    source: str, cache: Path, environment: Mapping[str, str], limit: float = LONG_LIMIT
) -> Iterator[Mirror]:
    """Open a repository as it is now; of an address, a bare clone below `cache`.

    The clone lacks old contents if the host allows that. One process at a time uses it.

    Args:
        source: an address, or the absolute path of a repository on this machine.
        limit: seconds for a call that reaches the host.

    Raises NotFound, BrokenStore, HostTimeout.
    """
    if source.startswith("/"):
        path = Path(source)
        repo = Mirror(path, environment, _find_folders(path))
        with contextlib.closing(repo):
            yield repo
        return
    # The records may be private, and this machine may have other users.
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
        _create_clone(source, folder, environment, limit)
    refspecs = ["+refs/heads/*:refs/heads/*"]
    has_branches = any((folder / "refs/heads").iterdir())
    if has_branches or (folder / "packed-refs").exists():
        refspecs.append(f"+HEAD:{_HEAD}")  # an empty repository has no HEAD
    command = ("fetch", *_QUIET_OPTIONS, "--prune", "--", "origin", *refspecs)
    _run_network_command(folder, environment, *command, limit=limit)


def _create_clone(source: str, folder: Path, environment: Mapping[str, str], limit: float) -> None:
    """Clone a repository without old contents; the folder appears when it is complete."""
    new_folder = folder.with_suffix(".new")
    shutil.rmtree(new_folder, ignore_errors=True)
    options = ("--bare", "--quiet", "--no-tags", "--template=", "--filter=blob:none")
    command = ("clone", *options, "--", source, str(new_folder))
    _run_network_command(folder.parent, environment, *command, limit=limit)
    _run_network_command(new_folder, environment, "symbolic-ref", "HEAD", _HEAD)
    new_folder.rename(folder)


_QUIET_OPTIONS = ("--quiet", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no")


def fetch_blobs(repo: Mirror, blobs: Iterable[str]) -> None:
    """Fetch the blobs that a clone may lack, many at once. Raises BrokenStore."""
    if not repo.limit or not repo.is_partial:
        return
    unique_blobs = list(dict.fromkeys(blobs))
    command = ("fetch", *_QUIET_OPTIONS, "--filter=blob:none", "--stdin", "origin")
    for offset in range(0, len(unique_blobs), _FETCH_BATCH):
        batch = unique_blobs[offset : offset + _FETCH_BATCH]
        data = "".join(f"{oid}\n" for oid in batch).encode()
        _run_network_command(repo.git_dir, repo.environment, *command, data=data, limit=repo.limit)


def iter_small_blobs(
    repo: Repo, blobs: Iterable[str], max_size: int
) -> Iterator[tuple[str, bytes | None]]:
    """Yield blobs, each once: id and bytes; None for one that is missing or too large."""
    unique_blobs = list(dict.fromkeys(blobs))
    contents = repo.objects.iter_objects(unique_blobs, max_size=max_size)
    yield from zip(unique_blobs, contents, strict=True)


def iter_added_files(
    repo: Repo, head: str, prefix: str, excluded: Iterable[str]
) -> Iterator[tuple[str, Provenance]]:
    """Yield the files below a folder that commits added, oldest first, and who added them.

    `prefix`: the folder with its slash, or "".
    """
    output = repo.git.run(
        "log",
        "--reverse",
        "--diff-filter=A",
        "--no-renames",
        "--name-only",
        "-z",
        "--ignore-missing",
        "--encoding=UTF-8",
        _ADDITION_FORMAT,
        head,
        *excluded,
        "--",
        *([prefix] if prefix else []),
        limit=LONG_LIMIT,
    )
    fields = iter(output.decode("utf-8", "replace").split("\0"))
    provenance = Provenance()
    for field in fields:
        if field.startswith("\x01"):
            provenance = _parse_provenance(field[1:], fields)
            continue
        path = field.lstrip("\n")
        if path:
            yield path.removeprefix(prefix), provenance


def _parse_provenance(commit: str, fields: Iterator[str]) -> Provenance:
    """Read author, time and agent of a commit: the next three fields."""
    author = next(fields)[:MAX_NAME_SIZE]
    seconds = int(next(fields))
    agent = next(fields)[:MAX_NAME_SIZE]
    return Provenance(author=author, agent=agent, commit=commit, date=seconds * 1000)


def _run_network_command(
    folder: Path,
    environment: Mapping[str, str],
    *arguments: str,
    data: bytes = b"",
    limit: float = LONG_LIMIT,
) -> None:
    """Run a call that reaches another machine, with the user's own keys and helpers.

    Raises HostTimeout: it took longer than `limit` seconds; BrokenStore: it failed.
    """
    command = [find_git(environment, folder), "--no-pager"]
    for setting in _NETWORK_SETTINGS:
        command += ("-c", setting)
    command += arguments
    process = start_process(command, folder, build_environment(environment))
    if sys.platform == "linux":  # the limit applies to what it starts too
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (MAX_FILE_SIZE, MAX_FILE_SIZE))
    try:
        finish_process(process, arguments[0], data, limit)
    except GitError as error:
        error_class = HostTimeout if error.code == -1 else BrokenStore
        hint = "check the address, and whether this user may read it there"
        raise error_class(error.message, hint) from None
