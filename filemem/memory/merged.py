"""What is worse in a memory once a branch is merged (`filemem.memory.merging`).

Rule: only what the base did not have is told, wherever it shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from filemem.chain.comparing import eased
from filemem.documents import Node
from filemem.memory import graph
from filemem.memory.reviewing import rewritten
from filemem.memory.surveying import Finding, Survey
from filemem.memory.writing import article
from filemem.record import DECISION, Problem, Record, topic_key
from filemem.record.revising import status
from filemem.record.saying import says_otherwise


def worse(base: Survey, merged: Survey) -> Iterator[Problem]:
    """Return what is wrong in the one and was not in the other."""
    known = Counter(finding.key for finding in base.findings)
    for finding in merged.findings:
        known[finding.key] -= 1
        if known[finding.key] < 0 and not _eased(base, merged, finding):
            yield finding.problem


def _eased(base: Survey, merged: Survey, finding: Finding) -> bool:
    """Whether it tells of a fork that was there already, and that the branch makes smaller or goes on with."""
    return finding.problem.code == "forked-topic" and eased(base.resolved, merged.resolved, finding.about)


def lapsed(base: Survey, merged: Survey) -> Iterator[Problem]:
    """Return the decisions that hold no longer although nothing replaces them: by id, so that no move hides one."""
    there = merged.by_id
    for one in filter(base.resolved.is_head, base.resolved.nodes):
        was, node = base.nodes[one], merged.nodes.get(one)
        stays = node and was.key in ("", node.key) and merged.resolved.is_head(one)
        if stays or merged.resolved.superseded_by(one):
            continue
        record = there.get(one)
        why = _why(base.records[was.path], record) if record else _where(was.path, merged)
        told = (
            f"{was.title} held, and nothing replaces it: {why}",
            _left(was, merged),
            graph.only_proposed(merged.resolved, merged.nodes, one),
        )
        text = "; ".join(filter(None, told))
        yield Problem(record.path if record else was.path, 1, "no-longer-holds", "warning", text)


def _left(was: Node, merged: Survey) -> str:
    """What holds on the topic that a decision had, if it had one."""
    if not was.key:
        return ""
    left = [merged.nodes[head].title for head in merged.resolved.chain(was.key).heads]
    return f"what holds on {was.topic}: {', '.join(left)}" if left else f"nothing holds on {was.topic} any more"


def _where(path: str, merged: Survey) -> str:
    if path in merged.records:
        return f"its file is known as {merged.records[path].id} now"
    hidden = any(one.problem.path == path and one.problem.code == "forgotten" for one in merged.findings)
    return "it was forgotten" if hidden else "its file is removed"


def _why(was: Record, now: Record) -> str:
    if now.type != DECISION:
        return f"it is {article(now.type)} now"
    if was.topic_stated and (not now.topic_stated or topic_key(now.topic) != topic_key(was.topic)):
        return f"it is on topic {now.topic} now" if now.topic_stated else "it states no topic now"
    return status(was, now)


def reworded(base: Survey, merged: Survey, told: Iterable[Problem]) -> Iterator[Problem]:
    """Return the decisions that were superseded in the base and say something else now.

    Args:
        base, merged: the two states.
        told: what is said of them already.
    """
    paths = {problem.path for problem in told if problem.code == "edited-superseded"}
    there = merged.by_id
    for one, node in base.nodes.items():
        successors = base.resolved.superseded_by(one)
        now, was = there.get(one), base.records[node.path]
        if successors and now and now.path not in paths and says_otherwise(was, now):
            yield rewritten(now.path, base.nodes[successors[0]], was, now, "")
