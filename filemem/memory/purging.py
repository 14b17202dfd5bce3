"""What takes a removed record out of Git's history for good: commands for the user, who decides, and never for us.

Rule: they are one chain, so that nothing goes on after a step that failed. They rewrite branches and tags alone, and
leave stashes as they are. `git filter-branch` refuses to work beside edits, and a stash would keep the old history:
so here it works in an empty work tree of its own. On the other side only that is replaced which is as it was.

What would be left is never passed over: without all of history there are no commands, and they look for what they left
before they end.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filemem.files import is_record
from filemem.memory import home, unsaying
from filemem.repo import worktrees
from filemem.repo.git import GitError

if TYPE_CHECKING:
    from filemem.memory.store import Store
    from filemem.repo.lives import Revision
    from filemem.repo.remote import Remote


class Purge(NamedTuple):
    """How to take a record out of history.

    Args:
        warnings: what to know before, a sentence each.
        steps: the commands, each but the last ending with `&&`; none where this clone does not show all that had it.
    """

    warnings: tuple[str, ...]
    steps: tuple[str, ...]


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
_SHALLOW = "history is shallow, so what it was called before, and where else it is, is not known here: "
_SHALLOW += "git fetch --unshallow brings it"
_PARTIAL = "this partial clone lacks older versions, so what it was called in them is not known here: "
_PARTIAL += "git fetch --refetch --no-filter brings them"
_SINGLE = "this clone follows not every branch of {0}, so what it is called on the others is not known here: "
_SINGLE += "git remote set-branches {0} '*' && git fetch {0} brings them"
_OTHERS = "the commands are for {0} alone: {1} has it too, and keeps it until the same is done there"
_AGAIN = "; then filemem restore {id} and filemem forget {id} print the commands that take it out of history"
_LEFT_HERE = (
    "what is named above came under a name or in a text that these commands did not know: on a branch that "
    "git branch -a --contains COMMIT names, filemem forget {id} prints the commands that do"
)
_LEFT_THERE = (
    "what is named above came under a name or in a text that these commands did not know, and nothing was pushed: "
    "remove purge.git, git fetch in your clone, then filemem restore {id} and filemem forget {id} print those that do"
)
_THERE = (
    "the commands work in a fresh clone, purge.git; every branch and tag there that had it is replaced, all or none: "
    "where somebody pushed to one meanwhile, nothing is: remove purge.git and start again",
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
    if lacking := _lacking(store):
        return Purge((lacking + _AGAIN.format(id=record_id),), ())
    log = store.repo.history.logs({named: ""}, store.versions())[named]  # before it was brought back, too
    versions, paths = _had(store, record_id, {named}, log)
    branch, own = store.repo.branch() or "", store.files.store == home.TOP
    there, first = _shared(store, branch, paths)
    if not there:
        first = store.repo.history.first(paths, *([f"refs/heads/{branch}"] if own else _ALL.split()))
    cut = store.repo.history.boundary()
    if cut and (there or not cut.isdisjoint(store.repo.history.touching(paths))):
        return Purge((_SHALLOW + _AGAIN.format(id=record_id),), ())
    if single := next((one for one in there if not store.repo.sharing.follows_all(one.name)), None):
        return Purge((_SINGLE.format(shlex.quote(single.name)) + _AGAIN.format(id=record_id),), ())
    taken = tuple(_taken(store, paths, named))
    told = unsaying.subjects(store.repo.history, record_id)
    unsaid = unsaying.unsaid(record_id, told)
    rewrite = _rewrite(paths, unsaid, _having(first) if own else _ALL, first)
    quoted = () if own else told  # the code's branches stay as they are
    left = _left(versions, record_id, quoted, (_LEFT_THERE if there else _LEFT_HERE).format(id=shlex.quote(record_id)))
    if there:
        one, *others = there
        more = (_OTHERS.format(one.name, " and ".join(each.name for each in others)),) if others else ()
        return Purge((*taken, *more, *_THERE), _chained(_there(one.push_url, rewrite, left)))
    stashes = (_STASHES,) if store.repo.objects.read("refs/stash") else ()
    removing = () if own else tuple(_other_trees(store))
    return Purge((*taken, *_HERE, *stashes), _chained(_here(store, paths, versions, removing, rewrite, left)))


def _shared(store: Store, branch: str, paths: Sequence[str]) -> tuple[list[Remote], str]:
    """The other sides that have a record, the one that a branch follows first, and the commit that brought it there."""
    sharing, history = store.repo.sharing, store.repo.history
    usual = sharing.upstream(branch) or sharing.usual(branch)
    named = [one for name in sharing.remotes if (one := sharing.named(name, branch))]
    sides = sorted(named, key=lambda one: usual is None or one.name != usual.name)
    firsts = {one: first for one in sides if (first := history.first(paths, f"--remotes={one.name}"))}
    return list(firsts), next(iter(firsts.values()), "")


def _lacking(store: Store) -> str:
    """Why it cannot be told here what a record was called everywhere: a partial clone lacks versions; else ""."""
    if not store.repo.partial():
        return ""
    try:
        return _PARTIAL if store.repo.history.absent(store.files.store) else ""
    except GitError:  # not even the trees are here that would tell
        return _PARTIAL


def _had(store: Store, record_id: str, named: set[str], log: Sequence[Revision]) -> tuple[list[str], list[str]]:
    """Every version of a record on any branch or tag, and every name under which one of them stood.

    Args:
        store: the parts.
        record_id: its id: who states it is taken for the record, wherever it stands.
        named: the names that are known, from the top of the work tree.
        log: its versions as this branch has them.
    """
    same = store.versions()
    rows = [row for _, found in store.repo.history.everywhere(store.files.store) for row in found]
    same.know(blob for row in rows for blob in (row.old, row.new))
    ends = {end for row in rows for end in ((row.before, row.old), (row.path, row.new))}
    found = {end for one in log for end in ((one.path, one.blob), (one.before, one.old))}
    found |= {(path, blob) for path, blob in ends if same.stated(path, blob) == record_id}
    links = [((row.before, row.old), (row.path, row.new)) for row in rows if row.status in "MR"]
    news = found
    while news:
        tied = (link for link in links if not news.isdisjoint(link) and same(link[0][0], link[0][1], link[1][1]))
        news = {end for link in tied for end in link} - found
        found |= news
    empty = store.repo.blob_id(b"")  # of tombstones, for one
    versions = {blob for _, blob in found if blob.strip("0")} - {empty}
    holding = {path for path, blob in ends if blob in versions and is_record(posixpath.basename(path))}
    return sorted(versions), sorted(named | holding)


def _there(url: str, rewrite: str, left: str) -> tuple[str, ...]:
    """What purges a repository that others see: in a fresh clone of it, which is pushed back."""
    lease = f"git for-each-ref --format='%(refname) {_LEASE}%(refname):%(objectname)' refs/heads refs/tags"
    had = f"git for-each-ref --format=' {_LEASE}{_OLD}:' {_BEFORE}"
    return (
        f"git clone --bare {shlex.quote(url)} purge.git && cd purge.git",
        f"{lease} >leases",
        rewrite,
        left,
        f"{had} | grep -Ff - leases | tr ' \\n' '\\0\\0' | xargs -0 git push --atomic origin",
        "cd .. && rm -rf purge.git",
    )


def _here(
    store: Store, paths: Sequence[str], versions: Sequence[str], others: Sequence[Path], rewrite: str, left: str
) -> tuple[str, ...]:
    """What purges this repository: in an empty work tree beside; the index of each of the others lets go of it too."""
    beside, tree = (shlex.quote(str(folder)) for folder in (store.repo.shared / "purge", store.repo.work_tree))
    return (
        f"cd {tree} && rm -rf {beside}",
        f"git worktree add -q -f --detach {beside} $(git commit-tree -m purge $(git mktree </dev/null))",
        f"cd {beside}",
        f"git for-each-ref --format='update %(refname) %(objectname)' refs/tags >{_KEPT}",
        rewrite,
        f"git for-each-ref --format='update {_OLD} ' {_BEFORE} | grep -vFf - {_KEPT} | git update-ref --stdin",
        f"git for-each-ref --format='delete %(refname)' {_BEFORE} | git update-ref --stdin",
        f"rm {_KEPT} && cd {tree} && git worktree remove {beside}",
        *(f"git -C {shlex.quote(str(other))} {_removing('-f', paths)}" for other in others),
        f"rm -rf {' '.join(shlex.quote(str(folder)) for folder in _copies(store))}",
        # Unlike `git reflog expire`, gc spares the stash, whose entries are nothing but its reflog.
        "git -c gc.reflogExpireUnreachable=now gc -q --prune=now",
        f"printf '%s\\n' {' '.join(versions)} | git cat-file --batch-check='%(objectname) is still here'",
        left,
    )


def _left(versions: Sequence[str], record_id: str, told: Sequence[str], advice: str) -> str:
    """What names each version that branches and tags still have, each commit that brings a file with the id, and each
    that quotes a subject; where there is one it says what to do, and fails."""
    known = "".join(f" -e {blob}" for blob in versions)
    blobs = f"git rev-list --objects {_ALL} | grep -F{known}; " if versions else ""
    stated = f"^id:[[:space:]]*[\"']?{unsaying.literal(record_id)}[\"']?[[:space:]]*$"
    ids = (
        f"git log {_ALL} -m --full-history --pickaxe-regex -S{shlex.quote(stated)} --format='still in %h:' --name-only"
    )
    quotes = f"; {said}" if (said := unsaying.still_said(told, _ALL)) else ""
    return f"{{ ! {{ {blobs}{ids}{quotes}; }} | grep . || {{ echo {shlex.quote(advice)} >&2; false; }}; }}"


def _taken(store: Store, paths: Sequence[str], named: str) -> Iterator[str]:
    """Say which files that had its name, id or text are other records by now: the commands go by names alone."""
    for path in store.repo.index.entries([path for path in paths if path != named]):
        yield f"{path} had its name, id or text and is another record now, which they would take too: git mv that first"


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


def _rewrite(paths: Sequence[str], unsaid: str, refs: str, first: str) -> str:
    """Take paths out of the commits of some refs, from the first one that has them on: those before stay as they are,
    signatures and all."""
    remove = f"git {_removing('--cached', paths)}"
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
