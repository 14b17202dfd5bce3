"""The server that ours is compared with: one tool, on the official SDK, over stdio."""

from __future__ import annotations

from mcp.server import MCPServer

server = MCPServer("one-tool")


@server.tool()
def echo(text: str) -> str:
    """Return the text."""
    return text


if __name__ == "__main__":
    server.run("stdio")
