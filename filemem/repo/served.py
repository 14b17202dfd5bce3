"""What processes leave in the Git directory for others to read.

Servers leave the address of the page that they serve: one file each, which its server keeps
locked while it runs. Hooks leave how many searches for a prompt they gave up.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from html import escape
from pathlib import Path
from typing import IO

from filemem.repo.disk import PRIVATE_FOLDER

_FOLDER = PRIVATE_FOLDER  # in the Git directory; only its owner may read what is in it
_COUNT_FILE = "recalls-given-up"  # one byte for each: appending is safe from several processes
_MAX_COUNT = 9_999  # bytes at most


def add_abandoned_search(private: Path) -> None:
    """Count a search for a prompt that was given up, if the Git directory can be written."""
    with suppress(OSError):
        if read_abandoned_count(private) < _MAX_COUNT:
            with (private / _COUNT_FILE).open("ab") as file:
                file.write(b".")


def read_abandoned_count(private: Path) -> int:
    """Return how many searches for a prompt were given up."""
    try:
        return (private / _COUNT_FILE).stat().st_size
    except OSError:
        return 0


def publish_address(private: Path, address: str) -> IO[str]:
    """Write the address of this process's page to a file.

    The caller keeps the returned file open as long as it serves the page.
    """
    (private / _FOLDER).mkdir(parents=True, exist_ok=True)
    path = private / _FOLDER / str(os.getpid())
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    file = os.fdopen(descriptor, "w", encoding="utf-8")
    fcntl.flock(file, fcntl.LOCK_EX)
    file.write(address)
    file.flush()
    return file


@contextmanager
def redirect_page(private: Path, address: str) -> Iterator[str]:
    """Write a page that leads to an address, yield its URL, and remove it.

    Only its owner can read it: the address holds a token.
    """
    (private / _FOLDER).mkdir(parents=True, exist_ok=True)
    path = private / _FOLDER / f"{secrets.token_hex(8)}.html"
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(address)}">')
    try:
        yield path.as_uri()
    finally:
        path.unlink(missing_ok=True)


def list_addresses(private: Path) -> list[str]:
    """List the addresses of pages that are served now; remove the files of servers that ended."""
    addresses = []
    for path in sorted((private / _FOLDER).glob("[0-9]*")):
        with suppress(OSError), path.open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                path.unlink()
            except BlockingIOError:
                addresses.append(file.read())
    return [address for address in addresses if address]
