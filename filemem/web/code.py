"""Running a caller's JavaScript: starts a process for it, answers what it asks, ends it in time.

What it asks for is answered by reading alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filemem import secrets
from filemem.dialects.call import perform
from filemem.dialects.tool import profile
from filemem.errors import BadInput, FilememError, NotFound
from filemem.files import NO_RECORDS, check_path, is_private, is_record, write
from filemem.record.visibility import EVERYBODY
from filemem.repo import Repo
from filemem.web.route import Answer, Arguments, Ask, Context, Refused, how_to_install

if TYPE_CHECKING:
    from filemem.memory import Memory

DEFAULT = 30_000  # milliseconds of a run
MOST = 60_000
CODE = 65_536  # characters
CALLS = 100  # functions of ours that one run may call
READ = 200_000  # bytes of a file that Read returns
LINE = 8_000_000  # bytes of one line of the child: the longest result, every character escaped
OUTPUT = 16_000_000  # bytes of all its lines
CHILD = Path(__file__).with_name("child.py")
# With other words too, but for tokens: of a design, a parser.
_WORDS = "secrets?|credentials?|passwords?"
_DATA = "json|ya?ml|toml|ini|txt|xml|cfg|conf|properties|enc"
# Names, in lower case, of files and folders that hold secrets, or other people's data.
_SECRET = re.compile(
    r"\.env(\..*)?|\.(netrc|npmrc|pypirc|git-credentials|htpasswd|pgpass|ssh|aws|gnupg)|credentials"
    r"|id_(rsa|dsa|ecdsa|ed25519).*"
    r"|.*\.(env|pem|key|p12|pfx|jks|keystore|kdbx|ppk|asc|gpg|tfvars|tfstate(\..*)?|db|sqlite3?)"
    rf"|.*\.({_WORDS})"
    rf"|(tokens?|(.*[._-])?({_WORDS})([._-].*)?)\.({_DATA})"
)
# What a script may call: the tool behind it, and the argument that may come first without its name,
# as in `search("caching", {limit: 3})`. Only what reads stands here.
_FUNCTIONS: Mapping[str, tuple[str, str]] = {
    "Read": ("", "path"),
    "search": ("search", "query"),
    "get": ("get", "id"),
    "timeline": ("timeline", "anchor"),
    "history": ("timeline", "topic"),
    "load_checkpoint": ("load_checkpoint", "branch"),
}


async def act(context: Context, arguments: Arguments) -> Answer:
    """Run code; whatever becomes of it is an answer, not a failure of this route."""
    engine = find_spec("quickjs")
    if engine is None or engine.origin is None:
        raise Refused(
            503, "NOT_INSTALLED", "No JavaScript engine is installed", how_to_install("code")
        )
    allowed = min(arguments.get("timeout", DEFAULT), MOST) / 1000
    installed = str(Path(engine.origin).parent.parent)
    logs: list[str] = []
    async with context.running:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(allowed):
                came = await _execute(logs, context.ask, installed, arguments["code"], allowed)
        except TimeoutError:
            came = {"error": f"ended after {allowed * 1000:g} ms"}
        duration = round((time.perf_counter() - began) * 1000)
    return {
        "success": "error" not in came,
        "result": None,
        **came,
        "duration": duration,
        "logs": logs,
    }


async def _execute(logs: list[str], ask: Ask, installed: str, code: str, allowed: float) -> Answer:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", str(CHILD), installed, str(int(allowed) + 1)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        cwd=Path(sys.executable).anchor,
        limit=LINE,
    )
    assert child.stdin is not None and child.stdout is not None  # noqa: S101, PT018
    try:
        await _send(child.stdin, {"code": code, "functions": list(_FUNCTIONS)})
        return await _talk(logs, ask, child.stdin, child.stdout)
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await asyncio.shield(child.wait())


async def _talk(
    logs: list[str], ask: Ask, into: asyncio.StreamWriter, out: asyncio.StreamReader
) -> Answer:
    """Answer the child until it is done, or asks for too much; `result` or `error`."""
    size = calls = 0
    while True:
        try:
            line = await out.readline()
        except ValueError:  # longer than LINE
            line = b""
        size += len(line)
        if not line or size > OUTPUT or calls > CALLS:
            limits = f"memory, time or output than a run may use, or more than {CALLS} calls"
            return {"error": f"ended: more {limits}"}
        message = json.loads(line)
        if "log" in message:
            logs.append(message["log"])
        elif "call" in message:
            calls += 1
            await _send(into, await _perform(ask, *message["call"]))
        elif "error" in message:
            return {"error": message["error"]}
        else:
            try:
                return {"result": _value(message["value"])}
            except BadInput as error:
                return {"error": f"the result {error.message}"}


async def _send(into: asyncio.StreamWriter, value: object) -> None:
    into.write(json.dumps(value).encode() + b"\n")
    with contextlib.suppress(ConnectionError):  # it is over already: its last line says how
        await into.drain()


def _value(text: str) -> Any:
    """The value that a script made JSON of: any value, for it may have changed how that is done."""
    try:
        value = json.loads(text)
        json.dumps(value)
    except (ValueError, RecursionError):
        raise BadInput("is no JSON, or nested too deeply") from None
    return value


async def _perform(ask: Ask, name: str, text: str) -> Mapping[str, object]:
    """Do what a function of the script is for; a failure becomes an Error in the script."""
    try:
        values = _value(text)
        return {
            "value": await asyncio.wrap_future(ask(lambda memory: _answer(memory, name, values)))
        }
    except FilememError as error:
        return {"error": error.message}


def _answer(memory: Memory, name: str, values: object) -> object:
    tool, first = _FUNCTIONS[name]
    if not isinstance(values, list):
        raise BadInput("the arguments came as something else; is there a toJSON on a prototype?")
    named: dict[str, Any] = dict(next((part for part in values if isinstance(part, Mapping)), {}))
    if values and values[0] is not None and not isinstance(values[0], Mapping):
        named = {first: values[0], **named}
    if tool:
        return _ask_tool(memory, tool, named, str(named.get(first))[:100])
    return _read(memory, named.get("path", named.get("file_path", "")))


def _ask_tool(memory: Memory, tool: str, named: Mapping[str, Any], subject: str) -> object:
    try:
        return perform(profile("native"), memory.seen_by(EVERYBODY), tool, named)
    except NotFound:  # what it says may name records that are private
        raise NotFound(f"nothing public, or more than one thing, goes by {subject!r}") from None


def _read(memory: Memory, path: object) -> object:
    if not isinstance(path, str):
        raise BadInput("path must be text", field="path")
    where, data = read_file(memory, path, READ)
    text = data.decode("utf-8", "replace")
    if leaks := secrets.find(text):
        what = f"line {leaks[0].line} looks like a secret ({leaks[0].kind})"
        raise BadInput(f"{where} is not read: {what}", field="path")
    return {"content": text, "path": where}


def read_file(memory: Memory, named: str, limit: int) -> tuple[str, bytes]:
    """Read a file of the store, or one that Git tracks: its path and its bytes."""
    path = _place(memory.work_tree, named)
    inside = memory.folder.is_relative_to(memory.work_tree)
    store = (
        memory.folder.relative_to(memory.work_tree) if inside else None
    )  # else attached in another work tree
    if store is not None and path.is_relative_to(store):
        own = path.relative_to(store).as_posix()
        allowed = (is_record(own) or own.lower() in NO_RECORDS) and not is_private(own)
    else:
        if any(_SECRET.fullmatch(part.casefold()) for part in path.parts):
            hint = "name another file"
            raise BadInput(
                "a file of this name may hold secrets and is not read", hint, field="path"
            )
        allowed = path.as_posix() in Repo.discover(memory.work_tree).staged([path.as_posix()])
    if not allowed:
        raise NotFound(
            f"there is no file {path.as_posix()} in the store or among the tracked files"
        )
    *folders, name = path.parts
    with write.open_folder(memory.work_tree, tuple(folders)) as folder:
        return path.as_posix(), write.read_file(folder, name, path.as_posix(), limit)


def _place(work_tree: Path, named: str) -> Path:
    """Where a path leads, from the top of the work tree.

    It is judged by its words alone: links are refused on opening.
    """
    if not named.strip() or "\0" in named or len(named) > 4_096:
        raise BadInput("path must name a file", field="path")
    path = Path(os.path.normpath(work_tree / named))
    if not path.is_relative_to(work_tree) or path == work_tree:
        raise BadInput(
            "path leads out of the repository", "name a file of the project", field="path"
        )
    path = path.relative_to(work_tree)
    check_path(path.as_posix())
    return path
