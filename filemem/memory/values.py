"""What the facade answers. Plain values; how they are shown is the business of a dialect or the command line."""

from typing import TYPE_CHECKING, NamedTuple

from filemem.query import Hit
from filemem.query.evidence import Evidence
from filemem.record import Record

if TYPE_CHECKING:
    from filemem.repo.revisions import Moment


class Similar(NamedTuple):
    """A record that is near to one just saved; `similarity` is a cosine on 0..1."""

    id: str
    title: str
    topic: str
    similarity: float
    hint: str


class Saved(NamedTuple):
    """What a write did.

    Args:
        id, type, path: the record; the path is relative to the work tree.
        message: one sentence.
        commit: the commit that holds it, where there is one already.
        pending: why it is not committed yet; empty where it is, or where the policy leaves it to the user.
        superseded: ids of the decisions it replaces.
        would_supersede: ids of those that it would replace, were it accepted.
        similar: records to link to or reuse.
        degraded: why the index could not take it at once.
        created: of a new record, epoch milliseconds.
        note: what else its maker should know: an edge in its text that leads to nothing.
    """

    id: str
    type: str
    path: str
    message: str
    commit: str = ""
    pending: str = ""
    superseded: tuple[str, ...] = ()
    similar: tuple[Similar, ...] = ()
    degraded: str = ""
    created: int = 0
    note: str = ""
    would_supersede: tuple[str, ...] = ()


class Revision(NamedTuple):
    """One edit of a record in place, or its move to another path.

    Args:
        commit: full id; empty for an edit that is not committed.
        author, agent, subject: as the commit says.
        at: epoch milliseconds.
        changes: what it changed, in phrases such as `status accepted -> deprecated`; empty where a version cannot be
            read.
    """

    commit: str
    author: str
    agent: str
    at: int
    subject: str
    changes: tuple[str, ...] = ()


class Step(NamedTuple):
    """One decision in the history of a topic.

    Args:
        record: as its file says it now.
        path: of the file, from the top of the work tree.
        commit, author, agent, committed: who brought it and when, from Git; `committed` in epoch milliseconds. All are
            empty where history is `shallow`: the record came before the commits that a shallow clone has.
        at: when it was decided, as the file says, else as the commit does; epoch milliseconds.
        supersedes: ids, oldest first.
        superseded_by: ids, oldest first.
        proposed: ids of what is only proposed in its place; empty where something has replaced it.
        holds: it holds today, on whatever topic it is.
        contest: in words, where decisions on several topics replaced it.
        claimed: in words, where another file claims its id too and nobody knows here who was first.
        implied: nobody stated what it supersedes.
        foreign: it belongs to another topic that the chain leads to.
        co_authors, reviewers: whom the commit names.
        revisions: edits in place, oldest first.
        edited: the file has changes that are not committed.
        shallow: it came before the commits that a shallow clone has.
        unsure: a partial clone lacks versions that may tell of an earlier author.
        written: when the author wrote the commit, where it was made again later (a rebase, an amend, an import); epoch
            milliseconds, 0 where it was not.
        evidence: what commits say came of it, as far as no outcome answers it.
    """

    record: Record
    path: str
    commit: str
    author: str
    agent: str
    at: int
    committed: int = 0
    supersedes: tuple[str, ...] = ()
    superseded_by: tuple[str, ...] = ()
    proposed: tuple[str, ...] = ()
    holds: bool = False
    contest: str = ""
    claimed: str = ""
    implied: bool = False
    foreign: bool = False
    co_authors: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    revisions: tuple[Revision, ...] = ()
    edited: bool = False
    shallow: bool = False
    unsure: bool = False
    written: int = 0
    evidence: tuple[Evidence, ...] = ()


class History(NamedTuple):
    """How a topic was decided: the chain, oldest first, and what holds today.

    Args:
        heads: what holds on the topic; where nothing does, what replaced its decisions on others.
        notes: what Git's history cannot tell here, and why.
        forked: several decisions on the topic hold at once.
        vacancy: in words, why nothing holds.
    """

    topic: str
    heads: tuple[str, ...]
    chain: tuple[Step, ...]
    notes: tuple[str, ...] = ()
    forked: bool = False
    vacancy: str = ""


class Reason(NamedTuple):
    """A decision that code rests on.

    Args:
        hit: the decision, with how the code stands that it governs.
        kind: `governs` (it states the path), `touched` (its commit made the code, or names it), `governed` (it stated
            the path, and what replaced it does not), `near` (in meaning).
        because: the same in words.
    """

    hit: Hit
    kind: str
    because: str


class Why(NamedTuple):
    """The decisions that a file, or some lines of it, rest on: the surest first.

    Args:
        path: of the file, from the top of the work tree.
        lines: the first and the last, from 1; None for the whole file.
        reasons: decisions, as many as were asked for.
        total: how many there are.
        note: what could not be told.
    """

    path: str
    lines: tuple[int, int] | None
    reasons: tuple[Reason, ...]
    total: int = 0
    note: str = ""


class Topic(NamedTuple):
    """A topic with what holds today.

    Args:
        topic: its name; where no decision states one, the heading.
        decisions: how many there are.
        heads: ids of what holds; where nothing does on this topic, of what replaced its decisions on others.
        title: the newest head's.
        latest: when the last one was made, epoch milliseconds.
        stated: whether decisions name the topic; False for records of other makers, joined by their links alone.
        forked: several decisions on the topic hold at once.
        contest: in words, where it is not forked and several decisions replaced its own all the same.
        vacancy: in words, why nothing holds.
        path: where no decision states the topic: of the file whose heading it is, from the top of the work tree.
    """

    topic: str
    decisions: int
    heads: tuple[str, ...]
    title: str
    latest: int
    stated: bool = True
    forked: bool = False
    contest: str = ""
    vacancy: str = ""
    path: str = ""


class Named(NamedTuple):
    """A record by id, with its title."""

    id: str
    title: str


class Effect(NamedTuple):
    """One thing that a branch does to the memory.

    Args:
        kind: one of KINDS.
        id, type, topic, title, path: the record; for a topic that is `forked`, `narrowed`, `joined` or left by all,
            only its name.
        details: phrases: what was revised, what is left hanging.
        others: what it replaces (new), what replaced it (superseded); of a topic what holds, or held.
    """

    kind: str
    id: str
    type: str
    topic: str
    title: str
    path: str
    details: tuple[str, ...] = ()
    others: tuple[Named, ...] = ()


KINDS = (
    "forked",
    "new",
    "accepted",
    "superseded",
    "outcome",
    "revised",
    "removed",
    "revived",
    "narrowed",
    "joined",
    "orphaned",
)  # as shown


class Comparison(NamedTuple):
    """What a branch does to the memory.

    Args:
        base, head: the two sides.
        parted: the commit from which on the second is told.
        effects: in the order of KINDS.
    """

    base: "Moment"
    head: "Moment"
    parted: str
    effects: tuple[Effect, ...]
