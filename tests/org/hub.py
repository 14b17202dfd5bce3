"""A repository that changes in every way that Git has, and what an index of it must hold then."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

from filemem import chain
from filemem.chain import Node
from filemem.files import is_listed
from filemem.memory.store import compute_tombstone
from filemem.org.postgres import Postgres
from filemem.record import (
    DECISION,
    Record,
    build_record_path,
    build_reference_index,
    parse_record,
    render_record,
    resolve_reference,
)
from filemem.repo.mirror import open_mirror
from tests.support import git, make_repo, write

START = 1_760_000_000_000
TOPICS = ("cache", "queue", "login", "")
Held = dict[str, tuple[str, bool]]  # path -> blob id, and whether it holds


class Hub:
    """A repository; every change is a commit, made with the chances of `rng`."""

    def __init__(self, folder: Path, name: str, rng: random.Random) -> None:
        self.path, self._name, self._rng, self._made = make_repo(folder / name), name, rng, 0
        self._forgotten: dict[str, tuple[str, bytes]] = {}  # mark -> path and bytes

    @property
    def files(self) -> list[str]:
        """The records in the work tree, from its top."""
        return sorted(
            str(one.relative_to(self.path)) for one in (self.path / "memory").rglob("*.md")
        )

    def commit(self) -> None:
        git(self.path, "add", "-A")
        git(self.path, "commit", "--quiet", "--allow-empty", "-m", "Change")

    def record(self) -> Record:
        """A new decision, which may replace one that is there, by its id or the name of its file."""
        self._made += 1
        others = [
            parse_record((self.path / one).read_bytes(), one.removeprefix("memory/")).record
            for one in self.files
        ]
        chosen = self._rng.sample(
            [one for one in others if one], k=min(len(others), self._rng.randrange(2))
        )
        named = tuple(self._rng.choice((one.id, one.path.rpartition("/")[2])) for one in chosen)
        topic, title = self._rng.choice(TOPICS), f"Choice {self._made} of {self._name}"
        created = START + 1000 * self._made
        return Record(
            id=f"decision_{self._name}_{created}_{self._made:08d}",
            type=DECISION,
            topic=topic or title,
            topic_stated=bool(topic),
            title=title,
            decision=title,
            created=created,
            supersedes=named if self._rng.random() < 0.7 else None,
        )

    def push(self) -> None:
        for _ in range(self._rng.randrange(1, 4)):
            record = self.record()
            write(self.path / "memory" / build_record_path(record), render_record(record))
        self.commit()

    def edit(self) -> None:
        for one in self._some():
            with (self.path / one).open("a") as file:
                file.write(f"\nSeen again, {self._rng.random()}.\n")
        self.commit()

    def remove(self) -> None:
        for one in self._some():
            (self.path / one).unlink()
        self.commit()

    def rename(self) -> None:
        for one in self._some():
            (self.path / one).rename(
                (self.path / one).with_name(f"{self._rng.randrange(10**6)}-{Path(one).name}")
            )
        self.commit()

    def forget(self) -> None:
        for one in self._some():
            data = (self.path / one).read_bytes()
            if record := parse_record(data, one.removeprefix("memory/")).record:
                self._forgotten[compute_tombstone(record.id)] = one, data
                write(self.path / "memory/.forgotten" / compute_tombstone(record.id), b"")
                if self._rng.random() < 0.7:  # else the mark alone must hide it
                    (self.path / one).unlink()
        self.commit()

    def restore(self) -> None:
        for mark, (path, data) in list(self._forgotten.items())[:1]:
            (self.path / "memory/.forgotten" / mark).unlink(missing_ok=True)
            write(self.path / path, data)
            del self._forgotten[mark]
        self.commit()

    def force(self) -> None:
        """Let HEAD be an older state, and something else on top of it."""
        count = int(git(self.path, "rev-list", "--count", "HEAD"))
        git(self.path, "reset", "--quiet", "--hard", f"HEAD~{self._rng.randrange(min(count, 4))}")
        self.push()

    def gc(self) -> None:
        git(self.path, "reflog", "expire", "--expire=now", "--all")
        git(self.path, "gc", "--quiet", "--prune=now")

    def replace(self) -> None:
        """Another repository under the same name, without the history."""
        shutil.rmtree(self.path / ".git")
        git(self.path, "init", "--quiet", "--initial-branch=main")
        self.commit()

    def _some(self) -> list[str]:
        return self._rng.sample(self.files, k=min(len(self.files), self._rng.randrange(1, 3)))


CHANGES = (
    "push",
    "push",
    "edit",
    "remove",
    "rename",
    "forget",
    "restore",
    "force",
    "gc",
    "replace",
)


def expected(path: Path) -> Held:
    """What an index must hold: what Git lists at HEAD, and what chains make of it."""
    rows = (
        row.split("\t") for row in git(path, "ls-tree", "-r", "HEAD", "--", "memory/").splitlines()
    )
    listed = {name.removeprefix("memory/"): head.split()[2] for head, name in rows}
    marks = {name.rpartition("/")[2] for name in listed if name.startswith(".forgotten/")}
    with open_mirror(str(path), path, os.environ) as repo:
        read = {
            name: parse_record(repo.objects.read_object(blob) or b"", name)
            for name, blob in listed.items()
            if is_listed(name)
        }
    found = {name: one.record for name, one in read.items()}
    records = {
        name: one for name, one in found.items() if one and compute_tombstone(one.id) not in marks
    }
    by_id: dict[str, Record] = {}
    for one in sorted(records.values(), key=lambda each: (each.created or 0, each.path)):
        by_id.setdefault(one.id, one)
    names = build_reference_index(by_id.values())

    def meant(reference: str, folder: str) -> str:
        return (
            reference
            if reference in by_id
            else resolve_reference(reference, names, folder) or reference
        )

    nodes = map(Node.from_record, by_id.values())
    graph = chain.build_graph(
        one.resolve_references({each: meant(each, one.folder) for each in one.references})
        for one in nodes
    )
    return {
        name: (listed[name], by_id[one.id] is one and graph.is_head(one.id))
        for name, one in records.items()
    }


def held(engine: Postgres, path: Path) -> Held:
    """What the index holds of a repository, every table of it in step with the others."""
    asked = "select d.path, d.blob, d.live and d.shown, d.passages, (select count(*) from passage p where p.doc = d.id)"
    asked += ", (select count(*) from body b where b.doc = d.id) from doc d join repo r on r.id = d.repo where r.name = %s"
    with engine.transaction() as con:
        rows = con.execute(asked, (str(path),)).fetchall()
        counted = con.execute(
            "select s.records, s.head from state s join repo r on r.id = s.repo where r.name = %s",
            (str(path),),
        ).fetchone()
    assert all(passages >= there and bodies == 1 for *_, passages, there, bodies in rows)
    assert counted == (len(rows), git(path, "rev-parse", "HEAD"))
    return {name: (blob, live) for name, blob, live, *_ in rows}
