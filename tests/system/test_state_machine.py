"""Whatever happens to files and Git, four things hold (design 10): the index after a look is what a rebuild would make
it, the commit table is `git log`, the snapshot of HEAD is the work tree, and a look changes no file.
"""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from filemem.errors import Conflict
from filemem.index import Index, open_model
from filemem.memory import Memory, catch_up
from filemem.memory.snapshot import read_commit, read_work_tree
from filemem.memory.store import Store
from tests.support import CLOCK, git, make_repo, sound
from tests.system.tools import SEED, snapshot

TOPICS = ("caching", "auth", "Caching")
WORDS = ("lru", "redis", "tokens", "sessions", "postgres")
BRANCHES = ("main", "other", "third")
SCORED = ("lru cache", "auth tokens", "note about redis")
QUERIES = ("", *SCORED, "topic:caching")
MODEL = open_model()

topics, words, picks = st.sampled_from(TOPICS), st.sampled_from(WORDS), st.integers(0, 1_000)


class Synced(RuleBasedStateMachine):
    """One work tree, two memories on it, a user with an editor and Git."""

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp(prefix="machine-"))
        self.repo = make_repo(self.base / "repo")
        self.store = self.repo / "memory"
        self.now, self.random = CLOCK, Random(SEED)
        self.memory = self._open(serving=True)
        self.second = self._open()
        self.ids: list[str] = []
        self.step = 0

    @initialize()
    def begin(self) -> None:
        for topic in TOPICS[:2]:
            self.save(topic, "lru", False)

    # through filemem

    @rule(topic=topics, word=words, second=st.booleans())
    def save(self, topic: str, word: str, second: bool) -> None:
        self.step += 1
        try:
            saved = (self.second if second else self.memory).save(
                topic=topic,
                decision=f"Use {word} number {self.step}",
                reasoning=f"{word} fits {topic}",
            )
        except Conflict:
            assert any(len(head.heads) > 1 for head in self.memory.topics().topics)
        else:
            self.ids.append(saved.id)

    @rule(word=words, second=st.booleans())
    def observe(self, word: str, second: bool) -> None:
        self.step += 1
        writer = self.second if second else self.memory
        self.ids.append(writer.save(title=f"Note {self.step}", text=f"note about {word}").id)

    @rule(pick=picks, outcome=st.sampled_from(("success", "failed")))
    def update(self, pick: int, outcome: str) -> None:
        decisions = [
            hit
            for hit in self.memory.search(type="decision", limit=50).hits
            if hit.record.id_stated
        ]
        if decisions:
            hit = decisions[pick % len(decisions)]
            try:
                self.memory.update(
                    hit.record.id, outcome=outcome, reason=f"seen in step {self.step}"
                )
            except Conflict:
                assert git(self.repo, "status", "--porcelain", hit.path) != ""

    @rule(pick=picks)
    def forget(self, pick: int) -> None:
        hits = self.memory.search(limit=50).hits
        if hits:
            hit = hits[pick % len(hits)]
            try:
                self.memory.delete(hit.record.id)
            except Conflict:
                assert git(self.repo, "status", "--porcelain", hit.path) != ""

    # in an editor

    @rule(pick=picks, word=words, how=st.sampled_from(("in place", "rename", "same size")))
    def edit(self, pick: int, word: str, how: str) -> None:
        path = self._pick(pick)
        if path is None:
            return
        text = path.read_text()
        changed = (
            text.replace("fits", "suit")
            if how == "same size"
            else f"{text}\nAlso {word}, edited.\n"
        )
        if how == "rename":
            aside = path.with_name(f".{path.name}.swp")
            aside.write_text(changed)
            aside.replace(path)
        else:
            before = path.stat()
            path.write_text(changed)
            if how == "same size":
                time.sleep(
                    1 - time.time() % 1
                )  # of the time of a change Git compares whole seconds
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    @rule(pick=picks, status=st.sampled_from(("proposed", "deprecated", "rejected")))
    def edit_status(self, pick: int, status: str) -> None:
        path = self._pick(pick)
        if path is not None and "type: decision" in path.read_text():
            kept = [
                line
                for line in path.read_text().splitlines(keepends=True)
                if not line.startswith("status:")
            ]
            path.write_text(
                "".join(kept).replace("type: decision\n", f"type: decision\nstatus: {status}\n", 1)
            )

    @rule(topic=topics, word=words, link=st.booleans(), pick=picks)
    def write(self, topic: str, word: str, link: bool, pick: int) -> None:
        """A hand-written file: without id, perhaps linked by path, its place in the chain implied otherwise."""
        self.step += 1
        other = self._pick(pick) if link else None
        edge = f"supersedes: [{other.relative_to(self.store)}]\n" if other else ""
        path = self.store / f"decisions/by-hand/{self.step}-{word}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"---\ntopic: {topic}\n{edge}---\n# Prefer {word} by hand {self.step}\n")

    @rule(pick=picks)
    def remove(self, pick: int) -> None:
        path = self._pick(pick)
        if path is not None:
            path.unlink()

    @rule(pick=picks)
    def rename(self, pick: int) -> None:
        self.step += 1
        path = self._pick(pick)
        if path is not None:
            path.rename(path.with_name(f"renamed-{self.step}.md"))

    @rule(pick=picks)
    def rename_folder(self, pick: int) -> None:
        self.step += 1
        folders = sorted(path for path in (self.store / "decisions").glob("*") if path.is_dir())
        if folders:
            folders[pick % len(folders)].rename(self.store / f"decisions/folder-{self.step}")

    # with Git

    @rule()
    def commit(self) -> None:
        git(self.repo, "add", "-A")
        git(self.repo, "commit", "-q", "--allow-empty", "-m", f"User's commit {self.step}")

    @rule(branch=st.sampled_from(BRANCHES))
    def checkout(self, branch: str) -> None:
        self.commit()
        there = git(self.repo, "branch", "--list", branch)
        git(self.repo, "checkout", "-q", *(() if there else ("-b",)), branch)

    @rule(branch=st.sampled_from(BRANCHES))
    def merge(self, branch: str) -> None:
        if git(self.repo, "branch", "--list", branch):
            self.commit()
            git(self.repo, "merge", "-q", "--no-edit", branch, ok=False)
            git(self.repo, "merge", "--abort", ok=False)

    @rule(how=st.sampled_from(("--soft", "--mixed", "--hard")))
    @precondition(lambda self: self.step > 3)
    def reset(self, how: str) -> None:
        git(
            self.repo, "reset", "-q", how, "HEAD~1", ok=False
        )  # the first commit has none before it
        held = git(self.repo, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
        new = (
            path
            for path in self.store.rglob("*.md")
            if str(path.relative_to(self.repo)) not in held
        )
        if how != "--hard" and any("created:" not in path.read_text() for path in new):
            self.commit()  # the date that a commit gave a file stays until the file changes

    @rule()
    def amend(self) -> None:
        git(self.repo, "commit", "-q", "--amend", "--allow-empty", "-m", f"Amended {self.step}")

    # of processes

    @rule()
    def crash(self) -> None:
        """What the kernel does for a process that dies: its locks and pipes are gone, nothing else is tidied up."""
        self.memory._store.index.close()
        self.memory._store.repo.close()
        self.memory = self._open(serving=True)

    @rule()
    def reopen_second(self) -> None:
        self.second.close()
        self.second = self._open()

    @rule()
    def glance(self) -> None:
        self.memory.refresh()

    @rule()
    def look(self) -> None:
        """The invariants; also at the end of every run."""
        self.memory.refresh()  # finishes what a crash left
        before = snapshot(self.store)
        self.memory.refresh(full=True)
        assert snapshot(self.store) == before, "a look changed a file"
        state = self._git_state()
        self.memory.refresh(full=True)
        assert self._git_state() == state, "a look changed the repository"
        folder = self.base / "fresh"
        shutil.rmtree(folder, ignore_errors=True)
        store = copy.copy(self.memory._store)
        store.index = Index(folder, MODEL, store.read_dates)
        try:
            catch_up.update_index(store, full=True)
            expected = _content(Memory(store))
        finally:
            store.index.close()
        for memory in (self.memory, self.second):
            assert _difference(_content(memory), expected) == {}
        self._look_at_history()

    def _look_at_history(self) -> None:
        """The commit table says what `git log` does, and the records of HEAD are those of a clean work tree."""
        store = self.memory._store
        assert store.history.read_ancestors("HEAD") == set(
            git(self.repo, "log", "--format=%H").split()
        )
        paths = [store.files.to_work_tree_path(path) for path in store.index.read_manifest()]
        for path, touches in store.history.read_touches(paths).items():
            told = git(
                self.repo, "log", "--full-history", "--no-merges", "--format=%H", "--", path
            ).split()
            ours = {
                one.commit.id for one in touches if one.path == path and len(one.commit.parents) < 2
            }
            assert ours <= set(told), path
            assert bool(touches) or not told, path
        if not git(self.repo, "status", "--porcelain"):
            here, there = read_work_tree(store), read_commit(store, store.repo.read_head() or "")
            assert dict(here.records) == dict(there.records)
            assert here.graph == there.graph

    def teardown(self) -> None:
        try:
            self.look()
            assert sound(self.repo)
        finally:
            self.close()

    def close(self) -> None:
        self.second.close()
        self.memory.close()
        shutil.rmtree(self.base)

    def _open(self, serving: bool = False) -> Memory:
        """Open a memory whose ids and times come from the run, not from the machine, so that failures repeat.

        It looks at the files at once; the serving one stays the one that writes the index.
        """
        store = Store(self.repo, serving=serving)
        store.clock, store.entropy = self._clock, lambda: self.random.randbytes(8)
        memory = Memory(store)
        memory.refresh()
        return memory

    def _clock(self) -> int:
        self.now += 700
        return self.now

    def _pick(self, pick: int) -> Path | None:
        paths = sorted(self.store.rglob("*.md"))
        return paths[pick % len(paths)] if paths else None

    def _git_state(self) -> str:
        return git(self.repo, "rev-parse", "HEAD") + git(self.repo, "ls-files", "-s")


def _content(memory: Memory) -> dict[str, Any]:
    """All that an index answers: every node by path, and what searches say of hits and of what holds today."""
    content: dict[str, Any] = {node.path: node for node in memory._store.index.read_nodes()}
    for query in QUERIES:
        for live, mode in product((False, True), ("hybrid", "vector")):
            hits = memory.search(query, limit=100, live=live, mode=mode).hits
            rows = [
                (hit.path, hit.record.id, hit.superseded_by, hit.heads, hit.provenance)
                for hit in hits
            ]
            # Of a chain the best match shows, and scores by words count what was removed until it is merged away.
            heads = {head for hit in hits for head in hit.heads or (hit.record.id,)}
            by_words = mode == "hybrid" and not live and query in SCORED
            content[f"{query!r}, live={live}, {mode}"] = sorted(heads) if by_words else sorted(rows)
    return content


def _difference(found: Mapping[str, Any], expected: Mapping[str, Any]) -> dict[str, Any]:
    """What is not as expected: (found, expected) by name."""
    names = sorted(found.keys() | expected.keys())
    pairs = {name: (found.get(name), expected.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _run(examples: int, steps: int, *phases: Phase) -> None:
    run_state_machine_as_test(
        Synced,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            database=None,
            phases=phases or list(Phase),
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No save waits for a look of the other memory, which has no watcher."""
    monkeypatch.setattr(catch_up, "WRITE_TIMEOUT", 0.1)


def test_the_index_is_what_a_rebuild_would_make_it() -> None:
    _run(3, 12, Phase.generate)  # shrinking a failure takes minutes; the long run does it


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_the_index_is_what_a_rebuild_would_make_it_at_length() -> None:
    _run(200, 40)
