"""What a release consists of: `make release` builds it into dist/, and refuses what is not ready.

Rule: the version is that of `filemem/__init__.py`, owner and addresses are those of `[project.urls]` in pyproject.toml;
nothing else states them, and nothing is published here: CONTRIBUTING.md has the steps.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from filemem import VERSION
from tools.readme import server_name

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
PLACEHOLDER = "OWNER"
LARGEST = 15_000_000  # bytes of a wheel without the assets of the viewer
_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_SHORT = (
    "Project memory in your own Git repository: what was decided, and why. Offline, plain Markdown."
)

_ENTRY = '''\
"""Serve the memory of the folder that the user chose, or else the user's personal one."""

import os
import sys

from filemem.cli import main

folder = os.environ.get("FILEMEM_FOLDER", "")
chosen = folder and not folder.startswith("${")  # some hosts leave what is not set as it stands
sys.argv[1:] = [*(("-C", folder) if chosen else ("--personal",)), "serve"]
main()
'''


def project() -> dict[str, Any]:
    """The table `[project]` of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    return table


def server_json() -> dict[str, Any]:
    """What the MCP registry publishes: https://github.com/modelcontextprotocol/registry, server.json."""
    about = project()
    source = about["urls"]["Source"]
    return {
        "$schema": _SCHEMA,
        "name": server_name(source),
        "title": about["name"],
        "description": _SHORT,
        "version": VERSION,
        "websiteUrl": about["urls"]["Documentation"],
        "repository": {"url": source, "source": "github"},
        "packages": [
            {
                "registryType": "pypi",
                "identifier": about["name"],
                "version": VERSION,
                "runtimeHint": "uvx",
                "transport": {"type": "stdio"},
                "packageArguments": [{"type": "positional", "value": "serve"}],
            }
        ],
    }


def bundle() -> dict[str, str]:
    """The files of the .mcpb bundle, by path: https://github.com/modelcontextprotocol/mcpb, MANIFEST.md."""
    about = project()
    urls = about["urls"]
    manifest = {
        "manifest_version": "0.4",
        "name": about["name"],
        "display_name": about["name"],
        "version": VERSION,
        "description": _SHORT,
        "author": {"name": f"The authors of {about['name']}", "url": urls["Source"]},
        "repository": {"type": "git", "url": urls["Source"]},
        "homepage": urls["Homepage"],
        "documentation": urls["Documentation"],
        "support": urls["Issues"],
        "license": about["license"],
        "keywords": about["keywords"],
        "server": {
            "type": "uv",
            "entry_point": "server.py",
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--project", "${__dirname}", "${__dirname}/server.py"],
                "env": {"FILEMEM_FOLDER": "${user_config.folder}"},
            },
        },
        "user_config": {
            "folder": {
                "type": "directory",
                "title": "Project folder",
                "description": "A Git repository whose memory is served. Without one it is your personal memory.",
                "required": False,
            }
        },
        "compatibility": {
            "platforms": ["darwin", "linux"],
            "runtimes": {"python": about["requires-python"]},
        },
    }
    needs = {
        "name": f"{about['name']}-bundle",
        "version": VERSION,
        "requires-python": about["requires-python"],
    }
    toml = "".join(f"{key} = {json.dumps(value)}\n" for key, value in needs.items())
    return {
        "manifest.json": json.dumps(manifest, indent=2) + "\n",
        "pyproject.toml": f'[project]\n{toml}dependencies = ["{about["name"]}=={VERSION}"]\n',
        "server.py": _ENTRY,
    }


def unready() -> list[str]:
    """What stands in the way of a release, one sentence each."""
    found = [
        f"pyproject.toml: [project.urls] {name} names {PLACEHOLDER}" for name in placeholders()
    ]
    forms = ["-e", f"{PLACEHOLDER}/filemem", "-e", f"@{PLACEHOLDER}"]
    grep = ["git", "grep", "-n", *forms, "--", "*.md", "*.yml", ".github/CODEOWNERS"]
    pages = subprocess.run(grep, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    found += [f"{':'.join(row.split(':')[:2])} names {PLACEHOLDER}" for row in pages.splitlines()]
    if not re.search(
        rf"(?m)^## {re.escape(VERSION)}\b", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    ):
        found.append(f"CHANGELOG.md has no heading '## {VERSION}'")
    if subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout:
        found.append("the work tree has changes that are not committed")
    return found


def placeholders() -> list[str]:
    """The addresses that are not yet stated."""
    return [name for name, url in project()["urls"].items() if PLACEHOLDER in url]


def build(into: Path = DIST) -> list[Path]:
    """Build wheel, source archive, server.json and bundle. Raises ValueError for a wheel that is too large."""
    into.mkdir(parents=True, exist_ok=True)
    for old in into.iterdir():
        old.unlink()
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(into)], cwd=ROOT, check=True
    )
    (wheel,) = into.glob("*.whl")
    if (size := wheel.stat().st_size) > LARGEST:
        raise ValueError(f"{wheel.name} has {size:,} bytes, and may have {LARGEST:,}")
    (into / "server.json").write_text(json.dumps(server_json(), indent=2) + "\n", encoding="utf-8")
    with zipfile.ZipFile(into / f"filemem-{VERSION}.mcpb", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in bundle().items():
            archive.writestr(name, text)
    return sorted(into.iterdir())


def main() -> int:
    """Refuse, or build; `--draft` builds what is there."""
    if (found := unready()) and "--draft" not in sys.argv:
        print("not ready for a release:", *found, sep="\n  ", file=sys.stderr)
        return 1
    for path in build():
        print(f"{path.stat().st_size:>12,}  {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
