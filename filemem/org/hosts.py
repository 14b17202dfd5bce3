"""The looks of one worker, by Git host: a silent host gets rarer calls, and holds up no other.

A look that takes long is only waiting, so it does not count among those that run at a time.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import NamedTuple

MAX_PER_HOST = 4  # repositories of one host
STUCK_SECONDS = 10.0  # seconds after which a look is taken to wait
MAX_STUCK = 60
FIRST_PAUSE = 60.0  # seconds for which a host is left alone when it was silent; then twice as long
MAX_PAUSE = 3600.0


class _Look(NamedTuple):
    host: str
    since: float


class _Pause(NamedTuple):
    seconds: float
    until: float


class Hosts:
    """The looks that run, and the hosts that are left alone; `limit`: looks at a time."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._looks = dict[int, _Look]()
        self._pauses = dict[str, _Pause]()
        self._lock = threading.Lock()

    def begin_look(self, repository: int, host: str) -> None:
        """Note that a look at a repository begins."""
        with self._lock:
            self._looks[repository] = _Look(host, time.monotonic())

    def end_look(self, repository: int, *, is_silent: bool) -> None:
        """Note that a look ended; `is_silent`: its host did not answer."""
        with self._lock:
            host = self._looks.pop(repository).host
            last_pause = self._pauses.pop(host, _Pause(FIRST_PAUSE / 2, 0))
            if is_silent:
                seconds = min(2 * last_pause.seconds, MAX_PAUSE)
                self._pauses[host] = _Pause(seconds, time.monotonic() + seconds)

    def list_repositories(self) -> list[int]:
        """Return those that are looked at now."""
        with self._lock:
            return list(self._looks)

    def count_stuck(self) -> int:
        """Count the looks that only wait."""
        with self._lock:
            start_times = [look.since for look in self._looks.values()]
        stuck_before = time.monotonic() - STUCK_SECONDS
        stuck = [since for since in start_times if since < stuck_before]
        return min(MAX_STUCK, len(stuck))

    def is_full(self) -> bool:
        """Whether as many looks run as may."""
        return len(self._looks) - self.count_stuck() >= self._limit

    def list_avoided_hosts(self) -> list[str]:
        """List the hosts that are not asked now: silent ones, and those asked enough."""
        with self._lock:
            now = time.monotonic()
            hosts = [host for host, pause in self._pauses.items() if pause.until > now]
            look_counts = Counter(look.host for look in self._looks.values() if look.host)
        hosts += [host for host, count in look_counts.items() if count >= MAX_PER_HOST]
        return hosts
