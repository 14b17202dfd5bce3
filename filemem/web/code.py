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
from filemem.dialects.tool import load_profile
from filemem.errors import BadInput, FilememError, NotFound
from filemem.files import NON_RECORD_NAMES, is_private, is_record, validate_path, write
from filemem.record.visibility import EVERYBODY
from filemem.repo import Repo
from filemem.web.route import Answer, Arguments, Ask, Context, RouteFailure, format_install_hint

if TYPE_CHECKING:
    from filemem.memory import Memory

DEFAULT_TIMEOUT = 30_000  # milliseconds of a run
MAX_TIMEOUT = 60_000
MAX_CODE = 65_536  # characters
MAX_CALLS = 100  # functions of ours that one run may call
MAX_READ = 200_000  # bytes of a file that Read returns
MAX_LINE = 8_000_000  # bytes of one line of the child: the longest result, every character escaped
MAX_OUTPUT = 16_000_000  # bytes of all its lines
CHILD = Path(__file__).with_name("child.py")
# With other words too, but for tokens: of a design, a parser.
_SENSITIVE_WORDS = "secrets?|credentials?|passwords?"
_DATA_SUFFIXES = "json|ya?ml|toml|ini|txt|xml|cfg|conf|properties|enc"
# Names, in lower case, of files and folders that hold secrets, or other people's data.
_SECRET_NAME = re.compile(
    r"\.env(\..*)?|\.(netrc|npmrc|pypirc|git-credentials|htpasswd|pgpass|ssh|aws|gnupg)|credentials"
    r"|id_(rsa|dsa|ecdsa|ed25519).*"
    r"|.*\.(env|pem|key|p12|pfx|jks|keystore|kdbx|ppk|asc|gpg|tfvars|tfstate(\..*)?|db|sqlite3?)"
    rf"|.*\.({_SENSITIVE_WORDS})"
    rf"|(tokens?|(.*[._-])?({_SENSITIVE_WORDS})([._-].*)?)\.({_DATA_SUFFIXES})"
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


async def run_code(context: Context, arguments: Arguments) -> Answer:
    """Run code; whatever becomes of it is an answer, not a failure of this route."""
    engine = find_spec("quickjs")
    if engine is None or engine.origin is None:
        raise RouteFailure(
            503, "NOT_INSTALLED", "No JavaScript engine is installed", format_install_hint("code")
        )
    time_limit = min(arguments.get("timeout", DEFAULT_TIMEOUT), MAX_TIMEOUT) / 1000
    engine_folder = str(Path(engine.origin).parent.parent)
    logs: list[str] = []
    async with context.sandbox_slots:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(time_limit):
                outcome = await _run_child(
                    logs, context.ask, engine_folder, arguments["code"], time_limit
                )
        except TimeoutError:
            outcome = {"error": f"ended after {time_limit * 1000:g} ms"}
        duration = round((time.perf_counter() - began) * 1000)
    return {
        "success": "error" not in outcome,
        "result": None,
        **outcome,
        "duration": duration,
        "logs": logs,
    }


async def _run_child(
    logs: list[str], ask: Ask, engine_folder: str, code: str, time_limit: float
) -> Answer:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", str(CHILD), engine_folder, str(int(time_limit) + 1)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        cwd=Path(sys.executable).anchor,
        limit=MAX_LINE,
    )
    assert child.stdin is not None and child.stdout is not None  # noqa: S101, PT018
    try:
        await _send_line(child.stdin, {"code": code, "functions": list(_FUNCTIONS)})
        return await _answer_child(logs, ask, child.stdin, child.stdout)
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await asyncio.shield(child.wait())


async def _answer_child(
    logs: list[str], ask: Ask, writer: asyncio.StreamWriter, reader: asyncio.StreamReader
) -> Answer:
    """Answer the child until it is done, or asks for too much; `result` or `error`."""
    size = calls = 0
    while True:
        try:
            line = await reader.readline()
        except ValueError:  # longer than LINE
            line = b""
        size += len(line)
        if not line or size > MAX_OUTPUT or calls > MAX_CALLS:
            limits = f"memory, time or output than a run may use, or more than {MAX_CALLS} calls"
            return {"error": f"ended: more {limits}"}
        message = json.loads(line)
        if "log" in message:
            logs.append(message["log"])
        elif "call" in message:
            calls += 1
            await _send_line(writer, await _answer_call(ask, *message["call"]))
        elif "error" in message:
            return {"error": message["error"]}
        else:
            try:
                return {"result": _parse_value(message["value"])}
            except BadInput as error:
                return {"error": f"the result {error.message}"}


async def _send_line(writer: asyncio.StreamWriter, value: object) -> None:
    writer.write(json.dumps(value).encode() + b"\n")
    with contextlib.suppress(ConnectionError):  # it is over already: its last line says how
        await writer.drain()


def _parse_value(text: str) -> Any:
    """The value that a script made JSON of: any value, for it may have changed how that is done."""
    try:
        value = json.loads(text)
        json.dumps(value)
    except (ValueError, RecursionError):
        raise BadInput("is no JSON, or nested too deeply") from None
    return value


async def _answer_call(ask: Ask, name: str, text: str) -> Mapping[str, object]:
    """Do what a function of the script is for; a failure becomes an Error in the script."""
    try:
        values = _parse_value(text)
        return {
            "value": await asyncio.wrap_future(
                ask(lambda memory: _call_function(memory, name, values))
            )
        }
    except FilememError as error:
        return {"error": error.message}


def _call_function(memory: Memory, name: str, values: object) -> object:
    tool, first_name = _FUNCTIONS[name]
    if not isinstance(values, list):
        raise BadInput("the arguments came as something else; is there a toJSON on a prototype?")
    arguments: dict[str, Any] = dict(
        next((part for part in values if isinstance(part, Mapping)), {})
    )
    if values and values[0] is not None and not isinstance(values[0], Mapping):
        arguments = {first_name: values[0], **arguments}
    if tool:
        return _call_tool(memory, tool, arguments, str(arguments.get(first_name))[:100])
    return _read_public_file(memory, arguments.get("path", arguments.get("file_path", "")))


def _call_tool(memory: Memory, tool: str, arguments: Mapping[str, Any], subject: str) -> object:
    try:
        return perform(load_profile("native"), memory.seen_by(EVERYBODY), tool, arguments)
    except NotFound:  # what it says may name records that are private
        raise NotFound(f"nothing public, or more than one thing, goes by {subject!r}") from None


def _read_public_file(memory: Memory, path: object) -> object:
    if not isinstance(path, str):
        raise BadInput("path must be text", field="path")
    shown_path, data = read_file(memory, path, MAX_READ)
    text = data.decode("utf-8", "replace")
    if leaks := secrets.find_secrets(text):
        finding = f"line {leaks[0].line} looks like a secret ({leaks[0].kind})"
        raise BadInput(f"{shown_path} is not read: {finding}", field="path")
    return {"content": text, "path": shown_path}


def read_file(memory: Memory, requested_path: str, limit: int) -> tuple[str, bytes]:
    """Read a file of the store, or one that Git tracks: its path and its bytes."""
    path = _resolve_path(memory.work_tree, requested_path)
    is_inside = memory.folder.is_relative_to(memory.work_tree)
    store = (
        memory.folder.relative_to(memory.work_tree) if is_inside else None
    )  # else attached in another work tree
    if store is not None and path.is_relative_to(store):
        store_path = path.relative_to(store).as_posix()
        is_allowed = (
            is_record(store_path) or store_path.lower() in NON_RECORD_NAMES
        ) and not is_private(store_path)
    else:
        if any(_SECRET_NAME.fullmatch(part.casefold()) for part in path.parts):
            hint = "name another file"
            raise BadInput(
                "a file of this name may hold secrets and is not read", hint, field="path"
            )
        is_allowed = path.as_posix() in Repo.discover(memory.work_tree).read_staged(
            [path.as_posix()]
        )
    if not is_allowed:
        raise NotFound(
            f"there is no file {path.as_posix()} in the store or among the tracked files"
        )
    *folders, name = path.parts
    with write.open_folder(memory.work_tree, tuple(folders)) as folder:
        return path.as_posix(), write.read_file(folder, name, path.as_posix(), limit)


def _resolve_path(work_tree: Path, requested_path: str) -> Path:
    """Where a path leads, from the top of the work tree.

    It is judged by its words alone: links are refused on opening.
    """
    if not requested_path.strip() or "\0" in requested_path or len(requested_path) > 4_096:
        raise BadInput("path must name a file", field="path")
    path = Path(os.path.normpath(work_tree / requested_path))
    if not path.is_relative_to(work_tree) or path == work_tree:
        raise BadInput(
            "path leads out of the repository", "name a file of the project", field="path"
        )
    path = path.relative_to(work_tree)
    validate_path(path.as_posix())
    return path
