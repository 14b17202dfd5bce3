"""Which files may be read for a caller: those of the store and those that Git tracks, never one that holds secrets."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from filemem.errors import BadInput, NotFound
from filemem.files import NO_RECORDS, check_path, is_private, is_record
from filemem.files.folders import open_folder, read_file
from filemem.repo import Repo

if TYPE_CHECKING:
    from filemem.memory import Memory

_DATA = ("json", "yaml", "yml", "toml", "ini", "txt", "xml", "cfg", "conf", "properties", "enc")
_NAMED = ("secret", "secrets", "credential", "credentials", "password", "passwords")  # as a word of the name
SECRET_NAMES = (
    *(".env", ".env.*", "*.env", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", ".pgpass"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.asc", "*.gpg"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "credentials", ".ssh", ".aws", ".gnupg"),
    *(
        f"{name}.{ending}" for name in ("token", "tokens") for ending in _DATA
    ),  # with other words: of a design, a parser
    *(
        f"{before}{name}{after}.{ending}"
        for before in ("", "*[._-]")
        for name in _NAMED
        for after in ("", "[._-]*")
        for ending in _DATA
    ),
    *(f"*.{name}" for name in _NAMED),
    *("*.tfvars", "*.tfstate", "*.tfstate.*", "*.db", "*.sqlite", "*.sqlite3"),
)
"""Names, in lower case, of files and folders that hold secrets, or other people's data."""


def read(memory: Memory, named: str, limit: int) -> tuple[str, bytes]:
    """Read a file; its path from the top of the work tree, and its bytes.

    Args:
        memory: the memory.
        named: a path, from the top of the work tree or absolute.
        limit: bytes that it may have.

    Raises:
        BadInput: it may not be read, or is larger.
        NotFound: it is not there, or is neither in the store nor tracked.
    """
    path = place(memory.work_tree, named)
    inside = memory.folder.is_relative_to(memory.work_tree)
    store = memory.folder.relative_to(memory.work_tree) if inside else None  # else attached in another work tree
    if store is not None and path.is_relative_to(store):
        own = path.relative_to(store).as_posix()
        allowed = (is_record(path.name) or own.lower() in NO_RECORDS) and not is_private(own)
    else:
        _refuse_secret(path)
        allowed = path.as_posix() in Repo.discover(memory.work_tree).index.entries([path.as_posix()])
    if not allowed:
        raise NotFound(f"there is no file {path.as_posix()} in the store or among the tracked files")
    *folders, name = path.parts
    with open_folder(memory.work_tree, tuple(folders)) as folder:
        return path.as_posix(), read_file(folder, name, path.as_posix(), limit)


def place(work_tree: Path, named: str) -> Path:
    """Where a path leads, from the top of the work tree; judged by its words alone, links are refused on opening.

    Raises:
        BadInput: it leads out, or into Git's own folder.
    """
    if not named.strip() or "\0" in named or len(named) > 4_096:
        raise BadInput("path must name a file", field="path")
    path = Path(os.path.normpath(work_tree / named))
    if not path.is_relative_to(work_tree) or path == work_tree:
        raise BadInput("path leads out of the repository", "name a file of the project", field="path")
    path = path.relative_to(work_tree)
    check_path(path.as_posix())
    return path


def _refuse_secret(path: Path) -> None:
    names = [part.casefold() for part in path.parts]
    if any(fnmatchcase(name, pattern) for name in names for pattern in SECRET_NAMES):
        raise BadInput("a file of this name may hold secrets and is not read", "name another file", field="path")
