"""Several waits for the disk at once: on a slow disk seven barriers in a row cost seven times one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence


def together(calls: Sequence[Callable[[], None]]) -> None:
    """Run the calls at the same time and return when all have ended; raises the first error of any."""
    errors: list[OSError] = []

    def guarded(call: Callable[[], None]) -> None:
        try:
            call()
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(call,)) for call in calls[1:]]
    for thread in threads:
        thread.start()
    for call in calls[:1]:
        guarded(call)
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
