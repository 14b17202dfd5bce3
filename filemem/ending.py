"""Being told to end: what a command has begun is ended and removed, as where it fails."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

_DEADLY = ("SIGTERM", "SIGHUP")


@contextlib.contextmanager
def unwinding() -> Iterator[None]:
    """Let a signal that would end this process on the spot raise SystemExit instead, 128 plus its number.

    Only the first one: `timeout` sends two, and the second must not stop what the first set off.
    """

    def leave(number: int, _: object) -> None:
        for each in deadly:
            signal.signal(each, _pass_over)
        raise SystemExit(128 + number)

    known = [getattr(signal, name) for name in _DEADLY if hasattr(signal, name)]
    ours = threading.current_thread() is threading.main_thread()
    deadly = [number for number in known if ours and signal.getsignal(number) is signal.SIG_DFL]
    for number in deadly:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in deadly:
            signal.signal(number, signal.SIG_DFL)


def _pass_over(_number: int, _frame: object) -> None:
    """Not SIG_IGN, which the Git commands that are ended meanwhile would inherit."""
