"""Several processes that answer at one address, since Python computes in one thread of each."""

from __future__ import annotations

import signal
import socket
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from typing import cast

from filemem.org.log import log

RESTART_SECONDS = 1.0  # seconds until a process that ended is replaced


def run_processes(
    child: Callable[[socket.socket], None], listener: socket.socket, count: int
) -> None:
    """Run `child` in so many processes until a signal comes; replace those that end.

    Args:
        child: what a process does, a function that can be pickled. It gets the socket.
        listener: the socket that all of them accept from.
        count: how many processes.
    """
    context = get_context("spawn")
    processes: dict[int, SpawnProcess] = {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        while True:
            while len(processes) < count:
                process = context.Process(target=child, args=(listener,))
                process.start()
                processes[process.sentinel] = process
            for sentinel in wait(list(processes)):
                code = processes.pop(cast("int", sentinel)).exitcode
                log("error", "a process ended and is replaced", code=code)
                time.sleep(RESTART_SECONDS)
    finally:
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            process.join()
