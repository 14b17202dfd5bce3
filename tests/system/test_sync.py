"""Sharing: what is saved in one clone reaches the others, whatever both did; nothing of the user's is touched.

Sync never rewrites and never forces; what it cannot do it leaves to the user, with the command; and no program that a
repository names runs.
"""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from filemem.errors import BrokenStore, Conflict, NotFound
from filemem.memory import Memory, sync
from tests.support import git, make_repo, sound, write

Pair = tuple[Path, Path]


@contextmanager
def opened(path: Path) -> Iterator[Memory]:
    with Memory.open(path) as memory:
        yield memory


def save(path: Path, decision: str = "Use Redis", topic: str = "caching") -> tuple[str, Path]:
    """Save a decision; its id and its file."""
    with opened(path) as memory:
        saved = memory.save(topic=topic, decision=decision, reasoning="r")
    return saved.id, path / saved.path


def update(path: Path, record: str, outcome: str, reason: str) -> None:
    with opened(path) as memory:
        memory.update(record, outcome=outcome, reason=reason)


def synced(path: Path) -> sync.SyncResult:
    with opened(path) as memory:
        return memory.sync()


def clone(hub: Path, name: str) -> Path:
    target = hub.parent / name
    git(hub.parent, "clone", "-q", str(hub), str(target))
    git(target, "config", "user.name", name)
    git(target, "config", "user.email", f"{name}@example.com")
    return target


def make_hub(folder: Path) -> Path:
    """A bare repository that clones share."""
    git(folder, "init", "-q", "--bare", "-b", "main", str(folder / "hub.git"))
    first = make_repo(folder / "first")
    git(first, "remote", "add", "origin", str(folder / "hub.git"))
    git(first, "push", "-q", "-u", "origin", "main")
    return folder / "hub.git"


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    return make_hub(tmp_path)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clones that share one decision; the first has sent an outcome, the second has a save that waits."""
    folder = tmp_path_factory.mktemp("template")
    hub = make_hub(folder)
    ada, bob = clone(hub, "ada"), clone(hub, "bob")
    with opened(ada) as memory:
        record = memory.save(topic="caching", decision="Use Redis", reasoning="r").id
        memory.sync()
        synced(bob)
        memory.update(record, outcome="failed", reason="slow")
        memory.sync()
    save(bob, "Use containers", "deploy")
    return folder


@pytest.fixture
def pair(template: Path, tmp_path: Path) -> Pair:
    """A copy of `template`."""
    for name in ("hub.git", "ada", "bob"):
        shutil.copytree(template / name, tmp_path / name, symlinks=True)
    for name in ("ada", "bob"):
        git(tmp_path / name, "remote", "set-url", "origin", str(tmp_path / "hub.git"))
    return tmp_path / "ada", tmp_path / "bob"


def shared(path: Path) -> Path:
    """The file of the decision that both share."""
    return next((path / "memory/decisions").rglob("caching--*.md"))


def state(path: Path) -> tuple[object, ...]:
    """All that must stay as it was."""
    files = {
        each: each.read_bytes()
        for each in path.rglob("*")
        if each.is_file() and ".git" not in each.parts
    }
    return (
        git(path, "for-each-ref", "refs/heads", "refs/stash"),
        git(path, "diff"),
        git(path, "diff", "--cached"),
        files,
    )


# sharing


def test_two_clones_share_what_they_save(hub: Path) -> None:
    ada, bob = clone(hub, "ada"), clone(hub, "bob")
    record, file = save(ada)
    assert synced(ada)[:4] == ("origin/main", 0, 1, 0)
    assert synced(ada).message == "origin/main: nothing new on either side"
    save(bob, "Use containers", "deploy")
    done = synced(bob)
    assert (done.received, done.sent, done.left) == (1, 2, "")
    assert synced(ada).received == 2
    update(ada, record, "failed", "slow")
    update(bob, record, "success", "fast")
    synced(ada)
    assert synced(bob).merged == (file.relative_to(ada).as_posix(),)
    synced(ada)
    with opened(ada) as memory:
        assert {hit.title for hit in memory.search()} == {"Use Redis", "Use containers"}
        assert {entry.reason for entry in memory.get(record)[0].record.outcomes} == {"slow", "fast"}
    assert (
        git(ada, "rev-parse", "HEAD")
        == git(bob, "rev-parse", "HEAD")
        == git(hub, "rev-parse", "main")
    )
    assert git(ada, "status", "--porcelain") == git(bob, "status", "--porcelain") == ""
    merge = git(hub, "rev-list", "--merges", "-1", "main")
    assert git(hub, "log", "-1", "--format=%an %s", merge) == "bob memory: merge origin/main"


def test_clones_that_save_at_the_same_time_lose_nothing(hub: Path) -> None:
    repos = [clone(hub, f"clone{number}") for number in range(2)]

    def work(path: Path) -> list[str]:
        ids = []
        with opened(path) as memory:
            for number in range(3):
                ids.append(
                    memory.save(
                        topic=f"{path.name} {number}", decision=f"{number}", reasoning="r"
                    ).id
                )
                memory.sync()
        return ids

    with ThreadPoolExecutor(2) as pool:
        ids = [one for found in pool.map(work, repos) for one in found]
    for repo in (*repos, *repos):
        synced(repo)
    for repo in repos:
        with opened(repo) as memory:
            assert len(memory.get(*ids)) == len(ids) == 6
        assert git(repo, "rev-parse", "HEAD") == git(hub, "rev-parse", "main")
        assert git(repo, "status", "--porcelain") == ""
        assert sound(repo)
    assert sound(hub)


def test_forgetting_wins_over_what_the_other_side_changed(pair: Pair) -> None:
    ada, bob = pair
    with opened(bob) as memory:
        memory.delete(shared(bob).stem[-8:])
    done = synced(bob)
    assert (done.forgotten, done.left) == ((shared(ada).relative_to(ada).as_posix(),), "")
    synced(ada)
    assert not list((ada / "memory/decisions").rglob("caching--*.md"))


def test_a_sync_names_the_topics_that_it_forks(hub: Path) -> None:
    ada, bob = clone(hub, "ada"), clone(hub, "bob")
    for repo, decision in ((ada, "Use Redis"), (bob, "Use an LRU cache")):
        save(repo, decision)
    synced(ada)
    with opened(bob) as memory:
        done = memory.sync()
    assert done.forked == ("caching",)
    assert "filemem resolve caching" in done.hint


# the user is at work


def edit(path: Path, *, stage: bool = False) -> None:
    file = shared(path)
    file.write_bytes(file.read_bytes() + b"\nBy hand.\n")
    if stage:
        git(path, "add", ".")


def merging(path: Path) -> None:
    git(path, "switch", "-q", "-c", "side", "HEAD~1")
    write(path / "code.py", "side\n")
    git(path, "commit", "-q", "-a", "-m", "side")
    git(path, "switch", "-q", "main")
    git(path, "merge", "-q", "--no-ff", "--no-commit", "side")


@pytest.mark.parametrize(
    ("begin", "told"),
    [
        (edit, ".md is in the way: not tracked, or not committed"),
        (lambda path: edit(path, stage=True), ".md is in the way: not tracked, or not committed"),
        (merging, "a merge is in progress"),
    ],
)
def test_it_only_fetches_where_the_users_work_is_in_the_way(
    pair: Pair, begin: Callable[[Path], None], told: str
) -> None:
    _, bob = pair
    begin(bob)
    before = state(bob)
    done = synced(bob)
    assert done.left.startswith("only fetched, because ")
    assert told in done.left
    assert (done.received, done.sent, state(bob)) == (0, 0, before)
    assert done.waiting >= 1
    assert git(bob, "rev-list", "--count", "main..origin/main") == "1", "it was fetched"


def test_what_is_staged_edited_or_untracked_elsewhere_stays(pair: Pair) -> None:
    _, bob = pair
    write(bob / "staged.py", "x\n")
    git(bob, "add", "staged.py")
    write(bob / "code.py", "edited\n")
    write(bob / "memory/untracked.md", "# Mine\n")
    assert (synced(bob).received, synced(bob).left) == (1, "")
    assert git(bob, "status", "--porcelain").splitlines() == [
        " M code.py",
        "A  staged.py",
        "?? memory/untracked.md",
    ]


@pytest.mark.parametrize("ignored", [False, True])
def test_a_file_in_the_way_is_kept(pair: Pair, ignored: bool) -> None:
    ada, bob = pair
    write(ada / "memory/decisions/x.md", "# Theirs\n")
    git(ada, "add", ".")
    git(ada, "commit", "-q", "-m", "x")
    git(ada, "push", "-q")
    mine = write(bob / "memory/decisions/x.md", "# Mine\n")
    if ignored:
        write(bob / ".git/info/exclude", "x.md\n")
    before = state(bob)
    assert "memory/decisions/x.md is in the way" in synced(bob).left
    assert (mine.read_text(), state(bob)) == ("# Mine\n", before)


# what is left to the user


def test_a_commit_that_touches_code_is_named_and_left_to_the_user(pair: Pair) -> None:
    ada, bob = pair
    write(bob / "code.py", "new\n")
    git(bob, "commit", "-q", "-a", "-m", "Code")
    before, there = state(bob), git(ada, "rev-parse", "origin/main")
    done = synced(bob)
    assert (
        f"{git(bob, 'rev-parse', 'HEAD')[:10]} touches code.py, which is not of the memory"
        in done.left
    )
    assert "pull" in done.hint
    assert state(bob) == before
    git(bob, "pull", "-q", "--rebase")
    done = synced(bob)
    assert (done.sent, done.waiting, done.hint.endswith("push")) == (0, 2, True)
    assert git(bob, "ls-remote", "origin", "main").split()[0] == there


def test_code_that_others_pushed_comes_along(pair: Pair) -> None:
    ada, bob = pair
    write(ada / "code.py", "theirs\n")
    git(ada, "commit", "-q", "-a", "-m", "Code")
    git(ada, "push", "-q")
    done = synced(bob)
    assert (done.received, done.sent, (bob / "code.py").read_text()) == (2, 2, "theirs\n")


def test_a_conflict_names_file_and_line_and_changes_nothing(pair: Pair) -> None:
    ada, bob = pair
    for repo, words in ((ada, "Theirs."), (bob, "Ours.")):
        file = shared(repo)
        file.write_text(file.read_text().replace("\nr\n", f"\n{words}\n", 1))
        git(repo, "commit", "-q", "-a", "-m", words)
    git(ada, "push", "-q")
    before, there = state(bob), git(ada, "rev-parse", "HEAD")
    with pytest.raises(
        Conflict, match=r"memory/decisions/.*/caching--.*\.md:\d+: both sides changed this"
    ) as told:
        synced(bob)
    assert "pull" in told.value.hint
    assert (state(bob), git(ada, "ls-remote", "origin", "main").split()[0]) == (before, there)


def test_a_record_removed_by_hand_and_changed_there_is_a_conflict(pair: Pair) -> None:
    _, bob = pair
    git(bob, "rm", "-q", shared(bob).relative_to(bob).as_posix())
    git(bob, "commit", "-q", "-m", "Remove")
    with pytest.raises(Conflict, match="deleted or renamed on one side"):
        synced(bob)


def test_what_was_taken_back_there_is_not_brought_there_again(hub: Path) -> None:
    ada, bob = clone(hub, "ada"), clone(hub, "bob")
    save(ada)
    synced(ada)
    synced(bob)
    git(ada, "reset", "-q", "--hard", "HEAD~1")
    git(ada, "push", "-q", "--force")
    save(bob, "Use containers", "deploy")
    before = state(bob)
    for _ in range(2):
        assert "rewritten there" in synced(bob).left
    assert (state(bob), git(hub, "rev-parse", "main")) == (before, git(ada, "rev-parse", "HEAD"))


def test_where_there_is_no_other_side(hub: Path, tmp_path: Path) -> None:
    alone = make_repo(tmp_path / "alone")
    with pytest.raises(NotFound, match="main has no upstream"):
        synced(alone)
    ada = clone(hub, "ada")
    git(ada, "switch", "-q", "-c", "feature")
    with pytest.raises(NotFound, match="feature has no upstream"):
        synced(ada)
    git(ada, "switch", "-q", "--detach")
    with pytest.raises(Conflict, match="detached"):
        synced(ada)


# the other side


def test_offline_is_normal(hub: Path) -> None:
    ada = clone(hub, "ada")
    hub.rename(hub.parent / "away.git")
    save(ada)
    with pytest.raises(BrokenStore, match="origin") as told:
        synced(ada)
    assert "saves go on here" in told.value.hint
    (hub.parent / "away.git").rename(hub)
    assert synced(ada).sent == 1


def test_a_remote_that_refuses_is_quoted(hub: Path) -> None:
    write(hub / "hooks/pre-receive", "#!/bin/sh\necho 'Only on Mondays' >&2\nexit 1\n").chmod(0o755)
    ada = clone(hub, "ada")
    save(ada)
    with pytest.raises(BrokenStore, match="Only on Mondays"):
        synced(ada)


def test_a_silent_remote_is_given_up(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("filemem.repo.remote.LIMIT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        ada = clone(hub, "ada")
        git(ada, "remote", "set-url", "origin", f"http://127.0.0.1:{server.getsockname()[1]}/x")
        with pytest.raises(BrokenStore, match=r"no answer|timed out|origin"):
            synced(ada)


def test_nobody_is_asked_for_a_password(hub: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        answer = b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n"

        def serve() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    peer.recv(4096)
                    peer.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        ada = clone(hub, "ada")
        git(
            ada,
            "remote",
            "set-url",
            "origin",
            f"http://u:secret@127.0.0.1:{server.getsockname()[1]}/x",
        )
        with pytest.raises(BrokenStore) as told:
            synced(ada)
        assert "secret" not in str(told.value)


@pytest.mark.parametrize("url", ["ext::sh -c 'touch fired'", "--upload-pack=touch", "hub\n.git"])
def test_an_address_that_would_run_something_is_refused(hub: Path, url: str) -> None:
    ada = clone(hub, "ada")
    git(ada, "config", "remote.origin.url", url)
    with pytest.raises(BrokenStore):
        synced(ada)
    assert not (ada / "fired").exists()


def test_nothing_that_the_repository_names_runs(pair: Pair, tmp_path: Path) -> None:
    _, bob = pair
    canary = tmp_path / "canary"
    program = write(tmp_path / "evil.sh", f"#!/bin/sh\necho $0 $* >> {canary}\nexit 0\n")
    program.chmod(0o755)
    for hook in (
        "pre-push",
        "post-merge",
        "post-checkout",
        "pre-merge-commit",
        "reference-transaction",
        "post-index-change",
    ):
        write(bob / f".git/hooks/{hook}", program.read_bytes()).chmod(0o755)
    for key in (
        "core.fsmonitor", "core.sshCommand", "core.askPass", "core.gitProxy", "credential.helper", "core.pager",
        "remote.origin.uploadpack", "remote.origin.receivepack", "merge.evil.driver", "diff.external", "gpg.program",
        "uploadpack.packObjectsHook", "core.alternateRefsCommand",
    ):  # fmt: skip
        git(bob, "config", key, str(program))
    hub = git(bob, "config", "remote.origin.url")
    git(bob, "config", f"url.ext::{program}.insteadOf", hub)
    git(bob, "config", "remote.origin.fetch", "+refs/heads/*:refs/heads/*")
    git(bob, "config", "protocol.ext.allow", "always")
    write(bob / ".git/info/attributes", "* merge=evil\n")
    assert (synced(bob).left, canary.exists()) == ("", False)
    assert git(bob, "-c", "core.fsmonitor=false", "rev-parse", "HEAD") == git(
        Path(hub), "rev-parse", "main"
    )


def test_the_users_own_ssh_command_is_used(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, canary = clone(hub, "ada"), tmp_path / "canary"
    git(ada, "remote", "set-url", "origin", "host.invalid:hub.git")
    ssh = write(tmp_path / "ssh.sh", f"#!/bin/sh\necho $* >> {canary}\nexit 1\n")
    ssh.chmod(0o755)
    for way in ("environment", "settings"):
        canary.unlink(missing_ok=True)
        if way == "environment":
            monkeypatch.setenv("GIT_SSH_COMMAND", str(ssh))
        else:
            monkeypatch.delenv("GIT_SSH_COMMAND")
            git(Path.home(), "config", "--global", "core.sshCommand", str(ssh))
        try:
            with pytest.raises(BrokenStore):
                synced(ada)
        finally:
            (Path.home() / ".gitconfig").unlink(missing_ok=True)
        assert "host.invalid" in canary.read_text(), way


def test_a_merge_is_signed_where_the_user_signs(pair: Pair, tmp_path: Path) -> None:
    _, bob = pair
    program = write(
        tmp_path / "gpg.sh",
        "#!/bin/sh\ncat > /dev/null\nprintf '\\n[GNUPG:] SIG_CREATED ' >&2\necho '-----BEGIN PGP SIGNATURE-----'\n"
        "echo x\necho '-----END PGP SIGNATURE-----'\n",
    )
    program.chmod(0o755)
    for key, value in {
        "commit.gpgSign": "true",
        "gpg.program": str(program),
        "user.signingKey": "x",
    }.items():
        git(Path.home(), "config", "--global", key, value)
    try:
        assert synced(bob).left == ""
    finally:
        (Path.home() / ".gitconfig").unlink()
    assert "BEGIN PGP SIGNATURE" in git(bob, "cat-file", "commit", "HEAD")
