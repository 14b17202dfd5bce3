"""What Git makes of a file that two sides changed: merged line by line, with no driver that a repository names.

Rule: `git merge-file` sees three files and nothing of the repository.
"""

from __future__ import annotations

from pathlib import Path

from filemem.repo.git import LONG, Git, GitError

_MOST = 127  # conflicts that its exit status can count; beyond that it has failed


def merged(git: Git, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Return what both sides made of a file, None where they changed the same lines.

    Args:
        git: runs Git.
        base: the version that both come from; empty where each side made the file.
        ours, theirs: the two sides.

    Raises:
        GitError: Git fails.
    """
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="filemem-") as folder:
        paths = [Path(folder, name) for name in ("ours", "base", "theirs")]
        for path, data in zip(paths, (ours, base, theirs), strict=True):
            path.write_bytes(data)
        try:
            return git.run("merge-file", "--stdout", *map(str, paths), limit=LONG)
        except GitError as error:
            binary = "binary" in error.stderr
            if binary or 0 < error.code <= _MOST:
                return None
            raise
