"""Whose a memory is if a call does not say so: names in the project's `.env`, and Git's where others share the memory.

Rule: a `.env` that Git tracks is a stranger's, and names nobody.
"""

from __future__ import annotations

from contextlib import suppress

from filemem import config
from filemem.errors import BadInput
from filemem.memory.store import Store


def named(store: Store) -> dict[str, str]:
    """User, agent and run, as far as the environment or an untracked `.env` of the work tree names them."""
    found = config.powermem_names(store.code.work_tree / ".env")
    return config.powermem_names(None) if found and store.code.staged([".env"]) else found


def sharer(store: Store) -> str:
    """The e-mail by which Git knows the user, if the repository has another side, so that others may read it; or ""."""
    shared = any(key.startswith("remote.") and key.endswith(".url") for key in store.code.settings.values)
    with suppress(BadInput):  # Git knows none
        return store.code.identity()[0][1] if shared else ""
    return ""
