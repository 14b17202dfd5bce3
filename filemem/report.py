"""What is left behind when filemem itself fails: one file a person can read and send."""

from __future__ import annotations

import platform
import tempfile
from importlib.metadata import version
from pathlib import Path


def crash_report(trace: str, arguments: list[str]) -> Path:
    """Write a crash report.

    Args:
        trace: the formatted traceback.
        arguments: the command line; only its first three words are kept, the rest may hold what was to be saved.

    Returns:
        The file it was written to, in the system's temporary folder.
    """
    packages = ("filemem", "mcp", "tantivy", "usearch", "python-frontmatter")
    lines = [
        "filemem crash report",
        f"command: {' '.join([Path(arguments[0]).name, *arguments[1:3]])}",
        f"python {platform.python_version()} on {platform.platform()}",
        *(f"{name} {version(name)}" for name in packages),
        "",
        trace,
    ]
    with tempfile.NamedTemporaryFile(
        "w", prefix="filemem-crash-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        file.write("\n".join(lines))
    return Path(file.name)
