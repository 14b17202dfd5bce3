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
from filemem.changes import object_id
from filemem.errors import BadInput, BrokenStore
from filemem.query import Provenance
from filemem.repo import Repo
from filemem.repo.history import NAME
from filemem.repo.run import LONG, OFF, GitError, Places, clean, find, finish, locate, start

_ADDRESS = re.compile(
    r"(?:https://|ssh://(?:\w[\w.-]*@)?|\w[\w.-]*@(?=[\w.-]+:))(\w[\w.-]*(?::\d+)?[/:][\w./~%+-]+?)(?:\.git)?/?"
)
MOST_BYTES = 20_000_000_000  # of one file of a clone: a pack of more is not fetched
_USER = 32  # characters of a login; a longer one is a token
_REACHING = (
    "core.sshCommand",
    "credential.helper",
    "protocol.allow",
)  # of the user's own settings, here
_NETWORK = (
    *(setting for setting in OFF if not setting.startswith(_REACHING)),
    "protocol.allow=never",
)
_NETWORK += (
    "protocol.https.allow=always",
    "protocol.ssh.allow=always",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
)
_HEAD = "refs/filemem/head"  # in a clone: what HEAD is there, whatever the branch is called
_AT_ONCE = 1000  # objects that are fetched by one call
LISTED = 50_000_000  # bytes of a list of files: a tree that holds itself again and again has no end


class Silent(BrokenStore):
    """A host did not answer in time."""


class Mirror(Repo):
    """A repository that is only read."""

    hash_name = "sha1"  # of what is written, which is nothing: Git need not be asked
    limit = 0.0  # seconds for a call that reaches the host of a clone; 0 for a repository in place


def named(text: str, here: Path) -> tuple[str, str]:
    """Return the name of a repository and where Git reads it.

    `text` is an address, or a path relative to `here`.
    Raises BadInput: neither; or a path at which there is no repository.
    """
    if name := name_of(text):
        return name, text
    path = (here / text).resolve()
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
    _places(path)
    return str(path), str(path)


def name_of(address: str) -> str:
    """Return the name of the repository at an https or ssh address, "" if the text is none."""
    match = _ADDRESS.fullmatch(address)
    user = address.rpartition("@")[0].rpartition("/")[2]
    if len(user) > _USER or secrets.find(user):
        return ""
    return re.sub(r":(?!\d+/)", "/", match[1], count=1) if match else ""


def web_page(source: str) -> str:
    """Return the address at which people read a repository, "" for one on this machine."""
    return (
        ""
        if source.startswith("/")
        else f"https://{re.sub(r':[0-9]+(?=/)', '', named(source, Path())[0])}"
    )


def _places(path: Path) -> Places:
    """The folders of a repository on this machine, taken as one without a work tree.

    Raises NotFound, BrokenStore.
    """
    bare = all((path / name).exists() for name in ("HEAD", "objects", "refs"))
    git_dir = path if bare else find(path).common_dir
    return Places(git_dir, git_dir, git_dir)


@contextlib.contextmanager
def opened(
    source: str, cache: Path, environment: Mapping[str, str], limit: float = LONG
) -> Iterator[Mirror]:
    """Open a repository as it is now: of an address a bare clone below `cache`.

    Old contents are not cloned if possible. One process at a time uses a clone. `limit`: seconds for
    a call that reaches the host. Raises NotFound, BrokenStore: it cannot be read; Silent.
    """
    if source.startswith("/"):
        repo = Mirror(Path(source), environment, _places(Path(source)))
        with contextlib.closing(repo):
            yield repo
        return
    # Records of others, whoever else has an account here.
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = cache / f"{object_id('blob', source.encode(), 'sha1')}.git"
    with folder.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _renew(source, folder, environment, limit)
        repo = Mirror(folder, environment, _places(folder))
        repo.limit = limit
        with contextlib.closing(repo):
            yield repo


def _renew(source: str, folder: Path, environment: Mapping[str, str], limit: float) -> None:
    """Clone a repository, or fetch what is new there."""
    if not folder.exists():
        aside = folder.with_suffix(".new")
        shutil.rmtree(aside, ignore_errors=True)
        how = ("--bare", "--quiet", "--no-tags", "--template=", "--filter=blob:none")
        clone = ("clone", *how, "--", source, str(aside))
        _reach(folder.parent, environment, *clone, limit=limit)
        _reach(aside, environment, "symbolic-ref", "HEAD", _HEAD)
        aside.rename(folder)
    what = ["+refs/heads/*:refs/heads/*"]
    if (folder / "packed-refs").exists() or any((folder / "refs/heads").iterdir()):
        what.append(f"+HEAD:{_HEAD}")  # an empty one has no HEAD
    fetch = ("fetch", *_QUIETLY, "--prune", "--", "origin", *what)
    _reach(folder, environment, *fetch, limit=limit)


_QUIETLY = ("--quiet", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no")


def bring(repo: Mirror, blobs: Iterable[str]) -> None:
    """Fetch the blobs that a clone may lack, many at once. Raises BrokenStore."""
    wanted = list(dict.fromkeys(blobs))
    if not repo.limit or not repo.partial:
        return
    for at in range(0, len(wanted), _AT_ONCE):
        data = "".join(f"{oid}\n" for oid in wanted[at : at + _AT_ONCE]).encode()
        how = (*_QUIETLY, "--filter=blob:none", "--stdin", "origin")
        _reach(repo.git_dir, repo.environment, "fetch", *how, data=data, limit=repo.limit)


def contents(repo: Repo, blobs: Iterable[str], most: int) -> Iterator[tuple[str, bytes | None]]:
    """Yield the bytes of blobs that are here, each with its id; None for one that has more than `most`."""
    wanted = list(dict.fromkeys(blobs))
    yield from zip(wanted, repo.objects.read_all(wanted, most=most), strict=True)


def added(
    repo: Repo, head: str, prefix: str, without: Iterable[str]
) -> Iterator[tuple[str, Provenance]]:
    """Yield the files below a folder that commits added, oldest first, and who added them.

    `prefix`: the folder with its slash, or "".
    """
    how = (
        "--reverse",
        "--diff-filter=A",
        "--no-renames",
        "--name-only",
        "-z",
        "--ignore-missing",
        "--encoding=UTF-8",
    )
    form = "--format=%x01%H%x00%an%x00%ct%x00%(trailers:key=Agent,valueonly,separator=%x20)%x00"
    out = repo.git.run(
        "log", *how, form, head, *without, "--", *((prefix,) if prefix else ()), limit=LONG
    )
    fields = iter(out.decode("utf-8", "replace").split("\0"))
    who = Provenance()
    for field in fields:
        if field.startswith("\x01"):
            author, at, agent = (next(fields) for _ in range(3))
            who = Provenance(
                author=author[:NAME], agent=agent[:NAME], commit=field[1:], date=int(at) * 1000
            )
        elif path := field.lstrip("\n"):
            yield path.removeprefix(prefix), who


def _reach(
    folder: Path,
    environment: Mapping[str, str],
    *words: str,
    data: bytes = b"",
    limit: float = LONG,
) -> None:
    """Run a call that reaches another machine, with the user's own keys and helpers.

    Raises Silent: it took longer than `limit` seconds; BrokenStore: it failed.
    """
    settings = (part for setting in _NETWORK for part in ("-c", setting))
    program = locate(environment, folder)
    command = [program, "--no-pager", *settings, *words]
    process = start(command, folder, clean(environment))
    if sys.platform == "linux":  # and of what it starts
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
    try:
        finish(process, words[0], data, limit)
    except GitError as error:
        kind = Silent if error.code == -1 else BrokenStore
        hint = "check the address, and whether this user may read it there"
        raise kind(error.message, hint) from None
