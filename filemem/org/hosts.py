"""The looks of one worker, by Git host: a silent host gets rarer calls, and holds up no other.

A look that takes long is only waiting, so it does not count among those that run at a time.
"""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

AT_ONCE = 4  # repositories of one host
STUCK = 10.0  # seconds after which a look is taken to wait
MOST_STUCK = 60
FIRST = 60.0  # seconds for which a host is left alone when it was silent; then twice as long
LONGEST = 3600.0


class _Look(NamedTuple):
    host: str
    since: float


class _Pause(NamedTuple):
    seconds: float
    until: float


class Hosts:
    """The looks that run, and the hosts that are left alone; `most`: looks at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._looks = dict[int, _Look]()
        self._pauses = dict[str, _Pause]()
        self._lock = threading.Lock()

    def begin(self, repository: int, host: str) -> None:
        """Note that a look at a repository begins."""
        with self._lock:
            self._looks[repository] = _Look(host, time.monotonic())

    def end(self, repository: int, *, silent: bool) -> None:
        """Note that a look ended; `silent`: its host did not answer."""
        with self._lock:
            host = self._looks.pop(repository).host
            before = self._pauses.pop(host, _Pause(FIRST / 2, 0))
            if silent:
                seconds = min(2 * before.seconds, LONGEST)
                self._pauses[host] = _Pause(seconds, time.monotonic() + seconds)

    def repositories(self) -> list[int]:
        """Return those that are looked at now."""
        with self._lock:
            return list(self._looks)

    def stuck(self) -> int:
        """Return how many looks only wait."""
        with self._lock:
            began = [look.since for look in self._looks.values()]
        late = time.monotonic() - STUCK
        return min(MOST_STUCK, sum(since < late for since in began))

    def full(self) -> bool:
        """Whether as many looks run as may."""
        return len(self._looks) - self.stuck() >= self._most

    def avoided(self) -> list[str]:
        """Return the hosts that are not asked now: silent ones, and those asked enough."""
        with self._lock:
            now = time.monotonic()
            paused = [host for host, pause in self._pauses.items() if pause.until > now]
            busy = [look.host for look in self._looks.values() if look.host]
        return [*paused, *(host for host in set(busy) if busy.count(host) >= AT_ONCE)]
