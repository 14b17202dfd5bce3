"""Where history begins in a partial clone that lacks the trees of older commits.

Rule: the oldest commit in a line whose files are all here counts as one at which a shallow clone ends. Git shows no
change that needs what is before it, and who brought what it holds is not known.
"""

from __future__ import annotations

from collections.abc import Collection

from filemem.repo.git import PROMISED, Git, GitError
from filemem.repo.log import Commit, Row
from filemem.repo.stamps import millis

REACH = 100  # commits that are looked at


def beginning(git: Git, tip: str, paths: Collection[str], error: GitError) -> tuple[Commit, list[Row]]:
    """Return that commit, without an author, and what it has of some files and folders, as if it had brought that.

    Args:
        git: runs Git.
        tip: the commit from which history is seen.
        paths: from the top of the work tree; folders end with a slash.
        error: what Git said when it was asked of all history.

    Raises:
        GitError: the given one where it has another reason, or its like where not even the tip's files are here.
    """
    if PROMISED not in error.stderr:
        raise error
    asked = ("log", "--first-parent", f"-{REACH}", "--pretty=tformat:%H %ct %P", "--no-show-signature", tip, "--")
    found: tuple[Commit, list[Row]] | None = None
    for commit, at, *parents in (line.split() for line in git.run(*asked).decode().splitlines()):
        try:
            rows = _held(git, commit, paths)
        except GitError:
            if found is None:
                raise
            break
        found = Commit(commit, millis(at), "", "", "", written=millis(at), parents=tuple(parents)), rows
        if len(parents) > 1:  # what was merged lies beside this line
            break
    if found is None:
        raise error
    return found


def _held(git: Git, commit: str, paths: Collection[str]) -> list[Row]:
    answer = git.run("ls-tree", "-r", "-z", "--full-tree", commit, "--", *sorted(paths))
    cells = (row.partition("\t") for row in answer.decode("utf-8", "surrogateescape").split("\0")[:-1])
    blobs = {path: head.split()[2] for head, _, path in cells if head.startswith("100")}
    return [Row("A", path, path, "0" * len(blob), blob) for path, blob in blobs.items()]
