"""What the worker and the service report: one line of JSON each, on the error output."""

from __future__ import annotations

import json
import logging
import sys
import time
from contextvars import ContextVar

REQUEST: ContextVar[str] = ContextVar("request", default="")  # the id of a request


class JsonHandler(logging.Handler):
    """Writes the messages of libraries as our lines."""

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        error = ""
        if record.exc_info:
            error = repr(record.exc_info[1])
        text = record.getMessage().strip()
        log(record.levelname.lower(), text, source=record.name, reason=error)


def set_up_logging() -> None:
    """Write the messages of libraries as our lines, unless logging is set up already."""
    logging.basicConfig(handlers=[JsonHandler()], level=logging.WARNING)


def log(level: str, message: str, **fields: object) -> None:
    """Write one line.

    Args:
        level: info, warning or error.
        message: what happened.
        fields: what else to know of it; what is "" or None is left out.
    """
    now = time.time()
    timestamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    line: dict[str, object] = {
        "time": f"{timestamp}.{int(now * 1000) % 1000:03}Z",
        "level": level,
        "message": message,
    }
    line |= {"request": REQUEST.get(), **fields}
    stated_fields = {name: value for name, value in line.items() if value not in ("", None)}
    sys.stderr.write(f"{json.dumps(stated_fields, ensure_ascii=False, default=str)}\n")
    sys.stderr.flush()
