"""A tiny dialect of real tools, and a server over it: run as a script it serves stdio, or HTTP with --http."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from filemem.dialects.tool import Dialect, Tool, build_failure
from filemem.errors import BrokenStore, Conflict

VERSION = "1.2.3"


class Notebook:
    """Stands where the memory stands: the tools below know nothing more of it than this."""

    closed = False

    def seen_by(self, _reader: object) -> Notebook:
        """Everybody sees the whole notebook."""
        return self

    def close(self) -> None:
        """Leave a trace of having been closed, where one is wanted."""
        self.closed = True
        if "CLOSED_FILE" in os.environ:
            Path(os.environ["CLOSED_FILE"]).write_text("closed")


def echo(_: object, arguments: Mapping[str, object]) -> dict[str, object]:
    print("a stray print")  # must not reach the wire
    return {
        "success": True,
        "said": arguments["text"],
        "none": None,
        "times": arguments.get("times", 1),
    }


def fail(_: object, arguments: Mapping[str, object]) -> dict[str, object]:
    os.system("echo a stray child")  # nor may this
    raise Conflict("two heads on caching", "pass supersedes", heads=("a", "b"))


def crash(_: object, arguments: Mapping[str, object]) -> dict[str, object]:
    raise RuntimeError("secret detail")


def full(_: object, arguments: Mapping[str, object]) -> dict[str, object]:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/store/x")


def slow(_: object, arguments: Mapping[str, object]) -> dict[str, object]:
    if "BEGUN_FILE" in os.environ:
        Path(os.environ["BEGUN_FILE"]).touch()
    time.sleep(float(cast(float, arguments["seconds"])))
    return {"success": True}


def odd(_: object, arguments: Mapping[str, object]) -> dict[str, object] | str:
    kinds: Mapping[object, Any] = {
        "text": "plain | text \ud800",
        "half": {"said": "\ud800"},
        "nan": {"x": float("nan")},
    }
    return cast("dict[str, object] | str", kinds[arguments["kind"]])


def _object(required: str, **properties: object) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": [required],
        "additionalProperties": False,
    }


def _tool(
    call: Callable[[Any, Mapping[str, object]], Any], schema: dict[str, object], **more: Any
) -> Tool:
    return Tool(
        name=call.__name__,
        description=f"{call.__name__} — é",
        input_schema=schema,
        call=call,
        **more,
    )


TOOLS = (
    _tool(
        echo,
        _object(
            "text",
            text={"type": "string"},
            times={"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        ),
        title="Echo",
        annotations={
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
    ),
    _tool(fail, {"type": "object"}),
    _tool(crash, {"type": "object"}),
    _tool(full, {"type": "object"}),
    _tool(slow, _object("seconds", seconds={"type": "number"})),
    _tool(odd, _object("kind", kind={"enum": ["text", "half", "nan"]})),
)
DIALECT = Dialect(name="tiny", tools=TOOLS, instructions="Say — hello.", failure=build_failure)
OFFER = DIALECT._replace(listed_tools=TOOLS)


def open_notebook(*_: object) -> Any:
    """Open what the tools work on, or fail as a folder outside any repository does."""
    if "BROKEN" in os.environ:
        raise BrokenStore("no repository here", "run git init")
    return Notebook()


class NoSite:
    """A site that serves nothing besides MCP."""

    def list_methods(self, *_: object) -> tuple[str, ...]:
        return ()

    def format_refusal(self, path: str, status: int, message: str) -> Mapping[str, object]:
        return {"error": message}

    def log_request(self, *_: object) -> None:
        return

    def build_routes(self, *_: object) -> tuple[()]:
        return ()


def plain_stdio() -> None:
    """Serve by the SDK alone, without the front: what the front is compared with."""
    import asyncio

    from mcp.server.stdio import stdio_server

    from filemem.server import sdk
    from filemem.server.calls import CallQueue

    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr] # at its end the SDK gives back the wire

    async def run() -> None:
        server = sdk.FilememServer(OFFER, CallQueue(DIALECT, open_notebook), VERSION)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    asyncio.run(run())


def main() -> None:
    """Serve as the arguments say."""
    from filemem import server

    if "--plain" in sys.argv:
        plain_stdio()
        return
    if "--http" not in sys.argv:
        if "ENDING" in os.environ:
            from filemem.server import line

            line.INPUT_END_SECONDS = float(os.environ["ENDING"])
        server.serve_stdio(OFFER, open_notebook, version=VERSION)
        if "FORBIDDEN" in os.environ:
            heavy = {
                "mcp",
                "pydantic",
                "asyncio",
                "numpy",
                "anyio",
                "jsonschema_rs",
            } - {os.environ["FORBIDDEN"]}
            heavy &= sys.modules.keys()
            sys.exit(f"imported: {sorted(heavy)}" if heavy else 0)
        return
    from filemem.server import http

    port = int(sys.argv[sys.argv.index("--http") + 1])
    http.serve(OFFER, open_notebook, VERSION, http.Address(port=port), NoSite())


if __name__ == "__main__":
    main()
