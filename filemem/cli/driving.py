"""`filemem init --diff-driver`: `git diff` and `git log -p` show a record as what it says, one statement a line.

Git gives a diff up whose textconv fails. So the command names this very program, takes the one on the PATH where that
is gone, and shows the file as it is where neither runs.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from contextlib import closing
from pathlib import Path

from filemem import config
from filemem.cli.plan import Step, line_end, read
from filemem.errors import FilememError
from filemem.files import is_record
from filemem.memory import home
from filemem.record import Parsed, parse, plainly, short_id, topic_folders
from filemem.repo import Repo

NAME = "filemem"
FILE = ".gitattributes"
LINE = f"*.md diff={NAME}"


def steps(work_tree: Path, store: str, *, dry_run: bool, came: bool = False) -> list[Step]:
    """Name the driver in the store's attributes, for all clones, and the program in the configuration of its clone.

    Args:
        work_tree: top of the project.
        store: the folder of records, below it.
        dry_run: only say it.
        came: what stands in that folder came with it a moment ago.
    """
    path = f"{store}/{FILE}" if store != home.TOP else FILE
    old = read(work_tree, path) or ""
    kept = LINE in old.splitlines()
    content = None if kept else naming(old)
    action = "create" if came or not old else "keep" if kept else "change"
    attributes = Step(path, action, content, "names the diff driver")
    note = f"diff.{NAME}.textconv: filemem textconv, or the file as it is where that does not run"
    return [attributes, Step(_configured(work_tree, store, dry_run=dry_run), "change", None, note)]


def _configured(work_tree: Path, store: str, *, dry_run: bool) -> str:
    """Name the program in the configuration of the repository that the records are in; says where that is."""
    place = work_tree / store
    nearest = next(one for one in (place, *place.parents) if one.is_dir())
    if dry_run and not (work_tree / ".git").exists():
        return ".git/config"
    with closing(Repo.discover(nearest)) as repo:
        if not dry_run:
            repo.sharing.configure(f"diff.{NAME}.textconv", _command())
        return Path(os.path.relpath(repo.common_dir / "config", work_tree)).as_posix()


def naming(old: str = "") -> str:
    """What attributes become, so that they name the driver."""
    end = line_end(old)
    return old if LINE in old.splitlines() else f"{old}{'' if not old or old.endswith(end) else end}{LINE}{end}"


def commit(place: Path, shown: str) -> str:
    """Commit the attributes on the branch that holds records alone, where no other line of them is uncommitted.

    Args:
        place: the work tree of that branch.
        shown: the same, as people see it.

    Returns:
        Why the user must do it, and how; "" where they are committed.
    """
    from filemem.memory import attaching

    with closing(Repo.discover(place)) as repo:
        committed = (repo.show(FILE) or b"").decode(errors="surrogateescape")
        wanted = naming(committed).encode(errors="surrogateescape")
        if wanted == committed.encode(errors="surrogateescape"):
            return ""
        why = "it has other changes"
        if (place / FILE).read_bytes() == wanted:
            why = attaching.commit(repo, FILE, wanted, "memory: name the diff driver", time.time_ns() // 1_000_000)
    by_hand = f"{repo.places.by_hand} add {FILE} && {repo.places.by_hand} commit"
    return f"{shown}/{FILE} is not committed ({why}): {by_hand}" if why else ""


def _command() -> str:
    """What Git hands to a shell, which puts the name of the file behind it."""
    here = shutil.which(NAME, path=str(Path(sys.executable).parent))
    programs = " ".join(shlex.quote(one) for one in (Path(here).as_posix() if here else "", NAME) if one)
    tried = f'for p in {programs}; do command -v "$p" >/dev/null && "$p" textconv "$1" && return; done'
    return f'f() {{ {tried}; cat "$1"; }}; f'


def shown(file: Path, top: Path) -> str:
    """A file as `git diff` shall show it: a record in words, anything else, and what cannot be read whole, as it is.

    Args:
        file: the version that Git hands over, under a name that ends like the record's own.
        top: of the work tree.
    """
    data = file.read_bytes()
    text = data.decode(errors="replace")
    record, problems = parse(data, file.name) if is_record(file.name) else Parsed(None)
    lost = any(problem.level == "error" for problem in problems)
    if record is None or lost or (not record.topic_stated and not record.id_stated):
        return text
    return plainly(record, _titles(top, record.topic, record.supersedes or ()), text)


def _titles(top: Path, topic: str, ids: tuple[str, ...]) -> dict[str, str]:
    """Titles of earlier decisions on a topic, as far as their files stand in its folder."""
    try:
        store = top / config.load(top).store
    except FilememError:
        return {}
    folder = store / "decisions" / topic_folders(topic)
    found = {one: next(folder.glob(f"*-{short_id(one)}.md"), None) for one in ids if short_id(one).isalnum()}
    read = {one: parse(file.read_bytes(), file.name).record for one, file in found.items() if file is not None}
    return {one: record.title for one, record in read.items() if record is not None}
