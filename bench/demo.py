"""The main job, shown on this repository's own memory in a scratch clone, through a real MCP client.

`make demo` runs it. Nothing in the repository itself is touched.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import click
from mcp import Client, StdioServerParameters

ROOT = Path(__file__).resolve().parents[1]
TOPIC = "demo_cache"


def heading(text: str) -> None:
    """Say what comes next."""
    click.echo("\n" + click.style(f"== {text}", bold=True))


def shell(folder: Path, *command: str) -> None:
    """Run a command as a person would, and show both."""
    click.echo(click.style("$ " + " ".join(f'"{w}"' if " " in w else w for w in command), fg="cyan"))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    click.echo(textwrap.indent(done.stdout.rstrip(), "  "))


async def call(client: Client, tool: str, **arguments: Any) -> Mapping[str, Any]:
    """Call a tool as an agent would, and show the arguments."""
    shown = ", ".join(f"{name}={json.dumps(value)}" for name, value in arguments.items())
    click.echo(click.style(f"agent> {tool}({shown})", fg="green"))
    result = await client.call_tool(tool, arguments)
    answer: Mapping[str, Any] | None = result.structured_content
    if answer is None or result.is_error:
        sys.exit(f"the demo failed: {result.content}")
    return answer


def show(answer: Mapping[str, Any]) -> None:
    """Print results one line each, with what replaced them and what came of them."""
    for hit in answer["results"]:
        by = hit.get("superseded_by")
        state = f"superseded by {by[0]['title']}" if by else "holds today"
        click.echo(f"  {hit['title']}  [{state}]")
        for entry in hit.get("reasons", []):
            click.echo(f"        {entry['outcome']}: {entry['reason']}")
        for entry in hit.get("already_rejected", []):
            click.echo(f"        already rejected: {entry}")


async def main() -> None:
    """Clone, serve, save, supersede, edit, search, and look at it with Git."""
    with tempfile.TemporaryDirectory(prefix="filemem-demo-") as scratch:
        clone = Path(scratch) / "project"
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], check=True)
        for name, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
            subprocess.run(["git", "-C", str(clone), "config", name, value], check=True)
        parameters = StdioServerParameters(command=sys.executable, args=["-m", "filemem", "-C", str(clone), "serve"])
        async with Client(parameters) as client:
            await tell(client, clone)


async def tell(client: Client, clone: Path) -> None:
    """The story."""
    tools = await client.list_tools()
    heading("An agent connects over MCP to this project's own memory")
    click.echo(f"  tools: {', '.join(tool.name for tool in tools.tools)}")
    question = "why is the index written before the branch moves?"
    show(await call(client, "search", query=question, limit=3))

    heading("It decides something, and saves why: one Markdown file, one commit")
    first = await call(
        client,
        "save",
        topic=TOPIC,
        decision="Cache search results in Redis",
        reasoning="Workers would share one cache.",
        agent="demo-agent",
    )
    shell(clone, "git", "show", "--stat", "--format=%h %an: %s%n%n%(trailers)", "HEAD")
    click.echo(textwrap.indent((clone / first["path"]).read_text(), "  | ", lambda _: True))

    heading("It learns what came of it, and decides again: the second decision supersedes the first")
    await call(client, "update", id=first["id"], outcome="failed", reason="one more service to run on every laptop")
    second = await call(
        client,
        "save",
        topic=TOPIC,
        decision="Keep a small LRU cache in the process",
        reasoning="One process per project serves all its clients.",
        rejected=["Keep Redis: a service for one process"],
        affects=["filemem/memory/**"],
        agent="demo-agent",
    )
    click.echo(f"  {second['message']}: {second['superseded'][0]}")

    heading("A person adds a line in an editor, without telling anybody")
    path = clone / second["path"]
    line = "Measured on a laptop: sixty entries are plenty."
    path.write_text(path.read_text() + f"\n## Notes\n\n{line}\n")
    click.echo(f"  {second['path']}\n  + {line}")
    await anyio.sleep(0.5)
    found = await call(client, "search", query="how many entries does a laptop need?", limit=1)
    show(found)
    click.echo(f"        {found['results'][0]['text']}")

    heading("Asked later, the memory gives what holds today, what it replaced, and what came of that")
    show(await call(client, "search", query="where are search results cached?", limit=3))
    show(await call(client, "search", query="should we use Redis?", limit=2))

    heading("And all of it is plain Git")
    shell(clone, "filemem", "history", TOPIC)
    shell(clone, "git", "log", "--format=%h %an: %s", "-4")
    shell(clone, "git", "status", "--short")


if __name__ == "__main__":
    anyio.run(main)
