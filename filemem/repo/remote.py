"""Fetch, push, and Git's own merge without a work tree. Never by force.

Rule: GitPython's command layer runs Git in a bare scratch repository that borrows our objects. So
of this repository's own configuration only the address counts: no programs, refspecs, drivers,
attributes or hooks. The user's own holds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import BrokenStore, Conflict
from filemem.repo.objects import build_commit, publish_objects
from filemem.repo.run import SAFE_SETTINGS, GitError, require_version

if TYPE_CHECKING:
    from types import ModuleType

    from git import Git as Verbs

    from filemem.repo import Repo

LIMIT = 600.0  # seconds for one call
_CLEARED_VARIABLES = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
)
# The user's own values apply to these:
_USER_SETTINGS = ("core.sshCommand", "credential.helper")
_NETWORK_SETTINGS = (
    *(option for option in SAFE_SETTINGS if not option.startswith(_USER_SETTINGS)),
    *(f"protocol.{name}.allow=always" for name in ("file", "git", "http", "https", "ssh")),
    *("http.lowSpeedLimit=1", "http.lowSpeedTime=60"),
)
_FETCH_OPTIONS = ("--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--refmap=")
_PUSH_OPTIONS = ("--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no")
_RACE_MESSAGES = (
    "fetch first",
    "non-fast-forward",
    "stale info",
    "cannot lock ref",
    "incorrect old value",
    "failed to update",
)
_MERGE_SETTINGS = (
    *SAFE_SETTINGS,
    f"core.attributesFile={os.devnull}",
    "merge.default=text",
    "core.fsync=all",
    "merge.directoryRenames=false",  # a month whose only file was renamed takes no new one along
)
_STAGES = {"1": "base", "2": "ours", "3": "theirs"}


@contextmanager
def scratch_repository(
    repo: Repo, refs: Iterable[str] = (), *, settings: Sequence[str] = SAFE_SETTINGS
) -> Iterator[Verbs]:
    """Make a bare repository with our objects and nothing else of ours, for a while."""
    from tempfile import TemporaryDirectory

    git = _load_gitpython(repo)
    repo.shared_folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="git-", dir=repo.shared_folder) as name:
        folder = Path(name)
        _fill_repository(repo, folder, refs)
        command = git.Git(name)
        fixed_options = {"no_pager": True, "literal_pathspecs": True, "no_replace_objects": True}
        command.set_persistent_git_options(c=list(settings), git_dir=name, **fixed_options)
        command.update_environment(**_build_variables(repo, folder))
        yield command


def _fill_repository(repo: Repo, folder: Path, refs: Iterable[str]) -> None:
    """Write the files of a scratch repository."""
    import shutil  # with its archives: `status` reads the settings here and makes nothing

    (folder / "refs").mkdir()
    (folder / "HEAD").write_text("ref: refs/heads/none\n")
    config = "[core]\nrepositoryformatversion = 1\nbare = true\n"
    if repo.hash_name == "sha256":
        config += "[extensions]\nobjectformat = sha256\n"
    (folder / "config").write_text(config)
    rows = [f"{oid} refs/known/{n}\n" for n, oid in enumerate(refs)]
    (folder / "packed-refs").write_text("".join(rows))
    if (repo.common_dir / "shallow").is_file():
        shutil.copyfile(repo.common_dir / "shallow", folder / "shallow")


def _build_variables(repo: Repo, folder: Path) -> dict[str, str]:
    """Build the environment variables for Git in a scratch repository."""
    # GitPython passes its own environment on: what would lead to another repository is emptied.
    environment = repo.git.environment
    variables = {name: "" for name in _CLEARED_VARIABLES if name in os.environ}
    variables |= {name: environment[name] for name in environment if name.startswith("GIT_")}
    program_folder = str(Path(repo.git.program).parent)
    variables["PATH"] = os.pathsep.join((program_folder, environment["PATH"]))
    variables["GIT_OBJECT_DIRECTORY"] = str(repo.common_dir / "objects")
    variables["GIT_COMMON_DIR"] = str(folder)
    variables["GIT_INDEX_FILE"] = str(folder / "index")
    variables["GIT_CONFIG_COUNT"] = "0"
    return variables


def _load_gitpython(repo: Repo) -> ModuleType:
    """Load GitPython, to run the Git that we found, not the first on the search path."""
    os.environ["GIT_PYTHON_REFRESH"] = "quiet"
    os.environ["GIT_PYTHON_GIT_EXECUTABLE"] = repo.git.program
    import git

    git.Git.GIT_PYTHON_GIT_EXECUTABLE = repo.git.program  # where it was imported before
    return git


def run_verb(command: Verbs, verb: str, *arguments: str) -> str:
    """Run one verb, and return its output without the final newline. Raises GitError."""
    import git

    run = getattr(command, verb)
    try:
        return str(run(*arguments, kill_after_timeout=LIMIT))
    except git.GitCommandError as error:
        code = error.status if isinstance(error.status, int) else -1
        text = str(error.stderr).strip().removeprefix("stderr: '").removesuffix("'")
        raise GitError(verb, code, text) from None


# the other side


class Remote(NamedTuple):
    """A branch on the other side."""

    name: str  # of the remote repository, as configured here
    branch: str
    url: str
    push_url: str

    @property
    def label(self) -> str:
        """The branch as people call it: remote and name."""
        return f"{self.name}/{self.branch}"

    @property
    def tracking_ref(self) -> str:
        """The reference that remembers where the branch was."""
        return f"refs/remotes/{self.label}"


class RaceConflict(Conflict):
    """Another process was faster, here or on the other side."""


def _find_remote(repo: Repo, name: str, branch: str) -> Remote | None:
    url = repo.settings.get_text(f"remote.{name}.url")
    push_url = repo.settings.get_text(f"remote.{name}.pushurl")
    return Remote(name, branch, url, push_url or url) if url else None


def find_default_remote(repo: Repo, branch: str) -> Remote | None:
    """Find the branch of the same name on the only remote, or else on `origin`."""
    names = []
    for key in repo.settings.values:
        name = key.removeprefix("remote.").removesuffix(".url")
        if key == f"remote.{name}.url":
            names.append(name)
    remote_name = names[0] if len(names) == 1 else "origin"
    return _find_remote(repo, remote_name, branch)


def find_upstream(repo: Repo, branch: str) -> Remote | None:
    """Find the branch that a branch follows; None if it follows none, or one of this repository."""
    name = repo.settings.get_text(f"branch.{branch}.remote")
    ref = repo.settings.get_text(f"branch.{branch}.merge")
    if not name or not ref.startswith("refs/heads/"):
        return None
    return _find_remote(repo, name, ref.removeprefix("refs/heads/"))


def set_upstream(repo: Repo, branch: str, remote: Remote) -> None:
    """Make a branch follow one on the other side, as `git push -u` does."""
    repo.git.run("config", f"branch.{branch}.remote", remote.name)
    repo.git.run("config", f"branch.{branch}.merge", f"refs/heads/{remote.branch}")


def fetch_branch(repo: Repo, remote: Remote, known_commits: Iterable[str]) -> str | None:
    """Bring the objects of a branch here, and return its tip; None if there is no such branch.

    `known_commits` are here already: only newer ones are sent. Raises BrokenStore if the remote
    cannot be reached.
    """
    url = _resolve_url(repo, remote.url)
    spec = f"+refs/heads/{remote.branch}:refs/fetched"
    with scratch_repository(repo, known_commits, settings=_NETWORK_SETTINGS) as git:
        try:
            run_verb(git, "fetch", *_FETCH_OPTIONS, "--", url, spec)
        except GitError as error:
            if "couldn't find remote ref" in error.stderr:
                return None
            raise _build_refusal(repo, remote, error) from None
        return run_verb(git, "rev_parse", "--verify", "refs/fetched")


def push_commit(repo: Repo, remote: Remote, commit: str) -> None:
    """Make a commit the tip of a remote branch.

    Raises RaceConflict if the branch moved, BrokenStore if the push was refused.
    """
    url = _resolve_url(repo, remote.push_url)
    spec = f"{commit}:refs/heads/{remote.branch}"
    with scratch_repository(repo, settings=_NETWORK_SETTINGS) as git:
        try:
            run_verb(git, "push", *_PUSH_OPTIONS, "--", url, spec)
        except GitError as error:
            if any(word in error.stderr for word in _RACE_MESSAGES):
                raise RaceConflict(f"{remote.label} has moved on", "sync again") from None
            raise _build_refusal(repo, remote, error) from None


def _resolve_url(repo: Repo, url: str) -> str:
    """Return the address for Git; a relative path is relative to the top of the work tree.

    Raises BrokenStore.
    """
    if not url.isprintable() or url.startswith("-"):
        message = f"not the address of a repository: {url[:200]!r}"
        raise BrokenStore(message, "git remote set-url corrects it")
    local = url.removeprefix("file://")
    # Git's own rule: `host:path` is another machine.
    first_part, _, _ = local.partition("/")
    if "://" in local or ":" in first_part:
        return url
    return str(Path(repo.work_tree, local).resolve())


def _build_refusal(repo: Repo, remote: Remote, error: GitError) -> BrokenStore:
    """Build the error that Git reported: without passwords, and without hints to use force."""
    rows: dict[str, None] = {}  # in order, each once
    for line in error.stderr.splitlines():
        row = re.sub(r"^(remote|fatal|error): ", "", line.strip())
        if row and not row.startswith(("hint:", "To ", "From ")):
            rows[row] = None
    reason = "; ".join(list(rows)[:4]) or f"exit status {error.code}"
    message = f"{remote.name} ({remote.url}): {reason}"
    message = re.sub(r"(//[^/@:\s]*):[^/@\s]*@", r"\1:...@", message)
    hint = (
        "saves go on here, and the next `filemem sync` catches up;"
        f" `{repo.git.folders.command_prefix} fetch` shows more"
    )
    return BrokenStore(message, hint)


# merging


class Clash(NamedTuple):
    """A file that Git cannot merge: its blob ids in the three versions, "" for no file."""

    path: str
    base: str = ""
    ours: str = ""
    theirs: str = ""


def merge_commits(
    repo: Repo, ours: str, theirs: str, *, allow_unrelated: bool = False
) -> tuple[str, tuple[Clash, ...]]:
    """Merge two commits; return the tree and the files that clash.

    Raises Conflict if they have no common history, unless `allow_unrelated`; BrokenStore if Git is
    too old.
    """
    require_version(repo.git, (2, 38))
    options = ["--write-tree", "-z", "--no-messages"]
    if allow_unrelated:
        options.append("--allow-unrelated-histories")
    with scratch_repository(repo, settings=_MERGE_SETTINGS) as git:
        status, output, refusal = git.merge_tree(
            *options,
            ours,
            theirs,
            with_extended_output=True,
            with_exceptions=False,
            stdout_as_string=False,
        )
    if status > 1:
        if "unrelated histories" in refusal:
            raise Conflict("the two have no history in common", "merge them with Git itself")
        raise GitError("merge-tree", status, refusal)
    tree, _, listing = output.decode("utf-8", "surrogateescape").partition("\0")
    clashes: dict[str, dict[str, str]] = {}
    for row in listing.split("\0"):
        head, tab, path = row.partition("\t")
        if not tab:
            continue
        _, oid, stage = head.split(" ")
        # Git adds the commit to a name if the other side has a folder there.
        name = path.removesuffix(f"~{ours}").removesuffix(f"~{theirs}")
        sides = clashes.setdefault(name, {})
        sides[_STAGES[stage]] = oid
    return tree.strip(), tuple(Clash(path, **sides) for path, sides in clashes.items())


def commit_files(
    repo: Repo,
    tree: str,
    files: Mapping[str, bytes | None],
    parents: Sequence[str],
    text: str,
    timestamp: int,
) -> str:
    """Make a commit of a tree ("": empty) with some files replaced; None removes one.

    The other arguments and the errors are those of `objects.build_commit`.
    """
    tree, new_objects = repo.objects.splice_tree(tree, files)
    publish_objects(new_objects)
    commit = build_commit(repo, tree, parents, text, timestamp)
    publish_objects([commit])
    return commit.oid
