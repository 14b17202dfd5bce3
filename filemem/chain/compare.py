"""What one state of a memory makes of another: which decisions stop holding, which forks appear, what is left hanging.

Rule: two graphs in, what differs out. Which records a change touched is the caller's business; this module only says
what follows from it for decisions, the untouched ones among them.
"""

from __future__ import annotations

from collections.abc import Mapping

from filemem.chain.graph import Graph
from filemem.tuples import NamedTuple

GONE = (
    "supersedes-missing",
    "superseded-by-missing",
)  # codes of flaws that a removal leaves behind


class Consequences(NamedTuple):
    """What follows for decisions."""

    superseded: Mapping[
        str, tuple[str, ...]
    ]  # what held and holds no longer, with what replaced it
    accepted: tuple[str, ...]  # what was only proposed, or rejected, and holds now
    forked: Mapping[
        str, tuple[str, ...]
    ]  # topics where several hold, and not the same as before; unless it `eased`
    headless: tuple[
        str, ...
    ]  # topics where something held and nothing does, or no decision is left
    hanging: tuple[str, ...]  # decisions that refer to what is not there any more


def consequences(before: Graph, after: Graph) -> Consequences:
    """Return what follows from going from one graph to the other; both know the same part of the memory."""
    both = [node for node in after.nodes if node in before.nodes]
    heads = {
        topic: (before.chain(topic).heads, after.chain(topic).heads)
        for topic in {*before.chains, *after.chains}
    }
    split = {
        topic: new for topic, (old, new) in heads.items() if len(new) > 1 and set(new) != set(old)
    }
    risen = [node for node in both if after.is_head(node) and not before.is_head(node)]
    broken = {flaw.node for flaw in before.problems if flaw.code in GONE}
    return Consequences(
        superseded={
            node: successors
            for node in both
            if before.is_head(node)
            and not after.is_head(node)
            and (successors := after.superseded_by(node))
        },
        accepted=tuple(node for node in risen if not before.nodes[node].demotes),
        forked={topic: new for topic, new in split.items() if not eased(before, after, topic)},
        headless=tuple(sorted(topic for topic, (old, new) in heads.items() if old and not new)),
        hanging=tuple(
            sorted(
                {
                    flaw.node
                    for flaw in after.problems
                    if flaw.code in GONE and flaw.node not in broken
                }
            )
        ),
    )


def eased(before: Graph, after: Graph, topic: str) -> bool:
    """Whether a fork was there before and is no wider now."""
    return 1 < len(before.chain(topic).heads) >= len(after.chain(topic).heads)
