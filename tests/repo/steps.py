"""The steps of a save, at which tests stop it or come between: each is where one of its functions begins or ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from filemem.repo import commit
from filemem.repo.journal import StagedFiles
from filemem.repo.state import GitLocks

STEPS = (
    *(
        "planned",
        "prepared",
        "index locked",
        "branch locked",
        "checked",
        "placed",
        "entered",
        "moved",
    ),
    *("released", "done"),
)
_exchange, _place = commit._exchange, StagedFiles.publish


@contextmanager
def watched(step: Callable[[str], object]) -> Iterator[None]:
    """Call `step` at all steps of a save but the first and the last."""

    class Watched(GitLocks):
        moved = False

        def take_index(self) -> bool:
            if got := super().take_index():
                step("index locked")
            return got

        def take_branch(self, ref: str, new: str, old: str) -> str:
            if not (why := super().take_branch(ref, new, old)):
                step("branch locked")
            return why

        def send_entries(self, entries: Mapping[str, str]) -> None:
            super().send_entries(entries)
            step("entered")

        def move_branch(self) -> None:
            super().move_branch()
            self.moved = True
            step("moved")

        def release(self) -> bool:
            kept = super().release()
            if self.moved:
                self.moved = False
                step("released")
            return kept

    def exchange(*given: Any) -> commit.SaveResult | str:
        step("prepared")
        return _exchange(*given)

    def place(aside: StagedFiles) -> None:
        step("checked")
        _place(aside)
        step("placed")

    with (
        patch.object(commit, "GitLocks", Watched),
        patch.object(commit, "_exchange", exchange),
        patch.object(StagedFiles, "publish", place),
    ):
        yield
