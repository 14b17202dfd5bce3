"""What is kept of the claims that commits make, beside the index: a search asks it instead of Git.

Rule: it is derived. What cannot be read, or was found in a history of another depth, is worked out anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from filemem.query.evidence import Claim, Said

if TYPE_CHECKING:
    from filemem.memory.store import Store

_CLAIMS, _LAYOUT = "claims", 6  # the memo, and its layout


class Remembered(NamedTuple):
    """The claims of all commits up to `head`, as far back as history went; nothing is known where that is empty."""

    head: str = ""
    claims: tuple[Claim, ...] = ()
    depth: str = ""


def remembered(store: Store) -> Remembered:
    """What was kept last."""
    known = _loaded(store.memo(_CLAIMS).read())
    return known if known.depth == store.code.depth() else Remembered()


def known(store: Store) -> tuple[Claim, ...]:
    """The claims on the branch that is checked out, as far as they are known without asking Git."""
    return remembered(store).claims if store.tip == "HEAD" else ()


def keep(store: Store, head: str, claims: Sequence[Claim]) -> None:
    """Keep all claims up to a commit."""
    whole = Remembered(head, tuple(claims), store.code.depth())
    store.memo(_CLAIMS).write(json.dumps([_LAYOUT, whole], ensure_ascii=False).encode())


@lru_cache(maxsize=4)
def _loaded(text: bytes) -> Remembered:
    try:
        layout, (head, rows, depth) = json.loads(text or b"[0,[0,0,0]]")
        if layout != _LAYOUT:
            return Remembered()
        found = map(Claim._make, rows)
        whole = (
            one._replace(reverts=tuple(one.reverts), said=_said(one.said), aside=tuple(one.aside)) for one in found
        )
        return Remembered(head, tuple(whole), depth)
    except (ValueError, TypeError, IndexError, KeyError):
        return Remembered()


def _said(rows: Sequence[Sequence[Any]]) -> Said:
    names, outcomes, unclear = rows
    return Said(tuple(names), tuple(map(tuple, outcomes)), tuple(map(tuple, unclear)))
