"""Sync where something is in the way: it says what, and leaves both sides as they were."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from filemem.errors import BrokenStore
from filemem.memory import Memory
from tests.repo.test_hostile import HOOKS, PROGRAMS
from tests.support import git, sound, write
from tests.system.test_sharing import DECISION, clone, hub
from tests.system.tools import FILEMEM, cli, ok, snapshot

__all__ = ["hub"]


def state(repo: Path) -> tuple[object, ...]:
    """All that must stay as it was."""
    refs = git(repo, "for-each-ref", "refs/heads", "refs/stash", "refs/tags")
    return git(repo, "rev-parse", "HEAD"), refs, git(repo, "diff"), git(repo, "diff", "--cached"), snapshot(repo)


@pytest.fixture
def pair(hub: Path) -> tuple[Path, Path]:
    """Two clones that share one decision; the first has sent an outcome, the second has a save that waits."""
    ada, bob = clone(hub, "ada"), clone(hub, "bob")
    saved = ok(ada, *DECISION, "Use Redis")
    for repo in (ada, bob):
        ok(repo, "sync")
    ok(ada, "update", saved["id"], "--outcome", "failed", "--reason", "slow")
    ok(ada, "sync")
    ok(bob, "save", "checkpoint", "--summary", "x")
    return ada, bob


def staged(repo: Path) -> None:
    write(repo / "new.py", "x\n")
    git(repo, "add", "new.py")


def edited(repo: Path) -> None:
    write(repo / "code.py", "edited\n")


def edited_record(repo: Path) -> None:
    path = next((repo / "memory/decisions").rglob("*.md"))
    path.write_bytes(path.read_bytes() + b"\nBy hand.\n")


def merging(repo: Path) -> None:
    git(repo, "checkout", "-q", "-b", "side", "HEAD~1")
    write(repo / "code.py", "side\n")
    git(repo, "commit", "-q", "-a", "-m", "side")
    git(repo, "checkout", "-q", "main")
    git(repo, "merge", "--no-ff", "--no-commit", "side")


@pytest.mark.parametrize(
    ("begin", "told"),
    [
        (staged, "new.py has changes"),
        (edited, "code.py has changes"),
        (edited_record, ".md has changes"),
        (merging, "a merge is in progress"),
    ],
)
def test_it_only_fetches_where_the_user_is_at_work(
    pair: tuple[Path, Path], begin: Callable[[Path], None], told: str
) -> None:
    _, bob = pair
    begin(bob)
    before = state(bob)
    done = cli(bob, "sync", "--json")
    assert done.code == 1
    assert done.json["left"].startswith("only fetched, because ")
    assert told in done.json["left"]
    assert (done.json["waiting"], done.json["received"]) == (1, 0)
    assert state(bob) == before
    assert git(bob, "rev-list", "--count", "main..origin/main") == "1", "it was fetched"


def test_a_commit_that_touches_code_is_named_and_left_to_the_user(pair: tuple[Path, Path]) -> None:
    _, bob = pair
    write(bob / "code.py", "mine\n")
    git(bob, "commit", "-q", "-a", "-m", "Code of mine")
    commit = git(bob, "rev-parse", "HEAD")
    ok(bob, "save", "checkpoint", "--summary", "y")
    before = state(bob)
    done = cli(bob, "sync")
    assert done.code == 1
    assert f"left to you, because {commit[:10]} touches code.py" in done.out
    assert "pull --rebase" in done.out
    assert state(bob) == before
    git(bob, "pull", "-q", "--rebase")
    assert "push" in cli(bob, "sync").out
    git(bob, "push", "-q")
    assert cli(bob, "sync").code == 0


def test_a_merge_is_not_replayed(pair: tuple[Path, Path]) -> None:
    _, bob = pair
    git(bob, "checkout", "-q", "-b", "side", "HEAD~1")
    ok(bob, "save", "checkpoint", "--summary", "on the side")
    git(bob, "checkout", "-q", "main")
    git(bob, "merge", "-q", "--no-edit", "side")
    before = state(bob)
    assert "is a merge" in cli(bob, "sync").out
    assert state(bob) == before


def test_a_conflict_names_file_and_line_and_changes_nothing(pair: tuple[Path, Path]) -> None:
    ada, bob = pair
    ok(ada, "sync")
    (hit,) = ok(ada, "search", "type:decision")["results"]
    git(bob, "reset", "-q", "--hard", "origin/main")
    ok(bob, "sync")
    ok(ada, "update", hit["id"], "--text", "Ada's reasons.")
    ok(ada, "sync")
    ok(bob, "update", hit["id"], "--text", "Bob's reasons.")
    line = (bob / hit["path"]).read_text().splitlines().index("Bob's reasons.") + 1
    before, there = state(bob), git(bob, "ls-remote", "origin")
    refused = cli(bob, "sync")
    assert refused.code == 5
    assert f"{hit['path']}:{line}: both sides changed this" in refused.err
    assert "pull --rebase" in refused.err
    assert (state(bob), git(bob, "ls-remote", "origin")) == (before, there)
    git(bob, "pull", "-q", "--rebase", ok=False)
    assert "only fetched, because a rebase is in progress" in cli(bob, "sync").out
    assert f"{hit['path']}:" in cli(bob, "check").out, "conflict markers are told with file and line"
    git(bob, "checkout", "-q", "--theirs", hit["path"])
    git(bob, "add", ".")
    git(bob, "rebase", "--continue", GIT_EDITOR="true")
    assert ok(bob, "sync")["sent"] == 1


def test_forgetting_wins_over_what_the_other_side_changed(pair: tuple[Path, Path]) -> None:
    ada, bob = pair
    (hit,) = ok(ada, "search", "type:decision")["results"]
    ok(bob, "sync")
    for forgets, updates in ((ada, bob), (bob, ada)):
        saved = ok(forgets, *DECISION, f"Use what {forgets.name} likes", "--supersedes", hit["id"])
        ok(forgets, "sync")
        ok(updates, "sync")
        ok(updates, "update", saved["id"], "--outcome", "success", "--reason", "fast")
        ok(forgets, "forget", saved["id"])
        for repo in (forgets, updates, forgets):
            ok(repo, "sync")
        for repo in (ada, bob):
            assert not (repo / saved["path"]).exists()
            assert ok(repo, "search", "type:decision is:live")["results"][0]["id"] == hit["id"]
            assert cli(repo, "check").code == 0


def test_a_record_renamed_on_the_other_side_is_followed(pair: tuple[Path, Path]) -> None:
    ada, bob = pair
    (hit,) = ok(ada, "search", "type:decision")["results"]
    ok(bob, "sync")
    git(ada, "pull", "-q")
    git(ada, "mv", hit["path"], "memory/decisions/renamed.md")
    git(ada, "commit", "-q", "-m", "renamed by hand")
    ok(ada, "sync")
    ok(bob, "update", hit["id"], "--outcome", "success", "--reason", "after all")
    ok(bob, "sync")
    found = ok(bob, "get", hit["id"])["results"][0]
    assert (found["path"], found["outcome"]) == ("memory/decisions/renamed.md", "success")
    assert not (bob / hit["path"]).exists()


def test_a_server_side_squash_or_rebase_breaks_nothing(hub: Path) -> None:
    """What a pull request's merge button does: the same content in another commit, and branches rewritten."""
    ada, boss = clone(hub, "ada"), clone(hub, "boss")
    saved = ok(ada, *DECISION, "Use Redis")
    ok(ada, "update", saved["id"], "--outcome", "failed", "--reason", "slow")
    git(ada, "push", "-q", "origin", "main:topic")
    git(boss, "fetch", "-q")
    git(boss, "merge", "-q", "--squash", "origin/topic")
    git(boss, "commit", "-q", "-m", "Squashed (#1)")
    git(boss, "push", "-q")
    ok(ada, "save", "checkpoint", "--summary", "x")
    done = ok(ada, "sync")
    assert (done["received"], done["sent"]) == (1, 1), "what the squash brought is not put on top again"
    assert [entry["reason"] for entry in ok(ada, "get", saved["id"])["results"][0]["reasons"]] == ["slow"]
    git(boss, "pull", "-q")
    git(boss, "commit", "-q", "--amend", "-m", "Rewritten on the server")
    git(boss, "push", "-q", "--force")
    ok(ada, "save", "checkpoint", "--summary", "y")
    assert ok(ada, "sync")["sent"] == 1
    assert git(hub, "log", "-2", "--format=%s", "main").splitlines() == ["checkpoint: y", "Rewritten on the server"]
    assert ok(ada, "status")["records"]["checkpoint"] == 2


def test_what_was_taken_back_on_the_other_side_is_not_brought_there_again(hub: Path) -> None:
    ada, boss = clone(hub, "ada"), clone(hub, "boss")
    saved = ok(ada, "save", "checkpoint", "--summary", "a secret that nobody should have committed")
    ok(ada, "sync")
    ok(ada, "forget", saved["id"])
    git(boss, "push", "-q", "--force", "origin", "HEAD:main")
    ok(ada, "save", "checkpoint", "--summary", "y")
    assert ok(ada, "sync")["sent"] == 2
    subjects = git(hub, "log", "--format=%s", "main").splitlines()
    assert (subjects[0], subjects[2:]) == ("checkpoint: y", ["Begin"]), "the forgetting, and not what was forgotten"
    assert not (ada / saved["path"]).exists()
    write(ada / "code.py", "mine\n")
    git(ada, "commit", "-q", "-a", "-m", "Code")
    git(ada, "push", "-q")
    git(boss, "push", "-q", "--force", "origin", "HEAD:main")
    ok(ada, "save", "checkpoint", "--summary", "z")
    before = state(ada)
    assert "commits were taken back there, and" in cli(ada, "sync").out
    assert state(ada) == before, "code that was withdrawn is the user's matter"


def test_a_file_in_the_way_is_kept(pair: tuple[Path, Path]) -> None:
    ada, bob = pair
    write(ada / "notes.txt", "Ada's\n")
    git(ada, "add", ".")
    git(ada, "commit", "-q", "-m", "notes")
    git(ada, "push", "-q")
    write(bob / "notes.txt", "Bob's, not committed\n")
    before = state(bob)
    refused = cli(bob, "sync")
    assert (refused.code, "notes.txt" in refused.err) == (5, True), refused
    assert state(bob) == before
    (bob / "notes.txt").unlink()
    assert ok(bob, "sync")["sent"] == 1


def test_a_file_that_says_the_same_already_is_not_in_the_way(pair: tuple[Path, Path]) -> None:
    ada, bob = pair
    for name in ("same.txt", "other.txt"):
        write(ada / name, "Ada's\n")
        write(bob / name, "Ada's\n")
    git(ada, "add", ".")
    git(ada, "commit", "-q", "-m", "notes")
    git(ada, "push", "-q")
    write(bob / "other.txt", "Bob's, not committed\n")
    before = state(bob)
    assert "other.txt is in the way" in cli(bob, "sync").err
    assert state(bob) == before
    write(bob / "other.txt", "Ada's\n")
    (bob / "same.txt").chmod(0o755)
    assert ok(bob, "sync")["sent"] == 1
    assert git(bob, "status", "--porcelain") == " M same.txt", "it is still executable"


# the other side


def test_where_there_is_no_other_side(hub: Path, repo: Path) -> None:
    ok(repo, *DECISION, "x")
    alone = cli(repo, "sync")
    assert (alone.code, " remote add origin" in alone.err) == (4, True)
    ada = clone(hub, "ada")
    git(ada, "checkout", "-q", "-b", "feature")
    ok(ada, *DECISION, "x")
    loose = cli(ada, "sync")
    assert (loose.code, " push -u origin feature" in loose.err) == (4, True)
    git(ada, "checkout", "-q", "--detach")
    assert "detached" in cli(ada, "sync").err
    git(ada, "checkout", "-q", "main")
    git(ada, "remote", "rename", "origin", "upstream")
    ok(ada, *DECISION, "y")
    assert ok(ada, "sync")["remote"] == "upstream/main"
    git(ada, "branch", "-q", "--set-upstream-to", "feature")
    assert cli(ada, "sync").code == 4, "a branch of this repository is no other side"


def test_a_branch_that_was_merged_and_removed_is_not_made_anew(hub: Path) -> None:
    ada = clone(hub, "ada")
    git(ada, "checkout", "-q", "-b", "feature")
    git(ada, "push", "-q", "-u", "origin", "feature")
    git(hub, "branch", "-q", "-D", "feature")
    ok(ada, *DECISION, "x")
    told = cli(ada, "sync")
    assert (told.code, "not there any more" in told.out) == (1, True)
    assert git(hub, "branch", "--list", "feature") == ""


def test_who_pushes_to_a_fork_pushes_alone(pair: tuple[Path, Path]) -> None:
    _, bob = pair
    git(bob, "remote", "add", "mine", "../elsewhere.git")
    git(bob, "config", "remote.pushDefault", "mine")
    before = state(bob)
    told = cli(bob, "sync")
    assert (told.code, "is pushed to mine" in told.out) == (1, True)
    assert state(bob) == before


def test_offline_is_normal(hub: Path) -> None:
    ada = clone(hub, "ada")
    hidden = hub.rename(hub.parent / "away.git")
    ok(ada, *DECISION, "Use Redis")
    away = cli(ada, "sync")
    assert (away.code, "saves go on here" in away.err) == (7, True)
    ok(ada, "save", "checkpoint", "--summary", "x")
    hidden.rename(hub)
    assert ok(ada, "sync")["sent"] == 2


@pytest.mark.parametrize("hook", ["pre-receive", "update"])
def test_a_remote_that_refuses_is_quoted(hub: Path, hook: str) -> None:
    ada = clone(hub, "ada")
    write(hub / "hooks" / hook, "#!/bin/sh\necho main is protected >&2\nexit 1\n").chmod(0o755)
    ok(ada, *DECISION, "Use Redis")
    head = git(ada, "rev-parse", "HEAD")
    refused = cli(ada, "sync")
    assert (refused.code, "main is protected" in refused.err) == (7, True)
    assert git(ada, "rev-parse", "HEAD") == head
    more = subprocess.run(shlex.split(refused.err.split("`")[-2]), capture_output=True, text=True, check=False)
    assert (more.returncode, "main is protected" in more.stderr) == (1, True), more
    (hub / "hooks" / hook).unlink()
    assert ok(ada, "sync")["sent"] == 1


def test_nobody_is_asked_for_a_password(hub: Path) -> None:
    """A server that wants one is an error at once, and what stands in an address is not shown."""
    ada = clone(hub, "ada")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            while True:
                try:
                    talk, _ = server.accept()
                except OSError:
                    return
                with talk:
                    talk.recv(4096)
                    talk.sendall(b'HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\n\r\n')

        threading.Thread(target=answer, daemon=True).start()
        git(ada, "remote", "set-url", "origin", f"http://me:hunter2@127.0.0.1:{port}/x.git")
        ok(ada, *DECISION, "Use Redis")
        refused = cli(ada, "sync")
    assert refused.code == 7
    assert "hunter2" not in refused.err
    git(ada, "remote", "set-url", "origin", "http://127.0.0.1:1/x.git")
    assert cli(ada, "sync").code == 7


@pytest.mark.parametrize("url", ["ext::sh -c touch% canary", "-u./evil", "./memory", ".git", "fd::1", "nope::x"])
def test_an_address_that_would_run_something_is_refused(hub: Path, url: str) -> None:
    ada = clone(hub, "ada")
    git(ada, "config", "protocol.ext.allow", "always")
    git(ada, "config", "remote.origin.url", url)
    ok(ada, *DECISION, "Use Redis")
    assert cli(ada, "sync").code == 7
    assert not list(ada.rglob("canary"))


def test_nothing_that_the_repository_names_runs(pair: tuple[Path, Path], tmp_path: Path) -> None:
    _, bob = pair
    canary = tmp_path / "canary"
    program = write(tmp_path / "evil.sh", f"#!/bin/sh\necho $0 $* >> {canary}\ncat\n")
    program.chmod(0o755)
    for key in (*PROGRAMS, "remote.origin.receivepack", "remote.origin.vcs", "core.sshCommand"):
        if not key.startswith("filter."):
            git(bob, "config", key, str(program))
    git(bob, "config", "core.hooksPath", str(bob / ".git/evil-hooks"))
    git(bob, "config", "remote.origin.fetch", "+refs/heads/*:refs/heads/*")
    git(bob, "config", "remote.origin.mirror", "true")
    git(bob, "config", "push.default", "matching")
    git(bob, "config", f"url.ext::{program}.insteadOf", "/")
    for hook in (*HOOKS, "pre-push"):
        write(bob / ".git/evil-hooks" / hook, f"#!/bin/sh\necho {hook} >> {canary}\n").chmod(0o755)
    write(bob / ".git/info/attributes", "* diff=evil merge=evil\n")
    branches = git(bob, "for-each-ref", "refs/heads", "--format=%(refname)")
    done = ok(bob, "sync")
    assert (done["received"], done["sent"]) == (1, 1)
    assert git(bob, "for-each-ref", "refs/heads", "--format=%(refname)") == branches
    assert not canary.exists(), canary.read_text()
    ok(bob, "save", "checkpoint", "--summary", "y")
    for key in ("smudge", "clean", "process"):
        git(bob, "config", f"filter.evil.{key}", str(program))
    write(bob / ".git/info/attributes", "* filter=evil\n")
    (bob / "code.py").touch()
    assert "filter.evil" in cli(bob, "sync").out
    assert not canary.exists(), canary.read_text()


def test_the_users_own_ssh_command_is_used(hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = clone(hub, "ada")
    log = tmp_path / "ssh.log"
    ssh = write(tmp_path / "ssh.sh", f'#!/bin/sh\necho "$@" >> {log}\nshift $(($# - 1))\neval "$1"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(ssh))
    for url in (f"ssh://example.com{hub}", f"git@example.com:{hub}"):
        git(ada, "remote", "set-url", "origin", url)
        ok(ada, "save", "checkpoint", "--summary", url)
        assert ok(ada, "sync")["sent"] == 1
    assert "git@example.com" in log.read_text()


def test_a_remote_that_never_answers_is_given_up(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("filemem.repo.remote.LIMIT", 1.0)
    ada = clone(hub, "ada")
    with socket.create_server(("127.0.0.1", 0)) as server, Memory.open(ada) as memory:
        git(ada, "remote", "set-url", "origin", f"git://127.0.0.1:{server.getsockname()[1]}/x.git")
        with pytest.raises(BrokenStore, match="no answer in 1 seconds"):
            memory.sync()
        assert memory.save(summary="goes on").commit


def test_a_silent_remote_is_named_and_given_up_soon(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("filemem.repo.remote.SILENCE", 1.5)
    monkeypatch.setattr("filemem.repo.patience.NOTED", 0.1)
    ada = clone(hub, "ada")
    with socket.create_server(("127.0.0.1", 0)) as server:
        git(ada, "remote", "set-url", "origin", f"http://me:hunter2@127.0.0.1:{server.getsockname()[1]}/x.git")
        silent = cli(ada, "sync")
    assert (silent.code, "no answer in 1.5 seconds" in silent.err) == (7, True), silent
    assert silent.err.startswith("waiting for origin (http://me:...@127.0.0.1:")


def test_what_sync_has_started_ends_with_it(hub: Path) -> None:
    ada = clone(hub, "ada")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        git(ada, "remote", "set-url", "origin", f"http://127.0.0.1:{server.getsockname()[1]}/x.git")
        with subprocess.Popen([FILEMEM, "sync"], cwd=ada) as syncing:
            talk, _ = server.accept()
            with talk:
                talk.settimeout(60)
                syncing.terminate()
                assert syncing.wait(60) == 128 + signal.SIGTERM
                while talk.recv(4096):  # ends when nobody holds the other end any more
                    pass
    assert not (ada / ".git/filemem/sync/git").exists()


def test_what_is_new_on_an_empty_other_side(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "hub.git")
    git(tmp_path, "clone", "-q", "hub.git", "ada")
    ada = tmp_path / "ada"
    git(ada, "config", "user.name", "Ada")
    git(ada, "config", "user.email", "ada@example.com")
    assert cli(ada, "sync").code == 0, "nothing on either side"
    ok(ada, *DECISION, "Use Redis")
    assert ok(ada, "sync")["sent"] == 1
    assert sound(tmp_path / "hub.git")


def test_syncs_of_one_clone_take_turns(hub: Path) -> None:
    ada = clone(hub, "ada")
    ok(ada, *DECISION, "Use Redis")
    told: list[int] = []

    def share() -> None:
        with Memory.open(ada) as memory:
            told.append(memory.sync().sent)

    threads = [threading.Thread(target=share) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(told) == [0, 0, 1]
    assert not os.path.exists(ada / ".git/filemem/sync/git")  # noqa: PTH110


def test_a_signed_commit_is_signed_again(pair: tuple[Path, Path], tmp_path: Path) -> None:
    _, bob = pair
    gpg = write(
        tmp_path / "gpg",
        "#!/bin/sh\ncat > /dev/null\nprintf '\\n[GNUPG:] SIG_CREATED \\n' >&2\n"
        "printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nx\\n-----END PGP SIGNATURE-----\\n'\n",
    )
    gpg.chmod(0o755)
    git(bob, "config", "--global", "commit.gpgSign", "true")
    git(bob, "config", "--global", "gpg.program", str(gpg))
    try:
        ok(bob, "sync")
    finally:
        git(bob, "config", "--global", "--unset", "commit.gpgSign")
        git(bob, "config", "--global", "--unset", "gpg.program")
    raw = git(bob, "cat-file", "commit", "HEAD")
    assert "gpgsig -----BEGIN PGP SIGNATURE" in raw
    assert "author bob <bob@example.com>" in raw


def test_a_branch_that_follows_one_of_another_name_is_not_pushed_there(pair: tuple[Path, Path]) -> None:
    ada, bob = pair
    git(bob, "fetch", "-q")
    git(bob, "switch", "-q", "-c", "feat", "origin/main")
    ok(bob, *DECISION, "Not reviewed yet")
    before, there = state(bob), git(ada, "ls-remote", "origin")
    told = cli(bob, "sync")
    assert (told.code, f"git -C {bob} push -u origin feat" in told.out) == (1, True), told
    assert (state(bob), git(ada, "ls-remote", "origin")) == (before, there)
    git(bob, "config", "push.default", "upstream")
    assert ok(bob, "sync")["sent"] == 1, "the user wants just that"
    git(bob, "config", "--unset", "push.default")
    git(bob, "push", "-q", "-u", "origin", "feat")
    ok(bob, "save", "checkpoint", "--summary", "y")
    assert ok(bob, "sync")["remote"] == "origin/feat"


@pytest.mark.parametrize("begin", [edited, staged])
def test_what_it_advises_to_who_edits_works(pair: tuple[Path, Path], begin: Callable[[Path], None]) -> None:
    _, bob = pair
    begin(bob)
    hint = cli(bob, "sync", "--json").json["hint"]
    before = git(bob, "diff", "HEAD")
    subprocess.run(hint.partition("; or ")[2].split(), check=True, capture_output=True)
    assert git(bob, "diff", "HEAD") == before
    assert git(bob, "rev-list", "--count", "main..origin/main") == "0"


def test_what_was_changed_in_a_forgotten_record_is_told(pair: tuple[Path, Path]) -> None:
    ada, bob = pair
    (hit,) = ok(ada, "search", "type:decision")["results"]
    ok(bob, "sync")
    ok(ada, "forget", hit["id"])
    ok(ada, "sync")
    ok(bob, "update", hit["id"], "--outcome", "success", "--reason", "Bob's own words")
    done = ok(bob, "sync")
    assert (done["merged"], done["forgotten"]) == ([], [hit["path"]])
    assert "went with it" in done["message"]
    show, _, restore = done["hint"].partition(" tells what was changed, ")
    assert "Bob's own words" in subprocess.run(show.split(), check=True, capture_output=True, text=True).stdout
    assert restore.startswith(f"filemem restore {hit['id']} ")
    ok(bob, "restore", hit["id"])
    assert (bob / hit["path"]).exists()


def test_a_file_removed_on_one_side_names_both(pair: tuple[Path, Path]) -> None:
    ada, bob = pair
    (hit,) = ok(ada, "search", "type:decision")["results"]
    ok(bob, "sync")
    ok(ada, "sync")
    git(ada, "rm", "-q", hit["path"])
    git(ada, "commit", "-q", "-m", "Tidy")
    git(ada, "push", "-q")
    ok(bob, "update", hit["id"], "--outcome", "success", "--reason", "fast")
    tips = git(ada, "rev-parse", "HEAD")[:10], git(bob, "rev-parse", "HEAD")[:10]
    refused = cli(bob, "sync")
    assert refused.code == 5
    assert f"{hit['path']}:1: removed there and changed here (there {tips[0]}, here {tips[1]})" in refused.err


def test_an_address_that_is_a_relative_path_counts_from_the_project(hub: Path) -> None:
    ada = clone(hub, "ada")
    git(ada, "config", "remote.origin.url", "../hub.git")
    ok(ada, "init", "--own-branch")
    assert ok(ada, "sync")["sent"] == 1
    git(ada, "config", "remote.origin.url", "./memory")
    assert "a folder of this repository itself" in cli(ada, "sync").err


def test_a_memory_on_a_detached_head_is_told_as_what_it_is(hub: Path) -> None:
    ada = clone(hub, "ada")
    ok(ada, "init", "--own-branch")
    ok(ada, *DECISION, "Use Redis")
    ok(ada, "sync")
    git(ada / "memory", "checkout", "-q", "--detach")
    assert ok(ada, "status")["unshared"] == 0
    assert f"git -C {ada / 'memory'} switch filemem" in cli(ada, "sync").err


def test_a_push_that_goes_elsewhere_is_not_taken_for_shared(hub: Path) -> None:
    """Two addresses of one repository are as good as one; those of two are told, and nobody took anything back."""
    ada, other = clone(hub, "ada"), hub.parent / "other.git"
    git(hub.parent, "clone", "-q", "--bare", str(hub), str(other))
    git(ada, "config", "remote.origin.pushurl", f"file://{hub}")
    ok(ada, *DECISION, "Use Redis")
    assert (ok(ada, "sync")["sent"], ok(ada, "sync")["left"]) == (1, "")
    git(ada, "push", "-q", str(other), "main")
    git(ada, "config", "remote.origin.pushurl", str(other))
    ok(ada, "save", "checkpoint", "--summary", "x")
    for _ in range(2):
        done = cli(ada, "sync")
        assert (done.code, "remote.origin.pushurl leads elsewhere" in done.out) == (1, True), done
        assert "taken back" not in done.out
    git(ada, "config", "--unset", "remote.origin.pushurl")
    done = ok(ada, "sync")
    assert (done["sent"], done["left"]) == (1, "")
