"""README.md as the package index shows it: its links are absolute, and it names the server of the MCP registry."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def readme(root: Path, source: str) -> str:
    """The text; `source` is the address of the repository, https://github.com/OWNER/NAME."""
    text = (root / "README.md").read_text(encoding="utf-8")
    absolute = re.sub(
        r"\]\((?!https?:|#|mailto:)([^)]+)\)", rf"]({source.rstrip('/')}/blob/HEAD/\1)", text
    )
    return f"{absolute}\n<!-- mcp-name: {server_name(source)} -->\n"


def server_name(source: str) -> str:
    """The name in the MCP registry of the server in a GitHub repository."""
    owner, name = source.rstrip("/").rsplit("/", 2)[1:]
    return f"io.github.{owner}/{name}"


class ReadmeHook(MetadataHookInterface):
    """What hatchling calls for the key `readme`, which is dynamic."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Put the text into the metadata of the package."""
        text = readme(Path(self.root), metadata["urls"]["Source"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
