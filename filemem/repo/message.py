"""What a commit says. Pure.

Whatever callers put into a title or a trailer, a commit keeps one header block, one subject line, one row of trailers.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import NamedTuple

from filemem.repo.settings import Identity

_SUBJECT, _VALUE = 120, 400  # characters kept
_KEY = re.compile(r"[A-Za-z][A-Za-z-]{0,40}")


class Message(NamedTuple):
    """A commit message.

    Args:
        subject: its first line; line breaks and control characters become spaces, the rest is cut.
        trailers: (key, value) pairs; empty values and keys that are none are left out.
        body: lines between the two, treated like the subject.
    """

    subject: str
    trailers: tuple[tuple[str, str], ...] = ()
    body: tuple[str, ...] = ()

    def __str__(self) -> str:
        subject = _line(self.subject, _SUBJECT) or "record"
        rows = [
            f"{key}: {text}\n" for key, value in self.trailers if _KEY.fullmatch(key) and (text := _line(value, _VALUE))
        ]
        body = [f"- {line}\n" for text in self.body if (line := _line(text, _SUBJECT))]
        return "\n".join((f"{subject}\n", *("".join(part) for part in (body, rows) if part)))


class Stamp(NamedTuple):
    """Who commits, and when.

    Args:
        author: whose work it is.
        committer: who commits it.
        at: epoch milliseconds.
    """

    author: Identity
    committer: Identity
    at: int

    @property
    def time(self) -> str:
        """Seconds and local offset, as Git writes them."""
        seconds = max(0, self.at // 1000)  # Git knows no time before 1970
        offset = time.localtime(seconds).tm_gmtoff // 60
        return f"{seconds} {'-' if offset < 0 else '+'}{abs(offset) // 60:02d}{abs(offset) % 60:02d}"


def commit_bytes(tree: str, parents: Sequence[str], stamp: Stamp, message: str) -> bytes:
    """A commit object."""
    lines = [
        f"tree {tree}",
        *(f"parent {parent}" for parent in parents),
        f"author {stamp.author} {stamp.time}",
        f"committer {stamp.committer} {stamp.time}",
        "",
        message,
    ]
    return "\n".join(lines).encode("utf-8", "replace")


def _line(text: str, limit: int) -> str:
    kept = " ".join("".join(c if c.isprintable() else " " for c in text[: limit * 8]).split())
    return kept if len(kept) <= limit else kept[: limit - 3].rstrip() + "..."
