"""What takes a removed record out of Git's history for good: commands for the user, who decides, and never for us.

Rule: they are one chain, so that nothing goes on after a step that failed. They rewrite branches and tags alone, and
leave stashes as they are. `git filter-branch` refuses to work beside edits, and a stash would keep the old history:
so here it works in an empty work tree of its own. On the other side only that is replaced which is as it was.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filemem.memory import home
from filemem.memory.versions import Versions
from filemem.repo import worktrees

if TYPE_CHECKING:
    from filemem.memory.store import Store


class Purge(NamedTuple):
    """How to take a record out of history.

    Args:
        warnings: what to know before, a sentence each.
        steps: the commands, each but the last ending with `&&`.
    """

    warnings: tuple[str, ...]
    steps: tuple[str, ...]


# What a message says of a record goes; trailers stay, for they tie the commit to others.
_MESSAGE = (
    'awk \'{ row[NR] = $0 } index($0, "Filemem-Id: %s") { ours = 1 } END { for (n = 1; n <= NR; n++) '
    'if (!ours || (n > 1 && row[n] ~ /^$|^[A-Z][A-Za-z-]*: /)) print row[n]; else if (n == 1) print "purged" }\''
)
_ALL = "--branches --tags"
_BEFORE = "refs/purge"  # below it, the commits of the branches and tags that were rewritten, of tag objects too
_OLD = "%(refname:lstrip=2)"  # of a ref there: the branch or tag
_KEPT = "../purge.tags"  # the tags as they were: filter-branch also makes those anew whose commits stayed the same
_LEASE = "--force-with-lease="
_ELSEWHERE = "other commits whose messages or files quote it keep that: git log --all --grep=WORD"
_HERE = (
    "every branch and tag that had it is rewritten, and commits that none of them holds are lost (what was amended or "
    "reset): make a copy of the repository first",
    _ELSEWHERE,
    "in the end each version of it must be `missing`; for one that is `still here`, "
    "git log --all --reflog --find-object=ID tells where",
)
_STASHES = "stashes are left alone, and those made while it was there keep it: git stash list"
_THERE = (
    "they work in a fresh clone, purge.git; every branch and tag there that had it is replaced, all or none: where "
    "somebody pushed to one meanwhile, nothing is: remove purge.git and start again",
    _ELSEWHERE,
    "clones made before keep it, yours too: tell everybody to clone anew, and not to merge what they have",
    "the host may keep it until it collects garbage: ask there",
)


def steps(store: Store, path: str, record_id: str) -> Purge:
    """Work out what takes a record out of history: on the other side where it was pushed, here where it was not.

    Args:
        store: the parts.
        path: of the record, store-relative.
        record_id: its id, by which the messages of its commits are found.
    """
    named = store.files.named(path)
    log = store.repo.history.logs({named: ""}, Versions(store))[named]  # before it was brought back, too
    paths = sorted({revision.path for revision in log} | {named})
    taken = tuple(_taken(store, paths, named))
    sharing, branch = store.repo.sharing, store.repo.branch() or ""
    name = sharing.upstream(branch) or sharing.usual(branch)
    own = store.files.store == home.TOP
    first = store.repo.history.first(paths, "--remotes")
    if name is not None and first:
        lease = f"git for-each-ref --format='%(refname) {_LEASE}%(refname):%(objectname)' refs/heads refs/tags"
        had = f"git for-each-ref --format=' {_LEASE}{_OLD}:' {_BEFORE}"
        there = (
            f"git clone --bare {shlex.quote(name.push_url)} purge.git && cd purge.git",
            f"{lease} >leases",
            _rewrite(paths, record_id, _having(first) if own else _ALL, first),
            f"{had} | grep -Ff - leases | tr ' \\n' '\\0\\0' | xargs -0 git push --atomic origin",
            "cd .. && rm -rf purge.git",
        )
        return Purge((*taken, *_THERE), _chained(there))
    first = store.repo.history.first(paths, *([f"refs/heads/{branch}"] if own else _ALL.split()))
    versions = dict.fromkeys(blob for one in log for blob in (one.blob, one.old) if blob)
    beside = shlex.quote(str(store.repo.shared / "purge"))
    here = (
        f"cd {shlex.quote(str(store.repo.work_tree))} && rm -rf {beside}",
        f"git worktree add -q -f --detach {beside} $(git commit-tree -m purge $(git mktree </dev/null))",
        f"cd {beside}",
        f"git for-each-ref --format='update %(refname) %(objectname)' refs/tags >{_KEPT}",
        _rewrite(paths, record_id, _having(first) if own else _ALL, first),
        f"git for-each-ref --format='update {_OLD} ' {_BEFORE} | grep -vFf - {_KEPT} | git update-ref --stdin",
        f"git for-each-ref --format='delete %(refname)' {_BEFORE} | git update-ref --stdin",
        f"rm {_KEPT} && cd {shlex.quote(str(store.repo.work_tree))} && git worktree remove {beside}",
        *(f"git -C {shlex.quote(str(tree))} {_removing('-f', paths)}" for tree in _other_trees(store) if not own),
        f"rm -rf {' '.join(shlex.quote(str(folder)) for folder in _copies(store))}",
        # Unlike `git reflog expire`, gc spares the stash, whose entries are nothing but its reflog.
        "git -c gc.reflogExpireUnreachable=now gc -q --prune=now",
        f"printf '%s\\n' {' '.join(versions)} | git cat-file --batch-check='%(objectname) is still here'",
    )
    stashes = (_STASHES,) if store.repo.objects.read("refs/stash") else ()
    return Purge((*taken, *_HERE, *stashes), _chained(here))


def _taken(store: Store, paths: Sequence[str], named: str) -> Iterator[str]:
    """Say which names of the record are another's by now: the commands go by names alone."""
    for path in store.repo.index.entries([path for path in paths if path != named]):
        yield f"{path} was its name and is another record's now, which they would take too: git mv that first"


def _other_trees(store: Store) -> Iterator[Path]:
    """The other work trees of the repository: the index of each may hold the record, and would bring it back."""
    common = store.repo.common_dir
    trees = [common.parent] if common.name == ".git" else []
    trees += [tree for tree, _ in worktrees.linked(store.repo.places)]
    return (tree for tree in trees if tree.resolve() != store.repo.work_tree.resolve())


def _copies(store: Store) -> list[Path]:
    """The folders of ours, of all work trees, that hold texts of records: all of it is derived."""
    common = store.repo.common_dir
    found = {store.index.root, *common.glob("filemem/index"), *common.glob("worktrees/*/filemem/index")}
    return [store.repo.shared / "recent", *sorted(one for one in found if found.isdisjoint(one.parents))]


def _removing(how: str, paths: Sequence[str]) -> str:
    return f"--literal-pathspecs rm -q {how} --ignore-unmatch -- {' '.join(map(shlex.quote, paths))}"


def _rewrite(paths: Sequence[str], record_id: str, refs: str, first: str) -> str:
    """Take paths out of the commits of some refs, from the first one that has them on: those before stay as they are,
    signatures and all."""
    remove = f"git {_removing('--cached', paths)}"
    unsaid = _MESSAGE % record_id
    return (
        f"FILTER_BRANCH_SQUELCH_WARNING=1 git filter-branch -f --original {_BEFORE} --tag-name-filter cat "
        f"--index-filter {shlex.quote(remove)} --msg-filter {shlex.quote(unsaid)} "
        f"-- {refs} --not {shlex.quote(f'{first}^@')}"
    )


def _having(first: str) -> str:
    """What the shell makes the branches and tags of that have a commit: none of the code, where memory has its own."""
    return f"$(git for-each-ref --contains {first} --format='%(refname)' refs/heads refs/tags)"


def _chained(commands: Sequence[str]) -> tuple[str, ...]:
    return (*(f"{one} &&" for one in commands[:-1]), commands[-1])
