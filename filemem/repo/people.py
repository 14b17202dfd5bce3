"""Who stands behind a commit besides its author: its trailers, read by GitPython from the object itself.

The only importer of GitPython, and only of its object database: reading a commit's message runs nothing of the
repository's, while its index and working-tree calls would (hooks, filters, fsmonitor), and its commits sweep up what
the user has staged. Imported at first need: it costs more than a search.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple


class People(NamedTuple):
    """Names as the trailers `Co-authored-by` and `Reviewed-by` write them."""

    co_authors: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()


_SHA1 = re.compile(r"[0-9a-f]{40}")
_TRAILER = re.compile(r"^([A-Za-z-]+): (.*)$", re.MULTILINE)


def people(git_dir: Path, commits: Iterable[str]) -> Mapping[str, People]:
    """Read who commits name.

    Args:
        git_dir: the Git directory of a work tree.
        commits: full commit ids; those that do not exist (any more) name nobody. GitPython knows SHA-1 alone, so those
            of a SHA-256 repository are left out.
    """
    import git

    found: dict[str, People] = {}
    with git.Repo(git_dir, expand_vars=False) as repo:
        for commit in filter(_SHA1.fullmatch, commits):
            try:
                message = git.Commit(repo, bytes.fromhex(commit)).message
            except ValueError:
                found[commit] = People()
            else:
                found[commit] = _read(message if isinstance(message, str) else message.decode(errors="replace"))
    return found


def _read(message: str) -> People:
    last = message.rstrip().rpartition("\n\n")[2]
    pairs = [(key.casefold(), value.strip()) for key, value in _TRAILER.findall(last)]
    by_key = {name: tuple(value for key, value in pairs if key == name) for name in ("co-authored-by", "reviewed-by")}
    return People(by_key["co-authored-by"], by_key["reviewed-by"])
