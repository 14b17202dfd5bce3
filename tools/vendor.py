"""Compares the vendored files of the page with the npm packages that VENDOR.toml names, and lists which differ.

`make vendor-check` runs it.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

VENDOR = Path(__file__).parents[1] / "filemem" / "web" / "assets" / "vendor"


def listed() -> dict[str, dict[str, str]]:
    """What VENDOR.toml says of each file."""
    return tomllib.loads((VENDOR / "VENDOR.toml").read_text(encoding="utf-8"))


def changed() -> list[str]:
    """Files that are not listed, or whose bytes are not those listed."""
    known = listed()
    there = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDOR.iterdir()}
    there.pop("VENDOR.toml")
    return sorted(
        name
        for name in there.keys() | known
        if there.get(name) != known.get(name, {}).get("sha256")
    )


def differing() -> list[str]:
    """Files that are not as their package has them; each package is fetched once, by npm."""
    found: list[str] = []
    packages: dict[str, dict[str, bytes]] = {}
    for name, one in listed().items():
        package = f"{one['package']}@{one['version']}"
        if package not in packages:
            packages[package] = _package(package)
        if packages[package].get(f"package/{one['path']}") != (VENDOR / name).read_bytes():
            found.append(f"{name}: not {one['path']} of {package}")
    return found


def _package(name: str) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["npm", "pack", "--silent", name], cwd=folder, check=True, stdout=subprocess.DEVNULL
        )
        (packed,) = Path(folder).iterdir()
        with tarfile.open(packed) as files:
            return {one.name: file.read() for one in files if (file := files.extractfile(one))}


if __name__ == "__main__":
    sys.exit(
        "\n".join(changed() + differing())
        or print(f"{len(listed())} vendored files are as their packages have them")
    )
