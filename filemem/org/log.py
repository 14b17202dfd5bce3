"""What the worker and the service report: one line of JSON each, on the error output."""

from __future__ import annotations

import json
import logging
import sys
import time
from contextvars import ContextVar

REQUEST: ContextVar[str] = ContextVar("request", default="")  # the id of a request


class Lines(logging.Handler):
    """What makes lines of what libraries log."""

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        error = repr(record.exc_info[1]) if record.exc_info else ""
        text = record.getMessage().strip()
        log(record.levelname.lower(), text, source=record.name, reason=error)


def begin() -> None:
    """Let libraries log as this does, where nothing else is set up."""
    logging.basicConfig(handlers=[Lines()], level=logging.WARNING)


def log(level: str, message: str, **fields: object) -> None:
    """Write one line.

    Args:
        level: info, warning or error.
        message: what happened.
        fields: what else to know of it; what is "" or None is left out.
    """
    now = time.time()
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    line: dict[str, object] = {
        "time": f"{at}.{int(now * 1000) % 1000:03}Z",
        "level": level,
        "message": message,
    }
    line |= {"request": REQUEST.get(), **fields}
    kept = {name: value for name, value in line.items() if value not in ("", None)}
    sys.stderr.write(f"{json.dumps(kept, ensure_ascii=False, default=str)}\n")
    sys.stderr.flush()
