"""Which commit of the memory a revision or a date means, wherever `at` is asked for.

Rule: this is the only place that knows. Where records have a branch of their own, a revision of the code means what
that branch had when the code was committed.
"""

from __future__ import annotations

from difflib import get_close_matches

from filemem.errors import BadInput, NotFound
from filemem.memory import arguments, meant
from filemem.memory.store import Store
from filemem.query import parse_moment
from filemem.record import unreal
from filemem.record.times import format_moment
from filemem.repo.revisions import Moment

FORMS = "a commit, tag or branch, a date such as 2025-11-20, or an age such as 2w"
_SHOWN = 3  # names that may have been meant


def find(store: Store, text: object, field: str = "at", *, begins: bool = False) -> Moment:
    """Return the commit of the memory that is meant.

    Args:
        store: the parts.
        text: a commit, tag, branch or expression such as `HEAD~3` or `:/words of a message`; else a date, a time or an
            age: the last commit by then, a day, week or month without a time meaning its end (UTC).
        field: what the caller calls it, for messages.
        begins: whether it is what came since that is asked for: before the first commit there was nothing, which is
            named so, with the id of the tree without files.

    Raises:
        BadInput: it is empty, or begins several commits.
        NotFound: there is no such commit, or none by then; says what was probably meant.
    """
    name = arguments.line(field, text).strip()
    if not name:
        raise BadInput(f"{field} is empty", f"give {FORMS}", field=field)
    if not store.repo.tip() and store.repo.head() is None:
        raise NotFound("nothing is committed yet, so there is no past to ask", f"leave `{field}` out")
    if found := store.code.revisions.named(name):
        return _in_memory(store, found, field, begins)
    when = parse_moment(name, store.clock(), end=True)
    if when is None:
        wrong = unreal(name) or store.code.revisions.misnamed(name)
        told = f"{field}: no commit, tag, branch or date {name!r}" + (f": {wrong}" if wrong else "")
        raise NotFound(told, _meant(store, name))
    return _by(store, name, when, field, begins)


def _in_memory(store: Store, found: Moment, field: str, begins: bool) -> Moment:
    """The commit itself where it is one of the memory's; else what the memory had when it was made."""
    if store.repo is store.code or store.history.is_ancestor(found.commit):
        return found
    return _by(store, found.name, found.at, field, begins)


def _by(store: Store, name: str, when: int, field: str, begins: bool) -> Moment:
    """The last commit of the memory's branch by a moment. Raises NotFound."""
    line = store.repo.revisions.line(store.repo.tip() or store.repo.head() or "HEAD")
    found = line.by(when)
    if found is None:
        by, first, more = format_moment(when), format_moment(line.at[0]), ""
        if by[:10] != first[:10]:
            by, first = by[:10], first[:10]
        shallow = bool(store.history.boundary())
        if begins and not shallow:
            return Moment(f"nothing (the first commit is of {first})", store.repo.nothing, 0)
        if shallow:
            more = "; history is shallow, so there may be older ones: git fetch --unshallow"
        told = f"nothing was committed by {by}: the first commit is of {first}"
        hint = f"ask for a later moment, or for that commit: {line.commits[0][:10]}{more}"
        raise NotFound(f"{field} {name}: {told}", hint)
    return found._replace(name=name)


def _meant(store: Store, name: str) -> str:
    if fetch := store.code.sharing.unfollowed(name):
        return f"this clone follows other branches alone: {fetch}"
    known = store.code.revisions.names()
    near = get_close_matches(name, known, n=_SHOWN, cutoff=meant.LIKE)
    if near:
        return f"did you mean {' or '.join(near)}?"
    more = "; history is shallow: git fetch --unshallow --tags brings the rest" * bool(store.code.history.boundary())
    return f"give {FORMS}{more}"
