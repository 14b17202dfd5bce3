"""What the documents promise of the server itself: how it starts, what it says first, its resource."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

from filemem.dialects.tool import load_profile
from filemem.server import sdk
from filemem.server.calls import CallQueue
from filemem.server.front import RequestHandler
from tests.surface.server_tools import open_notebook
from tests.system.tools import cli

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2024-11-05",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1.0"},
    },
}


def served(
    repo: Path,
    profile: str,
    *lines: Mapping[str, object],
    options: Sequence[str] = (),
    **environment: str,
) -> list[str]:
    """The lines that a server answers to these, which must be all there are."""
    command = [
        sys.executable,
        "-m",
        "filemem",
        "-C",
        str(repo),
        "serve",
        "--profile",
        profile,
        *options,
    ]
    with (
        (repo.parent / "told").open("w") as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **environment},
        ) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("".join(json.dumps(line) + "\n" for line in lines))
        server.stdin.flush()
        answers = [server.stdout.readline() for line in lines if "id" in line]
        server.stdin.close()
        return [*answers, *server.stdout.read().splitlines()]


@pytest.mark.requirement("pm-initialize", "pm-protocol", "pm-stderr", "pm-start", "pm-no-config")
def test_a_bare_initialize_line_is_answered(repo: Path) -> None:
    [line] = served(repo, "powermem", HELLO)
    answer = json.loads(line)
    assert answer["id"] == 1
    assert answer["result"]["protocolVersion"] == "2024-11-05"
    assert set(answer["result"]["capabilities"]) == {
        "tools",
        "resources",
        "prompts",
        "completions",
    }


@pytest.mark.requirement("mama-server-name")
@pytest.mark.parametrize(
    ("name", "said"), [("native", "filemem"), ("powermem", "filemem"), ("mama", "mama-server")]
)
def test_the_front_and_the_sdk_offer_the_same_under_the_same_name(name: str, said: str) -> None:
    offer = load_profile(name)
    server = sdk.FilememServer(offer, CallQueue(offer, open_notebook), "1")
    capabilities = server.get_capabilities().model_dump(by_alias=True, exclude_unset=True)
    front = RequestHandler(offer, "1").answer_message(HELLO)
    assert isinstance(front, dict)
    result: Any = front["result"]
    assert {name: part for name, part in capabilities.items() if part is not None} == result[
        "capabilities"
    ]
    assert server.server_info.model_dump(by_alias=True, exclude_none=True) == result["serverInfo"]
    assert result["serverInfo"]["name"] == said


def added(repo: Path, *options: str, **environment: str) -> Any:
    """A memory that was added without saying whose it is."""
    call = {"name": "add_memory", "arguments": {"messages": "User prefers coffee in the morning"}}
    lines: list[dict[str, object]] = [
        HELLO,
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    answer = json.loads(served(repo, "powermem", *lines, options=options, **environment)[1])[
        "result"
    ]
    return json.loads(answer["content"][0]["text"])["results"][0]


@pytest.mark.requirement("pm-config-file", "pm-env-file", "pm-config-order")
def test_the_files_that_the_user_names_are_read_in_the_order_of_the_page(repo: Path) -> None:
    config, env, home = (
        repo.parent / "config.json",
        repo.parent / "named.env",
        repo.parent / "powermem",
    )
    home.mkdir()
    (home / "config.json").write_text('{"user_id": "of the folder"}')
    env.write_text(
        f"# a comment\nexport POWERMEM_DIR='{home}'\nLLM_API_KEY=sk-secret\nPATH=/nowhere\n"
    )
    config.write_text(
        '{"user_id": "of the file", "llm": {"provider": "qwen", "config": {"api_key": "sk-secret"}}}'
    )
    assert added(repo)["user_id"] == "mcp_user"
    assert added(repo, "--env", str(env))["user_id"] == "of the folder"
    assert added(repo, "--env", str(env), "--config", str(config))["user_id"] == "of the file"
    told = (repo.parent / "told").read_text()
    assert "LLM_API_KEY: not needed" in told
    assert "config.json: llm not needed" in told
    assert "sk-secret" not in told


@pytest.mark.requirement("pm-config-made")
def test_the_settings_file_is_made_on_the_first_run_and_names_nobody(
    repo: Path, tmp_path: Path
) -> None:
    home = tmp_path / "powermem"
    served(repo, "native", HELLO, POWERMEM_DIR=str(home))
    assert not home.exists()
    assert added(repo, POWERMEM_DIR=str(home))["user_id"] == "mcp_user"
    assert json.loads((home / "config.json").read_text()) == {"user_id": ""}
    (home / "config.json").write_text('{"user_id": "ann"}')
    assert added(repo, POWERMEM_DIR=str(home))["user_id"] == "ann"


@pytest.mark.requirement("pm-config-file", "pm-env-file")
@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        ("--config", None, "No such file"),
        ("--config", "[]", "is not a JSON object"),
        ("--config", '{"user_id": 7}', "one-line user_id"),
        ("--env", None, "No such file"),
        ("--env", b"\xff", "NAME=value"),
    ],
)
def test_a_file_that_cannot_be_read_is_said_at_the_start(
    repo: Path, option: str, text: Any, said: str
) -> None:
    file = repo.parent / "named"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    done = cli(repo, "serve", option, str(file))
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "Traceback" not in done.err


@pytest.mark.requirement("pm-client-config")
def test_the_variables_of_the_pages_configuration_do_no_harm(repo: Path) -> None:
    variables = {
        "LLM_PROVIDER": "qwen",
        "LLM_API_KEY": "your_api_key",
        "DATABASE_PROVIDER": "sqlite",
    }
    call = {"name": "add_memory", "arguments": {"messages": "User prefers coffee in the morning"}}
    initialized: dict[str, object] = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    lines: list[dict[str, object]] = [
        HELLO,
        initialized,
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    answer = json.loads(served(repo, "powermem", *lines, **variables)[1])["result"]
    assert (
        json.loads(answer["content"][0]["text"])["results"][0]["memory"]
        == "User prefers coffee in the morning"
    )


@pytest.mark.requirement("mama-transport", "v1-transport")
@pytest.mark.parametrize("profile", ["mama", "mama-v1", "openclaw", "mem-claude", "project-memory"])
def test_every_profile_speaks_over_standard_input_and_output(repo: Path, profile: str) -> None:
    [line] = served(repo, profile, HELLO)
    answer = json.loads(line)
    assert answer["result"]["instructions"]
    assert set(answer["result"]["capabilities"]) == {"tools", "prompts", "completions"}


@pytest.mark.requirement("pm-resource", "pm-summary")
def test_the_resource_is_listed_and_read(repo: Path) -> None:
    arguments = ["-m", "filemem", "-C", str(repo), "serve", "--profile", "powermem"]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    with (
        start_blocking_portal() as portal,
        (repo.parent / "stderr").open("w") as errors,
        portal.wrap_async_context_manager(Client(stdio_client(server, errlog=errors))) as client,
    ):
        portal.call(client.call_tool, "add_memory", {"messages": "One", "user_id": "ann"})
        [listed] = portal.call(client.list_resources).resources
        assert (str(listed.uri), listed.mime_type) == ("powermem://memory", "application/json")
        [content] = portal.call(client.read_resource, "powermem://memory").contents
        assert content.mime_type == "application/json"
        assert isinstance(content, types.TextResourceContents)
        told = json.loads(content.text)
        assert (told["total"], told["user_id"]) == (1, {"ann": 1})
        refusal = ""
        try:
            portal.call(client.read_resource, "powermem://nothing")
        except MCPError as error:
            refusal = str(error)
        assert "no resource powermem://nothing" in refusal
