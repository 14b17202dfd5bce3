"""Being told to end: what a command has begun is ended and removed, as where it fails.

A save that has begun is not interrupted: it is done, and its answer given, before the process ends.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_DEADLY = ("SIGTERM", "SIGHUP")
_Handler = Callable[[int, FrameType | None], object] | int

_kept: dict[int, _Handler] = {}  # while signals are held: what else would hear of them
_came: list[int] = []  # those that came meanwhile
_within: list[object] = []  # one for each `unwinding` that we are in


@contextlib.contextmanager
def unwinding() -> Iterator[None]:
    """Let a signal that would end this process on the spot raise SystemExit instead, 128 plus its number.

    Only the first one: `timeout` sends two, and the second must not stop what the first set off. Where an error comes
    of it instead, as in an import of Python's that is cut off, SystemExit it is all the same.
    """

    if not _ours():
        yield
        return

    told: list[int] = []

    def leave(number: int, _: object) -> None:
        told.append(number)
        for each in deadly:
            signal.signal(each, _pass_over)
        raise SystemExit(128 + number)

    deadly = [each for each in _known(*_DEADLY) if signal.getsignal(each) is signal.SIG_DFL]
    for number in deadly:
        signal.signal(number, leave)
    _act()
    _within.append(leave)
    try:
        yield
        if len(_within) == 1:
            _act()
    except Exception as error:
        if told:
            raise SystemExit(128 + told[0]) from error
        raise
    finally:
        _within.pop()
        for number in deadly:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def held(*, until_answered: bool = False) -> Iterator[None]:
    """Let signals that end this process, Ctrl-C among them, wait until a block is done that is short.

    Args:
        until_answered: in `unwinding` one that came waits until that ends, for the answer to be given, or until the
            next block; not where the block fails.
    """
    if _kept or not _ours():
        yield
        return
    _act()
    _hold()
    try:
        yield
    except BaseException:
        _let_go()
        _act()
        raise
    _let_go()
    if not (until_answered and _within):
        _act()


@contextlib.contextmanager
def heard() -> Iterator[None]:
    """Let signals through in a part of such a block that may last, and that can be undone."""
    if not _kept or not _ours():
        yield
        return
    _let_go()
    try:
        _act()
        yield
    finally:
        _hold()


def signals() -> tuple[int, ...]:
    """The signals that tell a server to end: that the terminal hung up only where it is not ignored, as by `nohup`."""
    heard = (number for number in _known("SIGHUP") if signal.getsignal(number) is not signal.SIG_IGN)
    return (signal.SIGTERM, signal.SIGINT, *heard)


def _ours() -> bool:
    """Whether this is the thread that signals are heard in."""
    return threading.current_thread() is threading.main_thread()


def _known(*names: str) -> list[int]:
    """Those signals that this system has."""
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


def _hold() -> None:
    for number in _known("SIGINT", *_DEADLY):
        handler = signal.getsignal(number)
        if handler is not None and handler is not signal.SIG_IGN:  # the first is not Python's, the second goes on
            _kept[number] = handler
            signal.signal(number, _note)


def _let_go() -> None:
    while _kept:
        signal.signal(*_kept.popitem())


def _act() -> None:
    """Do what a signal asks for that came while it was held."""
    if _came:
        number = _came[0]
        _came.clear()
        signal.raise_signal(number)


def _note(number: int, _frame: object) -> None:
    _came.append(number)


def _pass_over(_number: int, _frame: object) -> None:
    """Not SIG_IGN, which the Git commands that are ended meanwhile would inherit."""
