"""The child process that runs JavaScript once: started as a script, never imported.

The engine has no files, no network, no `require` and no `process`. For anything else it sends a
line to the parent, which decides. The parent ends this process when its time is over; the limits
here are a second barrier.

The child reads one line {"code", "functions"} and then a line for each answer. It writes {"call":
[name, JSON text of the arguments]}, {"log": text} and, last, {"value": JSON text} or {"error":
text}. It never parses what a script made.
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
    """Run the script that the parent sends."""
    engine_folder = sys.argv[1]
    seconds = int(sys.argv[2])
    sys.path.insert(0, engine_folder)  # the only part of the parent's path
    import quickjs  # noqa: PLC0415

    prelude = (Path(__file__).parent / "assets/prelude.js").read_text("utf-8")
    limit_process(seconds)
    task = json.loads(sys.stdin.readline())
    send_line(run_script(quickjs, prelude, task["code"], task["functions"]))


def limit_process(seconds: int) -> None:
    """Limit the resources of this process, as far as the system can."""
    limits = {
        "CPU": seconds,
        "AS": MAX_ADDRESS_SPACE,
        "FSIZE": 0,
        "NOFILE": 3,
        "CORE": 0,
        "NPROC": 0,
    }
    for name, limit in limits.items():
        # The limit may be unknown here, or lower already.
        with contextlib.suppress(AttributeError, ValueError, OSError):
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limit, limit))


class ScriptRun:
    """A run of a script: how many lines it has logged, and its outcome.

    The engine calls the methods. They must not raise: an exception would end the engine.
    """

    def __init__(self) -> None:
        self.line_count = 0
        self.outcome = {"error": "nothing came of it: a promise that nobody keeps"}

    def call_parent(self, name: str, arguments: object) -> str:
        """Let the parent call a function for the script; return the answer."""
        arguments_text = arguments if isinstance(arguments, str) else ""
        send_line({"call": [name, arguments_text]})
        reply = sys.stdin.readline()
        if not reply:
            os._exit(1)
        return reply

    def send_log(self, text: str) -> None:
        """Send a line of the log to the parent, up to the limits."""
        self.line_count += 1
        if self.line_count <= MAX_LOG_LINES:
            send_line({"log": text[:MAX_LOG_LINE]})

    def set_outcome(self, value: str, error: str) -> None:
        """Keep the result of the script as JSON text, or its error."""
        if len(value) > MAX_RESULT:
            error = f"the result is larger than {MAX_RESULT} characters"
        self.outcome = {"error": error} if error else {"value": value}


def run_script(engine: Any, prelude: str, code: str, functions: list[str]) -> dict[str, Any]:
    """Run code as the body of an async function, and all that it leaves pending.

    Returns `value` or `error`. `functions` are the names of the functions that the code may call.
    """
    context = engine.Context()
    context.set_memory_limit(MAX_HEAP)
    context.set_max_stack_size(MAX_STACK)
    script_run = ScriptRun()
    try:
        execute = prepare_context(context, prelude, functions, script_run)
        execute(f"(async () => {{{code}\n}})()")
        while context.execute_pending_job():
            pass
    except (engine.JSException, MemoryError, UnicodeError) as error:  # all are the script's fault
        line = str(error).split("\n", 1)[0]
        if line == "null":
            return {"error": "memory ran out"}
        return {"error": line or type(error).__name__}
    return script_run.outcome


def prepare_context(context: Any, prelude: str, functions: list[str], script_run: ScriptRun) -> Any:
    """Run the prelude, which defines the functions; return a function that executes code.

    Only the prelude can reach our callbacks: they are deleted from the global object.
    """
    prepare = context.eval(prelude)
    context.add_callable("__host", script_run.call_parent)
    context.add_callable("__say", script_run.send_log)
    context.add_callable("__settled", script_run.set_outcome)
    names = ("__host", "__say", "__settled")
    callbacks = [context.get(name) for name in names]
    execute = prepare(json.dumps(functions), *callbacks)
    for name in names:
        context.eval(f"delete globalThis.{name}")
    return execute


def send_line(value: dict[str, Any]) -> None:
    """Write a line to the parent."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
