"""Run a caller's JavaScript in a child process with limits on time, memory and calls.

A script can call a few functions of ours; they only read.
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
from typing import TYPE_CHECKING, Any, NamedTuple

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
MAX_CALLS = 100  # calls of our functions by one run
MAX_READ = 200_000  # bytes of a file that Read returns
MAX_LINE = 8_000_000  # bytes of one line of the child: the longest result, every character escaped
MAX_OUTPUT = 16_000_000  # bytes that the child may write
CHILD = Path(__file__).with_name("child.py")
# "token" is not among these: design tokens and parser tokens are no secrets.
_SENSITIVE_WORDS = "secrets?|credentials?|passwords?"
_DATA_SUFFIXES = "json|ya?ml|toml|ini|txt|xml|cfg|conf|properties|enc"
# Names, in lower case, of files and folders that may hold secrets or private data.
_SECRET_NAME = re.compile(
    r"\.env(\..*)?|\.(netrc|npmrc|pypirc|git-credentials|htpasswd|pgpass|ssh|aws|gnupg)|credentials"
    r"|id_(rsa|dsa|ecdsa|ed25519).*"
    r"|.*\.(env|pem|key|p12|pfx|jks|keystore|kdbx|ppk|asc|gpg|tfvars|tfstate(\..*)?|db|sqlite3?)"
    rf"|.*\.({_SENSITIVE_WORDS})"
    rf"|(tokens?|(.*[._-])?({_SENSITIVE_WORDS})([._-].*)?)\.({_DATA_SUFFIXES})"
)


class _Function(NamedTuple):
    """A function that a script may call: the tool it calls, and its first argument.

    Only the first argument may come without its name, as in `search("caching", {limit: 3})`.
    """

    tool: str  # "" for Read, which reads a file
    first_argument: str


_FUNCTIONS = {  # they only read
    "Read": _Function("", "path"),
    "search": _Function("search", "query"),
    "get": _Function("get", "id"),
    "timeline": _Function("timeline", "anchor"),
    "history": _Function("timeline", "topic"),
    "load_checkpoint": _Function("load_checkpoint", "branch"),
}


async def run_code(context: Context, arguments: Arguments) -> Answer:
    """Run code. An error in the code, or a run that takes too long, is an answer too."""
    engine = find_spec("quickjs")
    if engine is None or engine.origin is None:
        raise RouteFailure(
            503, "NOT_INSTALLED", "No JavaScript engine is installed", format_install_hint("code")
        )
    engine_folder = str(Path(engine.origin).parent.parent)
    time_limit = min(arguments.get("timeout", DEFAULT_TIMEOUT), MAX_TIMEOUT) / 1000
    code = arguments["code"]
    logs: list[str] = []
    async with context.sandbox_slots:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(time_limit):
                outcome = await _run_child(logs, context.ask, engine_folder, code, time_limit)
        except TimeoutError:
            outcome = {"error": f"ended after {time_limit * 1000:g} ms"}
        duration = round((time.perf_counter() - began) * 1000)
    answer = {"success": "error" not in outcome, "result": None}
    return answer | outcome | {"duration": duration, "logs": logs}


async def _run_child(
    logs: list[str], ask: Ask, engine_folder: str, code: str, time_limit: float
) -> Answer:
    """Run code in a new process, and end the process; return `result` or `error`."""
    child_seconds = int(time_limit) + 1
    command = [sys.executable, "-I", "-S", str(CHILD), engine_folder, str(child_seconds)]
    child = await asyncio.create_subprocess_exec(
        *command,
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
    """Answer the calls of the child until it ends or asks for too much.

    Returns `result` or `error`; log lines are added to `logs`.
    """
    size = 0
    call_count = 0
    while True:
        try:
            line = await reader.readline()
        except ValueError:  # longer than MAX_LINE
            line = b""
        size += len(line)
        if not line or size > MAX_OUTPUT or call_count > MAX_CALLS:
            limits = f"memory, time or output than a run may use, or more than {MAX_CALLS} calls"
            return {"error": f"ended: more {limits}"}
        message = json.loads(line)
        if "log" in message:
            logs.append(message["log"])
        elif "call" in message:
            call_count += 1
            name, values_text = message["call"]
            await _send_line(writer, await _answer_call(ask, name, values_text))
        elif "error" in message:
            return {"error": message["error"]}
        else:
            return _parse_result(message["value"])


def _parse_result(text: str) -> Answer:
    try:
        return {"result": _parse_value(text)}
    except BadInput as error:
        return {"error": f"the result {error.message}"}


async def _send_line(writer: asyncio.StreamWriter, value: object) -> None:
    writer.write(json.dumps(value).encode() + b"\n")
    with contextlib.suppress(ConnectionError):  # the child has ended; its last line says how
        await writer.drain()


def _parse_value(text: str) -> Any:
    """Parse JSON that a script wrote, perhaps with functions of its own. Raises BadInput."""
    try:
        value = json.loads(text)
        json.dumps(value)
    except (ValueError, RecursionError):
        raise BadInput("is no JSON, or nested too deeply") from None
    return value


async def _answer_call(ask: Ask, name: str, values_text: str) -> Mapping[str, object]:
    """Call a function for a script; a failure becomes an Error in the script."""
    try:
        values = _parse_value(values_text)
        call = ask(lambda memory: _call_function(memory, name, values))
        return {"value": await asyncio.wrap_future(call)}
    except FilememError as error:
        return {"error": error.message}


def _call_function(memory: Memory, name: str, values: object) -> object:
    """Call a function with the arguments as the script gave them."""
    function = _FUNCTIONS[name]
    if not isinstance(values, list):
        raise BadInput("the arguments came as something else; is there a toJSON on a prototype?")
    arguments = _name_arguments(values, function.first_argument)
    if not function.tool:
        path = arguments.get("path", arguments.get("file_path", ""))
        return _read_public_file(memory, path)
    subject = str(arguments.get(function.first_argument))[:100]
    return _call_tool(memory, function.tool, arguments, subject)


def _name_arguments(values: list[Any], first_argument: str) -> dict[str, Any]:
    """Build arguments by name: a first value without a name, then those of the first object."""
    arguments: dict[str, Any] = {}
    if values and values[0] is not None and not isinstance(values[0], Mapping):
        arguments[first_argument] = values[0]
    for value in values:
        if isinstance(value, Mapping):
            arguments.update(value)
            break
    return arguments


def _call_tool(memory: Memory, tool: str, arguments: Mapping[str, Any], subject: str) -> object:
    try:
        return perform(load_profile("native"), memory.seen_by(EVERYBODY), tool, arguments)
    except NotFound:  # its own message may name private records
        raise NotFound(f"nothing public, or more than one thing, goes by {subject!r}") from None


def _read_public_file(memory: Memory, path: object) -> object:
    """Read a file for a script. Raises BadInput for text that looks like a secret."""
    if not isinstance(path, str):
        raise BadInput("path must be text", field="path")
    shown_path, data = read_file(memory, path, MAX_READ)
    text = data.decode("utf-8", "replace")
    leaks = secrets.find_secrets(text)
    if leaks:
        finding = f"line {leaks[0].line} looks like a secret ({leaks[0].kind})"
        raise BadInput(f"{shown_path} is not read: {finding}", field="path")
    return {"content": text, "path": shown_path}


def read_file(memory: Memory, requested_path: str, limit: int) -> tuple[str, bytes]:
    """Read a file of the store, or one that Git tracks; return its path and its bytes.

    Raises BadInput for a path that is refused, NotFound for a file that may not be read.
    """
    path = _resolve_path(memory.work_tree, requested_path)
    path_text = path.as_posix()
    store_path = _find_store_path(memory, path)
    if store_path:
        is_allowed = _is_public_store_file(store_path)
    else:
        _refuse_secret_name(path)
        is_allowed = path_text in Repo.discover(memory.work_tree).read_staged([path_text])
    if not is_allowed:
        raise NotFound(f"there is no file {path_text} in the store or among the tracked files")
    with write.open_folder(memory.work_tree, path.parts[:-1]) as folder:
        return path_text, write.read_file(folder, path.name, path_text, limit)


def _find_store_path(memory: Memory, path: Path) -> str:
    """Return a path of the work tree as a path in the store; "" if it is outside the store."""
    if not memory.folder.is_relative_to(memory.work_tree):  # the store has another work tree
        return ""
    store = memory.folder.relative_to(memory.work_tree)
    if not path.is_relative_to(store):
        return ""
    return path.relative_to(store).as_posix()


def _is_public_store_file(store_path: str) -> bool:
    if is_private(store_path):
        return False
    return is_record(store_path) or store_path.lower() in NON_RECORD_NAMES


def _refuse_secret_name(path: Path) -> None:
    """Raise BadInput if a part of a path is a usual name for files with secrets."""
    for part in path.parts:
        if _SECRET_NAME.fullmatch(part.casefold()):
            message = "a file of this name may hold secrets and is not read"
            raise BadInput(message, "name another file", field="path")


def _resolve_path(work_tree: Path, requested_path: str) -> Path:
    """Return a path relative to the top of the work tree. Raises BadInput if it leads out.

    Links are not resolved here: opening the file refuses them.
    """
    if not requested_path.strip() or "\0" in requested_path or len(requested_path) > 4_096:
        raise BadInput("path must name a file", field="path")
    full_path = Path(os.path.normpath(work_tree / requested_path))
    if not full_path.is_relative_to(work_tree) or full_path == work_tree:
        raise BadInput(
            "path leads out of the repository", "name a file of the project", field="path"
        )
    path = full_path.relative_to(work_tree)
    validate_path(path.as_posix())
    return path
