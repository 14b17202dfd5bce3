"""What messages call records by, and what they advise about several: words that need no look at a store."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

SHOWN = 5  # records in a message


def called(title: str, record_id: str) -> str:
    """What to call a record by: its title, and the end of its id, which is enough to name it."""
    return f"{title} ({record_id.rpartition('_')[2]})"


def listed(names: Iterable[tuple[str, str]]) -> str:
    """What to call several records by, given their titles and ids; the first few, and how many more."""
    found = [called(title, one) for title, one in names]
    return "; ".join(found[:SHOWN]) + (f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else "")


def ending(topic: str) -> str:
    """What ends a fork."""
    command = f"filemem resolve {shlex.quote(topic)} --decision ... --reasoning ..."
    return f"save one that supersedes or synthesizes them: {command}"
