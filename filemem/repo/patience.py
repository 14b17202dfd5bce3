"""Waiting for a call that reaches others: for as long as it says something, telling what it says, and not for ever."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from filemem.repo.git import GitError, kill

if TYPE_CHECKING:
    import subprocess

NOTED = 3.0  # seconds of silence after which it is said what is waited for


class Patience(NamedTuple):
    """How long a call that reaches others is waited for.

    Args:
        what: what is waited for, in words.
        limit: seconds it may take in all.
        silence: seconds for which it may say nothing.
        tell: told what it says, and what is waited for; None for nobody.
    """

    what: str
    limit: float
    silence: float
    tell: Callable[[str], object] | None = None


def listen(process: subprocess.Popen[bytes], name: str, patience: Patience) -> None:
    """Wait for a call that was started apart and may take long, passing on what it says as it comes.

    Raises:
        GitError: it failed, took too long or was silent for too long; `stderr` holds all that it said.
    """
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None  # noqa: S101, PT018
    heard: list[bytes] = []
    overdue: list[float] = []

    def give_up(after: float) -> None:
        overdue.append(after)
        kill(process)

    late = threading.Timer(patience.limit, give_up, (patience.limit,))
    ear = threading.Thread(target=_follow, args=(process.stderr.fileno(), heard, patience, give_up), daemon=True)
    try:
        late.start()
        ear.start()
        process.stdin.close()
        out = process.stdout.read()
        code = process.wait()
        ear.join()
    except BaseException:
        kill(process)
        process.wait()
        if ear.is_alive():  # not where a signal came before it had begun
            ear.join(1.0)
        raise
    finally:
        late.cancel()
        process.stdout.close()
        process.stderr.close()
    if overdue:
        raise GitError(name, -1, f"no answer in {overdue[0]:g} seconds")
    if code:
        raise GitError(name, code, (b"".join(heard) + b"\n" + out).decode("utf-8", "replace"))


def _follow(fd: int, heard: list[bytes], patience: Patience, give_up: Callable[[float], object]) -> None:
    """Pass on what a call says; say once that it is waited for, and give it up where it says nothing for too long."""
    last, noted = time.monotonic(), not patience.tell
    while True:
        wait = patience.silence if noted else min(NOTED, patience.silence)
        ready, _, _ = select.select([fd], [], [], max(0.0, last + wait - time.monotonic()))
        if ready:
            data = os.read(fd, 1 << 12)
            if not data:
                return
            heard.append(data)
            last = time.monotonic()
            if patience.tell:
                patience.tell(data.decode("utf-8", "replace"))
        elif time.monotonic() - last >= patience.silence:
            give_up(patience.silence)
            return
        elif patience.tell and not noted:
            patience.tell(f"waiting for {patience.what}; given up after {patience.silence:g} seconds of silence\n")
            noted = True
