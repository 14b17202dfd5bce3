"""What a clone lacks of history, as Git's own files tell it: where a shallow one ends, and whether it is a partial one.

Rule: what was found out of history while it was shallow holds for that depth alone, so it is kept with it.
"""

from __future__ import annotations

from pathlib import Path


def boundary(common_dir: Path) -> frozenset[str]:
    """The commits whose parents are not here; empty where history is whole."""
    return frozenset(_noted(common_dir).decode("ascii", "replace").split())


def depth(common_dir: Path) -> str:
    """A word for where history ends: another one when that changed, "" where it is whole."""
    if not (noted := _noted(common_dir)):
        return ""
    import hashlib  # 4 ms, for OpenSSL; most histories are whole

    return hashlib.sha256(noted).hexdigest()[:16]


def partial(common_dir: Path) -> bool:
    """Whether this is a partial clone, in which older versions may not be here."""
    return any((common_dir / "objects" / "pack").glob("*.promisor"))


def _noted(common_dir: Path) -> bytes:
    try:
        return (common_dir / "shallow").read_bytes()
    except OSError:
        return b""
