"""Commands asked of a running server: the same bytes as without one, from nobody but its own user, and never in the way."""

from __future__ import annotations

import json
import os
import pty
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from filemem import VERSION, ask
from filemem.cli import asked
from filemem.cli.project import Project
from filemem.errors import FilememError
from filemem.memory import Memory
from filemem.server import local
from tests.support import git, make_repo, write
from tests.system.tools import cli, until

COMMAND = (sys.executable, "-m", "filemem")
PROMPT = {"hook_event_name": "UserPromptSubmit", "session_id": "1", "transcript_path": "/t"}
COMMANDS = """
topics|topics --json|topics --oneline|topics cach|topics nothing|list -n 1|topics -n 0|topics --at HEAD
search cache|search how do we cache --json|search --oneline cache|search cache --explain|search -n 1 cache|search
search --mode keyword lru|search --mode vector lru|search --mode wrong|search --no-such-option|search --since lately x
search --live cache|search --type decision cache|search --at HEAD cache|search --path src/cache.py|search topic:caching
search --json --since lately x|search nothing-like-it --mode keyword
get caching|show caching --json|get nothing|get nothing --json|get
history caching|log caching --oneline|history caching --json|history|history nothing|history caching --at HEAD
brief|brief --json|brief --budget 100|brief --budget 1|brief --path src/cache.py
status|status -v|status --json|status extra
""".replace("\n", "|").split("|")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = make_repo(tmp_path_factory.mktemp("asked") / "repo")
    with Memory.open(path) as memory:
        first = memory.save(
            topic="caching",
            decision="Use an LRU cache",
            reasoning="One process, no Redis to run. Ünïcode stays.",
            affects=["src/cache.py"],
        )
        memory.save(
            topic="caching",
            decision="Cache in Redis",
            reasoning="Two processes now.",
            supersedes=[first.id],
        )
        memory.save(topic="colours", decision="Blue", reasoning="It calms.")
        memory.save(summary="Half of it works", next_steps="The other half")
    write(path / "src/cache.py", "x = 1\n")
    return path


@pytest.fixture
def repo(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = Path(shutil.copytree(template, tmp_path / "repo", symlinks=True))
    monkeypatch.chdir(path)
    return path


@contextmanager
def server(repo: Path) -> Iterator[Memory]:
    """What `filemem serve` opens at its first call, without the protocol."""
    with Memory.open(repo, serving=True) as memory:
        memory.refresh(full=True)
        asked.start_listener(Project(str(repo)), memory)
        until(lambda: answer("topics"), pause=0.005)
        yield memory


def place(repo: Path) -> Path:
    return Path(ask.get_socket_folder(str(repo / ".git/filemem")))


def answer(*words: str) -> tuple[int, str, str] | None:
    """What a server in the current folder says; None: it does not do it."""
    try:
        code, out, err = ask._ask_server([*words], VERSION)
    except (OSError, ValueError):
        return None
    return code, out.decode(), err.decode()


@contextmanager
def address(repo: Path) -> Iterator[str]:
    """Where the socket is, however long the path of the folder."""
    handle = os.open(place(repo), os.O_RDONLY)
    try:
        yield ask.get_socket_address(handle, str(place(repo)))
    finally:
        os.close(handle)


def raw(repo: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    with address(repo) as path:
        connection.connect(path)
    return connection


def test_a_server_says_what_the_command_says_to_the_byte(repo: Path) -> None:
    with server(repo):
        for line in filter(None, COMMANDS):
            plain = cli(repo, *line.split())
            assert answer(*line.split()) == (plain.code, plain.out, plain.err), line


def test_colours_and_width_are_those_of_the_client(repo: Path) -> None:
    def shown(*words: str) -> bytes:
        master, slave = pty.openpty()
        os.set_inheritable(slave, True)
        import fcntl
        import struct
        import termios

        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        line = [*COMMAND, *words]
        subprocess.run(line, stdin=slave, stdout=slave, stderr=slave, check=False, timeout=60)
        os.close(slave)
        data = b""
        with suppress(OSError):
            while part := os.read(master, 4096):
                data += part
        os.close(master)
        return data

    with server(repo):
        for words in (["search", "cache"], ["history", "caching"], ["get", "nothing"]):
            by_server = shown(*words)
            assert by_server == shown("-C", ".", *words), words
            assert b"\x1b[" in by_server


def test_the_command_imports_neither_click_nor_numpy_nor_json(repo: Path) -> None:
    probe = (
        "import sys\nfrom filemem.__main__ import main\n"
        "try: main()\nfinally: print(sorted({'click', 'json', 'numpy', 're', 'socket', 'typing'} & {*sys.modules}))"
    )
    with server(repo):
        line = [sys.executable, "-I", "-S", "-c", probe, "search", "cache"]
        line[4] = f"import sys\nsys.path.insert(0, {str(Path(ask.__file__).parents[1])!r})\n{probe}"
        done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]", done
    assert "Cache in Redis" in done.stdout


def test_an_answer_is_of_the_files_as_they_are(repo: Path) -> None:
    with server(repo):
        words = ("search", "zebra", "--mode", "keyword")
        before = answer(*words)
        assert before is not None
        assert "nothing found" in before[1]
        file = next((repo / "memory").rglob("*blue*.md"))
        new = write(file.with_suffix(".new"), file.read_text().replace("calms", "calms a zebra"))
        new.replace(file)
        found = answer(*words)
        assert found is not None
        assert "zebra" in found[1]
        git(repo, "switch", "-q", "-c", "other")
        git(repo, "rm", "-q", "-f", str(file))
        git(repo, "commit", "-q", "-m", "Remove it")
        until(lambda: answer(*words) == before)


def test_only_reads_of_this_memory_are_asked(repo: Path) -> None:
    with server(repo):
        for line in ("save decision", "sync", "check", "forget caching", "-C . topics", "why x"):
            assert ask.run_by_server(line.split(), VERSION) is None
        for line in ("search --org x", "search --also=../x y", "search --workspace", "get --help"):
            assert ask.run_by_server(line.split(), VERSION) is None
        assert answer("save", "decision") is None, "the server refuses too"


_PROBE = "from filemem import ask, VERSION; print(ask.run_by_server(['topics'], VERSION))"


@pytest.mark.parametrize("name", ["FILEMEM_AGENT", "HOME", "XDG_CONFIG_HOME", "GIT_AUTHOR_NAME"])
def test_other_settings_are_not_answered(repo: Path, name: str) -> None:
    with server(repo):
        line = [sys.executable, "-c", _PROBE]
        for value, result in ((os.environ.get(name), "0\n"), ("/elsewhere", "None\n")):
            changed = {**os.environ, name: value} if value else None
            done = subprocess.run(line, env=changed, capture_output=True, text=True, check=True)
            assert done.stdout.endswith(result), done


def test_another_version_store_commit_or_settings_file_is_not_answered(repo: Path) -> None:
    with server(repo):
        with pytest.raises(OSError):
            ask._ask_server(["topics"], "0.0.9")
        old = ask.read_head(str(repo / ".git"))
        git(repo, "commit", "-q", "--allow-empty", "-m", "Move")
        assert ask.read_head(str(repo / ".git")) != old
        assert answer("topics"), "it reads HEAD itself"
        write(repo / ".filemem.toml", 'store = "docs"\n')
        assert answer("topics") is None
    with Memory.open(repo, store="memory") as memory:
        asked.start_listener(Project(str(repo), "memory"), memory)
        assert not (place(repo) / "socket").exists()


def test_a_linked_work_tree_has_a_server_of_its_own(repo: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    with server(repo):
        git(repo, "worktree", "add", "-q", str(linked))
        os.chdir(linked)
        assert answer("topics") is None
        os.chdir(repo / "src")
        assert answer("topics"), "a folder of the work tree"


def test_a_busy_server_leaves_the_command_to_its_process(repo: Path) -> None:
    with server(repo) as memory:
        free = threading.Event()
        held = threading.Event()

        def hold() -> None:
            with memory.keeper.lock:
                held.set()
                free.wait(30)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(30)
        assert answer("topics") is None
        free.set()
        thread.join()
        assert answer("topics")


def test_commands_are_answered_while_tools_are_called(repo: Path) -> None:
    with server(repo) as memory:
        ended = threading.Event()
        failed: list[Exception] = []

        def call() -> None:
            try:
                for number in range(8):
                    memory.save(topic=f"t{number}", decision=f"Plan {number}", reasoning="So")
                    memory.search("cache")
            except (FilememError, OSError, RuntimeError) as error:
                failed.append(error)
            finally:
                ended.set()

        thread = threading.Thread(target=call)
        thread.start()
        while not ended.is_set():
            for words in (["search", "plan"], ["topics"], ["status"], ["get", "colours"]):
                code, out, err = answer(*words) or (0, "x", "")
                assert (code, err) == (0, ""), words
                assert out
        thread.join()
        assert not failed
        plain = cli(repo, "topics")
        assert until(lambda: answer("topics")) == (0, plain.out, "")


# hooks


def hook(repo: Path, event: Mapping[str, object], *words: str) -> str:
    """What the command prints on an event."""
    line = [*COMMAND, "hook", *words]
    done = subprocess.run(
        line, cwd=repo, input=json.dumps(event), capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_hook_says_the_same_by_a_server_and_each_thing_once(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[list[str]] = []
    usual = asked._run_request

    def noted(memory: Memory, request: local.Request) -> local.Reply | None:
        done.append(request.words)
        return usual(memory, request)

    monkeypatch.setattr(asked, "_run_request", noted)
    prompt = {**PROMPT, "prompt": "How do we cache values in Redis?"}
    alone = hook(repo, {**prompt, "session_id": "alone"}, "prompt")
    with server(repo):
        told = hook(repo, prompt, "prompt")
        assert told == alone
        assert "Cache in Redis" in told
        assert hook(repo, {**prompt, "prompt": "And in Redis, how do we cache?"}, "prompt") == ""
        start = {**PROMPT, "hook_event_name": "SessionStart", "source": "startup"}
        assert "Half of it works" in hook(repo, {**start, "session_id": "2"}, "start")
        assert hook(repo, {}, "start") == ""
        assert done[1:] == [["hook", "prompt"]] * 2 + [["hook", "start"]] * 2
        head = git(repo, "rev-parse", "HEAD")
        end = {**PROMPT, "hook_event_name": "SessionEnd", "session_id": "2", "reason": "exit"}
        hook(repo, end, "capture")
        until(lambda: git(repo, "status", "--porcelain") is not None)
        assert done[-1] == ["hook", "capture"]
    assert git(repo, "rev-parse", "HEAD") == head or "What a session did" in git(
        repo, "log", "-1", "--format=%B"
    )


# who may ask, and what does not stand in the way


def test_socket_and_folder_are_their_users_alone(repo: Path) -> None:
    git(repo, "config", "core.sharedRepository", "all")
    with server(repo) as memory:
        memory.save(topic="x", decision="Y", reasoning="Z")
        memory.keeper.store.repo.share_folders()
        for path, mode in ((place(repo), 0o700), (place(repo) / "socket", 0o600)):
            assert path.stat().st_mode & 0o777 == mode
        place(repo).chmod(0o750)
        assert answer("topics") is None, "others could have put their own socket there"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_is_not_answered(repo: Path) -> None:
    probe = (
        "import os, socket, sys\nfolder = os.open(sys.argv[1], os.O_RDONLY)\nos.setgroups([]); os.setuid(65534)\n"
        "client = socket.socket(socket.AF_UNIX); client.settimeout(10)\n"
        "try: client.connect(f'/proc/self/fd/{folder}/socket')\n"
        "except PermissionError: print('refused'); sys.exit()\n"
        "client.sendall(sys.argv[2].encode()); print(client.recv(10))"
    )
    line = [sys.executable, "-c", probe, str(place(repo)), "3 0\nxyz"]
    with server(repo):
        assert (
            subprocess.run(line, capture_output=True, text=True, check=True).stdout == "refused\n"
        )
        (place(repo) / "socket").chmod(0o666)
        place(repo).chmod(0o755)
        assert subprocess.run(line, capture_output=True, text=True, check=False).stdout != "b'+'\n"
        place(repo).chmod(0o700)
        assert answer("topics")


def test_a_wrong_peer_is_not_answered_on_either_side(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server(repo):
        monkeypatch.setattr(ask, "get_peer_uid", lambda _: os.getuid() + 1)
        assert answer("topics") is None
        with raw(repo) as connection:
            with suppress(OSError):
                connection.sendall(b"3 0\nxyz")
            with suppress(OSError):
                assert connection.recv(10) == b""
        monkeypatch.undo()
        os.chdir(repo)
        assert answer("topics")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 100,
        b"x" * 10_000,
        b"9 9",
        b"3 0\nab",
        b"3 0\nabc",
        b"-3 -5\nabc",
        b"99999999999 0\n",
        b"1 2 3\n",
        b"13 0\na\0b\0c\0d\0e\0f\0g",
        b"15 0\n0.1.0\0x\0y\x000\x000\x000\x000",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"7 0\n\xff\xfe\xfd\0\0\0\0",
        json.dumps({"argv": ["save"]}).encode() + b"\n",
    ],
)
@pytest.mark.parametrize("ends", [True, False])
def test_what_is_no_request_is_dropped_and_others_are_answered(
    repo: Path, data: bytes, ends: bool
) -> None:
    with server(repo):
        with raw(repo) as connection:
            with suppress(BrokenPipeError):
                connection.sendall(data)
            if ends:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                assert connection.recv(100) == b"", "also where it waits for more, after a while"
        assert until(lambda: answer("topics"))


def test_a_client_that_sends_byte_by_byte_is_dropped(repo: Path) -> None:
    with server(repo):
        whole = ask._build_request(["topics"], VERSION, str(repo), str(repo / ".git"))
        with raw(repo) as connection, suppress(BrokenPipeError, ConnectionResetError):
            for byte in whole:
                connection.sendall(bytes([byte]))
                threading.Event().wait(0.005)
            assert connection.recv(10) == b""
        assert until(lambda: answer("topics"))


def test_a_thousand_connections_end_and_commands_are_done(repo: Path) -> None:
    with server(repo), address(repo) as path:
        held = []
        refused = 0
        for _ in range(1_000):
            connection = socket.socket(socket.AF_UNIX)
            connection.setblocking(False)
            try:
                connection.connect(path)
                held.append(connection)
            except BlockingIOError:
                connection.close()
                refused += 1
        assert refused > 0, "the system refuses what does not fit"
        assert "Cache in Redis" in cli(repo, "topics").out
        for connection in held:
            connection.close()
        assert until(lambda: answer("topics"))


@pytest.mark.parametrize("kind", ["file", "symlink", "dangling"])
def test_what_stands_in_the_place_of_the_socket_is_replaced_and_not_followed(
    repo: Path, tmp_path: Path, kind: str
) -> None:
    victim = write(tmp_path / "victim", "mine")
    place(repo).mkdir(0o700, parents=True)
    if kind == "file":
        write(place(repo) / "socket", "x")
    else:
        (place(repo) / "socket").symlink_to(victim if kind == "symlink" else tmp_path / "none")
    with server(repo):
        assert until(lambda: answer("topics"))
    assert victim.read_text() == "mine"
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("kind", ["symlink", "file", "open"])
def test_no_socket_is_made_in_a_folder_that_is_not_ours_alone(
    repo: Path, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    place(repo).parent.mkdir(parents=True, exist_ok=True)
    if kind == "symlink":
        place(repo).symlink_to(tmp_path / "elsewhere")
    elif kind == "file":
        write(place(repo), "x")
    else:
        place(repo).mkdir()
        place(repo).chmod(0o777)
    with Memory.open(repo, serving=True) as memory:
        listener = local.Listener(memory.keeper.store.code.private_folder, lambda *_: None)
        listener._thread.join(30)
        assert not listener._thread.is_alive()
        assert answer("topics") is None
        assert "Cache in Redis" in cli(repo, "topics").out
    assert not [*(tmp_path / "elsewhere").iterdir()]


def test_of_two_servers_the_first_is_asked_and_then_the_second(repo: Path) -> None:
    private = repo / ".git/filemem"

    def saying(code: int) -> local.Listener:
        def reply(_: local.Request, begin: local.Begin) -> local.Reply:
            begin()
            return code, b"", b""

        return local.Listener(private, reply)

    first = saying(1)
    assert until(lambda: answer("topics")) == (1, "", "")
    second = saying(2)
    assert answer("topics") == (1, "", "")
    first.close()
    assert until(lambda: answer("topics")) == (2, "", "")
    second.close()
    second._thread.join(30)
    assert not (place(repo) / "socket").exists()


def test_the_socket_of_a_killed_server_is_nobodys(repo: Path) -> None:
    place(repo).mkdir(0o700, parents=True)
    with socket.socket(socket.AF_UNIX) as dead, address(repo) as path:
        dead.bind(path)
    assert answer("topics") is None
    with server(repo):
        assert until(lambda: answer("topics"))


@pytest.mark.parametrize("sent", [b"", b"+", b"+0 100 0\nhalf", b"+0", b"-", b"+x y z\n"])
def test_a_server_that_dies_while_asked_leaves_the_command_which_prints_once(
    repo: Path, sent: bytes
) -> None:
    place(repo).mkdir(0o700, parents=True)
    with socket.socket(socket.AF_UNIX) as dying, address(repo) as path:
        dying.bind(path)
        dying.listen(1)

        def die() -> None:
            connection, _ = dying.accept()
            with connection:
                connection.recv(100_000)
                connection.sendall(sent)

        thread = threading.Thread(target=die)
        thread.start()
        done = subprocess.run([*COMMAND, "topics"], capture_output=True, text=True, check=False)
        thread.join(30)
    plain = cli(repo, "topics")
    assert (done.returncode, done.stdout, done.stderr) == (plain.code, plain.out, plain.err)


def test_a_path_that_is_too_long_for_a_socket(template: Path, tmp_path: Path) -> None:
    long = Path(shutil.copytree(template, tmp_path / ("x" * 120), symlinks=True))
    os.chdir(long)
    if sys.platform == "linux":
        with server(long):
            assert until(lambda: answer("topics"))
    else:
        with pytest.raises(OSError, match="too long"):
            ask.get_socket_address(0, ask.get_socket_folder(str(long)))


def test_a_reader_that_went_away_ends_the_command_as_without_a_server(repo: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)

    def ended() -> tuple[int, bytes]:
        done = subprocess.run([*COMMAND, "topics"], stdout=writer, stderr=-1, check=False)
        return done.returncode, done.stderr

    with server(repo):
        by_server = ended()
    assert by_server == ended() == (141, b"")
    os.close(writer)


def test_serve_listens_from_its_first_list_of_tools_until_it_is_killed(repo: Path) -> None:
    client = {"name": "c", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    process = subprocess.Popen([*COMMAND, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    with process:
        for number, (method, params) in enumerate((("initialize", hello), ("tools/list", {}))):
            line = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(line).encode() + b"\n")
        process.stdin.flush()
        plain = cli(repo, "search", "cache")
        assert until(lambda: answer("search", "cache")) == (0, plain.out, plain.err)
        process.kill()
    assert (place(repo) / "socket").exists()
    assert answer("search", "cache") is None
