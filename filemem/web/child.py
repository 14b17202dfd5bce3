"""One run of JavaScript, in a process that is thrown away: started as a script, never imported.

The engine has no files, no network, no `require` and no `process`; what it may ask for is a line to
the parent, who decides. The limits here are the second wall: the first is that the parent ends this
process when its time is over.

It reads one line {"code", "functions"} and then a line for each answer; it writes {"call": [name,
JSON text of the arguments]}, {"log": text} and, last, {"value": JSON text} or {"error": text}. What
a script made is never read here.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

MAX_HEAP = 64 << 20  # bytes that a script may use
MAX_STACK = 512 << 10
MAX_ADDRESS_SPACE = 512 << 20  # bytes of this process
MAX_RESULT = 1_000_000  # characters of the result
MAX_LOG_LINES = 200  # lines of the log
MAX_LOG_LINE = 2_000  # characters of each


def main() -> None:
    """Run what the parent sends."""
    sys.path.insert(
        0, sys.argv[1]
    )  # where the engine is installed; nothing else of the parent's path
    import quickjs  # noqa: PLC0415

    prelude = (Path(__file__).parent / "assets/prelude.js").read_text("utf-8")
    limit_process(int(sys.argv[2]))
    task = json.loads(sys.stdin.readline())
    send_line(run_script(quickjs, prelude, task["code"], task["functions"]))


def limit_process(seconds: int) -> None:
    """Give up what this process does not need.

    Where the system knows no such limits, the parent's remain.
    """
    limits = {
        "CPU": seconds,
        "AS": MAX_ADDRESS_SPACE,
        "FSIZE": 0,
        "NOFILE": 3,
        "CORE": 0,
        "NPROC": 0,
    }
    for name, value in limits.items():
        with contextlib.suppress(
            AttributeError, ValueError, OSError
        ):  # unknown here, or lower already
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))


class ScriptRun:
    """One run of a script: what it logged, and what it came to.

    The engine calls its methods. An exception in them would end it, so there is none.
    """

    def __init__(self) -> None:
        self.line_count = 0
        self.outcome = {"error": "nothing came of it: a promise that nobody keeps"}

    def call_parent(self, name: str, arguments: object) -> str:
        """Ask the parent to do what a function of the script is for."""
        send_line({"call": [name, arguments if isinstance(arguments, str) else ""]})
        reply = sys.stdin.readline()
        if not reply:
            os._exit(1)
        return reply

    def send_log(self, text: str) -> None:
        """Add to the log, as far as it goes."""
        self.line_count += 1
        if self.line_count <= MAX_LOG_LINES:
            send_line({"log": text[:MAX_LOG_LINE]})

    def set_outcome(self, value: str, error: str) -> None:
        """Keep what the script came to."""
        if len(value) > MAX_RESULT:
            error = f"the result is larger than {MAX_RESULT} characters"
        self.outcome = {"error": error} if error else {"value": value}


def run_script(engine: Any, prelude: str, code: str, functions: list[str]) -> dict[str, Any]:
    """Run the body of an async function, and everything it leaves to be done; what it came to."""
    context = engine.Context()
    context.set_memory_limit(MAX_HEAP)
    context.set_max_stack_size(MAX_STACK)
    script_run = ScriptRun()
    callbacks = {
        "__host": script_run.call_parent,
        "__say": script_run.send_log,
        "__settled": script_run.set_outcome,
    }
    try:
        prepare = context.eval(prelude)
        for name, function in callbacks.items():
            context.add_callable(name, function)
        execute = prepare(json.dumps(functions), *(context.get(name) for name in callbacks))
        for name in callbacks:
            context.eval(f"delete globalThis.{name}")
        execute(f"(async () => {{{code}\n}})()")
        while context.execute_pending_job():
            pass
    except (engine.JSException, MemoryError, UnicodeError) as error:  # the script's, whatever it is
        line = str(error).split("\n", 1)[0] or type(error).__name__
        return {"error": "memory ran out" if line == "null" else line}
    return script_run.outcome


def send_line(value: dict[str, Any]) -> None:
    """Write a line to the parent."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
