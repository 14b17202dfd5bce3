"""What saving takes and answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from filemem import record
from filemem.record.model import Outcome

COMMIT, BATCH, LEAVE = "commit", "batch", "leave"
IN_BATCH = "committed together with the saves around it"  # the reason shown while a batch is open


class Saved(NamedTuple):
    """The answer to a save: it is durable on disk, and where `commit` is given also in Git.

    Args:
        path: relative to the store.
        blob: Git blob id of the file as it now reads; "" where it was removed.
        commit: id of the commit that holds the change.
        pending: why there is no commit yet, or why there will be none; None where that was not asked for.
        trouble: what went wrong once the commit was made, or "".
    """

    path: str
    blob: str
    commit: str | None = None
    pending: str | None = None
    trouble: str = ""


class PendingOp(NamedTuple):
    """An operation that is not committed yet: "put", "amend" or "remove", path in the store, why, age in seconds."""

    kind: str
    path: str
    reason: str
    age_s: float


class Replayed(NamedTuple):
    """What a replay did: paths finished, paths that still wait, and sentences on what was repaired."""

    finished: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    repaired: tuple[str, ...] = ()


class Amendment(NamedTuple):
    """What an amend changes; the parameters of `record.amend`."""

    keys: Mapping[str, object]
    outcome: Outcome | None = None
    title: str | None = None
    text: str | None = None

    def apply(self, data: bytes, path: str) -> bytes:
        """The bytes with the change made. Raises as `record.amend` does."""
        return record.amend(data, path, keys=self.keys, outcome=self.outcome, title=self.title, text=self.text)

    def plain(self) -> dict[str, object]:
        """In plain JSON values, for the journal."""
        outcome = self.outcome._asdict() if self.outcome else None
        return {"keys": dict(self.keys), "outcome": outcome, "title": self.title, "text": self.text}

    @classmethod
    def read(cls, plain: Mapping[str, object]) -> Amendment:
        """From the journal's form."""
        keys, outcome, title, text = (plain.get(name) for name in ("keys", "outcome", "title", "text"))
        return cls(
            keys if isinstance(keys, dict) else {},
            Outcome(**outcome) if isinstance(outcome, dict) else None,
            title if isinstance(title, str) else None,
            text if isinstance(text, str) else None,
        )
