"""A repository that a group shares: what filemem makes in the Git directory may be used by all.

`core.sharedRepository` says by whom, and Git gives its own files their modes by the same rule.
"""

from __future__ import annotations

import re
import stat
from contextlib import suppress
from pathlib import Path

_NAMES = dict.fromkeys(("group", "true", "yes", "on", "1"), 0o660)
_NAMES |= dict.fromkeys(("all", "world", "everybody", "2"), 0o664)
PRIVATE_FOLDER = "pages"  # the folder of files that hold a token: they stay their owner's


def compute_mode(mode: int, sharing: str) -> int:
    """Compute the mode of a file or folder for a value of `core.sharedRepository`."""
    stated_bits = 0
    if re.fullmatch("0?[0-7]{3}", sharing):
        stated_bits = int(sharing, 8) & 0o666
    bits = stated_bits or _NAMES.get(sharing.lower(), 0)
    if not bits:
        return mode
    if not mode & stat.S_IWUSR:
        bits &= 0o444
    if mode & stat.S_IXUSR:
        bits |= (bits & 0o444) >> 2
    if stat.S_ISDIR(mode):
        bits |= stat.S_ISGID
    if stated_bits:  # instead of the old ones
        mode &= ~0o777
    return mode | bits


def share_folder(folder: Path, sharing: str) -> None:
    """Give a folder and all in it the modes that `core.sharedRepository` asks for."""
    with suppress(OSError):  # it is gone meanwhile
        for path in (folder, *folder.rglob("*")):
            old_mode = path.lstat().st_mode
            mode = compute_mode(old_mode, sharing)
            if stat.S_ISLNK(old_mode) or PRIVATE_FOLDER in path.relative_to(folder).parts:
                continue
            if mode != old_mode:
                with suppress(OSError):  # another user's
                    path.chmod(stat.S_IMODE(mode))
