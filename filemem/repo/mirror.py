"""Repositories that are only read, by their objects: in place, or a bare clone of what an address names.

Rule: an address is https or ssh and names no program, no option and no password. A repository without a work tree has
no files of its own that could be read by mistake; of its settings none runs a program (`run.OFF`).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from filemem.changes import object_id
from filemem.errors import BadInput, BrokenStore
from filemem.query import Provenance
from filemem.repo import Repo
from filemem.repo.history import NAME
from filemem.repo.run import LONG, OFF, GitError, Places, clean, find, finish, locate, start

_ADDRESS = re.compile(
    r"(?:https://|ssh://(?:\w[\w.-]*@)?|\w[\w.-]*@(?=[\w.-]+:))(\w[\w.-]*(?::\d+)?[/:][\w./~%+-]+?)(?:\.git)?/?"
)
_REACHING = (
    "core.sshCommand",
    "credential.helper",
    "protocol.allow",
)  # of the user's own settings, here
_NETWORK = (*(one for one in OFF if not one.startswith(_REACHING)), "protocol.allow=never")
_NETWORK += (
    "protocol.https.allow=always",
    "protocol.ssh.allow=always",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
)
_HEAD = "refs/filemem/head"  # in a clone: what HEAD is there, whatever the branch is called
_AT_ONCE = 1000  # objects that are fetched by one call
LISTED = 50_000_000  # bytes of a list of files: a tree that holds itself again and again has no end


class Mirror(Repo):
    """A repository that is only read."""

    hash_name = "sha1"  # of what is written, which is nothing: Git need not be asked


def named(text: str, here: Path) -> tuple[str, str]:
    """Return the name of a repository and where Git reads it, from an address or a path, relative to `here`.

    Raises BadInput: neither; or a path at which there is no repository.
    """
    if name := name_of(text):
        return name, text
    path = (here / text).resolve()
    hint = "give https://host/path, ssh://host/path, user@host:path (no password in it) or a folder"
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
    return re.sub(r":(?!\d+/)", "/", match[1], count=1) if match else ""


def web_page(source: str) -> str:
    """Return the address at which people read a repository, "" for one on this machine."""
    return (
        ""
        if source.startswith("/")
        else f"https://{re.sub(r':[0-9]+(?=/)', '', named(source, Path())[0])}"
    )


def _places(path: Path) -> Places:
    """The folders of a repository on this machine, taken as one without a work tree. Raises NotFound, BrokenStore."""
    bare = all((path / name).exists() for name in ("HEAD", "objects", "refs"))
    git_dir = path if bare else find(path).common_dir
    return Places(git_dir, git_dir, git_dir)


def opened(source: str, cache: Path, environment: Mapping[str, str]) -> Mirror:
    """Open a repository as it is now: of an address a bare clone below `cache`, without old contents if possible.

    Raises NotFound, BrokenStore: it cannot be read, or reached.
    """
    if source.startswith("/"):
        return Mirror(Path(source), environment, _places(Path(source)))
    folder = cache / f"{object_id('blob', source.encode(), 'sha1')}.git"
    if not folder.exists():
        cache.mkdir(
            mode=0o700, parents=True, exist_ok=True
        )  # records of others, whoever else has an account here
        aside = folder.with_suffix(f".{os.getpid()}")
        shutil.rmtree(aside, ignore_errors=True)
        how = ("--bare", "--quiet", "--no-tags", "--template=", "--filter=blob:none")
        _reach(cache, environment, "clone", *how, "--", source, str(aside))
        _reach(aside, environment, "symbolic-ref", "HEAD", _HEAD)
        aside.rename(folder)
    begun = (folder / "packed-refs").exists() or any((folder / "refs/heads").iterdir())
    what = (
        "+refs/heads/*:refs/heads/*",
        *([f"+HEAD:{_HEAD}"] if begun else []),
    )  # an empty one has no HEAD
    _reach(folder, environment, "fetch", *_QUIETLY, "--prune", "--", "origin", *what)
    return Mirror(folder, environment, _places(folder))


_QUIETLY = ("--quiet", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no")


def contents(
    repo: Repo, source: str, blobs: Iterable[str], most: int
) -> Iterator[tuple[str, bytes | None]]:
    """Yield the bytes of blobs, each with its id; None for one that has more than `most`, or is not there."""
    wanted = list(dict.fromkeys(blobs))
    if repo.partial and not source.startswith("/"):  # what a clone lacks is fetched, many at once
        for at in range(0, len(wanted), _AT_ONCE):
            data = "".join(f"{oid}\n" for oid in wanted[at : at + _AT_ONCE]).encode()
            how = (*_QUIETLY, "--filter=blob:none", "--stdin", "origin")
            _reach(repo.git_dir, repo.environment, "fetch", *how, data=data)
    yield from zip(wanted, repo.objects.read_all(wanted, most=most), strict=True)


def added(
    repo: Repo, head: str, prefix: str, without: Iterable[str]
) -> Iterator[tuple[str, Provenance]]:
    """Yield the files below a folder (`prefix`, with its slash, or "") that commits added, oldest first, and who."""
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
    fields, who = iter(out.decode("utf-8", "replace").split("\0")), Provenance()
    for field in fields:
        if field.startswith("\x01"):
            author, at, agent = (next(fields) for _ in range(3))
            who = Provenance(
                author=author[:NAME], agent=agent[:NAME], commit=field[1:], date=int(at) * 1000
            )
        elif path := field.lstrip("\n"):
            yield path.removeprefix(prefix), who


def _reach(folder: Path, environment: Mapping[str, str], *words: str, data: bytes = b"") -> None:
    """Run a call that reaches another machine, with the user's own keys and helpers. Raises GitError."""
    settings = (part for one in _NETWORK for part in ("-c", one))
    process = start(
        [locate(environment, folder), "--no-pager", *settings, *words], folder, clean(environment)
    )
    try:
        finish(process, words[0], data, LONG)
    except GitError as error:
        raise BrokenStore(
            error.message, "check the address, and whether this user may read it there"
        ) from None
