"""Supersession across topics: a decision that several others replace, each on a topic of its own, is no fork."""

from __future__ import annotations

from pathlib import Path

import pytest

from filemem.errors import BadInput
from filemem.memory import Memory
from filemem.memory.phrases import called
from filemem.memory.values import Saved
from tests.support import git, make_repo, write
from tests.system.tools import cli, ok, talking

FORK_WORDS = ("fork", "contested", "resolve")
DOORS = ("history a", "history b", "topics", "check", "search takes")


def decide(repo: Path, topic: str, decision: str, *more: str) -> str:
    arguments = ("--topic", topic, "--decision", decision, "--reasoning", "Because")
    return str(ok(repo, "save", "decision", *arguments, *more)["id"])


def marks(repo: Path, topic: str) -> list[str]:
    """The mark and the heading of each decision in a history."""
    return [f"{row[0]} {row[15:]}" for row in cli(repo, "history", topic).out.splitlines() if row[:1] in "●○"]


def adr(repo: Path, name: str, title: str, status: str) -> Path:
    return write(
        repo / "memory/decisions" / f"{name}.md", f"# {title}\n\n## Status\n\n{status}\n\n## Context\n\nText.\n"
    )


@pytest.fixture
def parted(repo: Path) -> tuple[Path, str, str, str]:
    """One decision on `a`, replaced on a branch by one on `b` and beside it by one on `a`, merged."""
    first = decide(repo, "a", "A one takes it")
    git(repo, "switch", "-q", "-c", "x")
    there = decide(repo, "b", "B takes it", "--supersedes", first)
    git(repo, "switch", "-q", "main")
    here = decide(repo, "a", "A two takes it")
    git(repo, "merge", "-q", "--no-edit", "x")
    return repo, first, there, here


def test_a_decision_replaced_on_two_topics_is_no_fork_at_any_door(parted: tuple[Path, str, str, str]) -> None:
    repo, first, there, here = parted
    told = "replaced by 2 decisions, on b and on a"
    for words in (*DOORS, f"get {first}"):
        done = cli(repo, *words.split())
        assert done.code == 0
        assert not [word for word in FORK_WORDS if word in done.out], words
    for words in ("history a", "history b", f"get {first}", "search takes"):
        assert told in cli(repo, *words.split()).out
    for topic, other in (("a", "B takes it  on b"), ("b", "A two takes it  on a")):
        own = {"a": "A two takes it", "b": "B takes it"}[topic]
        assert sorted(marks(repo, topic)) == sorted(
            [f"○ A one takes it{'' if topic == 'a' else '  on a'}", f"● {own}", f"● {other}"]
        )
    assert {topic["topic"]: topic["ids"] for topic in ok(repo, "topics")["topics"]} == {"a": [here], "b": [there]}
    assert [ok(repo, "history", topic)["heads"] for topic in "ab"] == [[here], [there]]
    refused = cli(repo, "resolve", "a", "--decision", "D", "--reasoning", "R")
    assert (refused.code, "topic a is not forked: A two takes it (" in refused.err) == (2, True)


def test_a_topic_whose_decision_went_on_under_two_others(repo: Path, memory: Memory) -> None:
    def save(topic: str, decision: str, **more: object) -> str:
        return memory.save(topic=topic, decision=decision, reasoning="Because", **more).id

    first = save("a", "A one takes it")
    there = [save(topic, f"{topic} takes it", supersedes=[first]) for topic in ("b", "c")]
    told = memory.history("a")
    assert (list(told.heads), told.forked) == (there, False)
    assert [(step.holds, step.foreign) for step in told.chain] == [(False, False), (True, True), (True, True)]
    assert [step.contest for step in told.chain] == ["replaced by 2 decisions, on b and on c", "", ""]
    assert [step.holds for step in memory.history("b").chain] == [False, True, True]
    topics = {topic.topic: topic for topic in memory.topics()}
    assert (list(topics["a"].heads), topics["a"].forked) == (there, False)
    assert topics["a"].contest == "replaced by 2 decisions, on b and on c"
    assert "a  c takes it  (1 decision)  replaced by 2 decisions, on b and on c" in cli(repo, "topics").out
    with pytest.raises(BadInput, match=r"not forked: b takes it \(\w+\) on b and c takes it \(\w+\) on c hold in its"):
        memory.resolve("a", decision="D", reasoning="R")
    assert memory.check()[1] == ()


def test_a_fork_of_the_topic_that_took_over_is_told_as_its_own(memory: Memory) -> None:
    first = memory.save(topic="a", decision="A one", reasoning="Because")
    for name in ("one", "two"):
        memory.save(topic="b", decision=f"B {name}", reasoning="Because", supersedes=[first.id])
    [hit] = memory.get(first.id)
    assert hit.contest == "contested: 2 decisions on b hold at once"
    assert [memory.history(topic).forked for topic in "ab"] == [False, True]
    assert {topic.topic: topic.forked for topic in memory.topics()} == {"a": False, "b": True}


def test_over_mcp_the_doors_agree(tmp_path: Path) -> None:
    with talking(make_repo(tmp_path / "repo")) as talk:

        def save(topic: str, decision: str, **more: object) -> str:
            return str(talk.call("save", topic=topic, decision=decision, reasoning="Because", **more)["id"])

        first = save("a", "A one takes it")
        there, here = save("b", "B takes it", supersedes=[first]), save("a", "A two takes it", supersedes=[first])
        told = talk.call("timeline", topic="a")
        assert (told["forked"], told["heads"]) == (False, [here])
        assert {step["id"] for step in told["chain"] if step["holds"]} == {there, here}
        [found] = talk.call("get", id=first)["results"]
        assert (sorted(found["heads"]), found["note"]) == (
            sorted([there, here]),
            "replaced by 2 decisions, on b and on a",
        )
        notes = [hit.get("note", "") for hit in talk.call("search", query="takes it")["results"]]
        assert "contested" not in " ".join(notes)


def test_a_record_without_a_topic_keeps_its_heading_when_it_goes_on_under_one(repo: Path) -> None:
    adr(repo, "0009-nine", "9. Nine", "Accepted")
    adr(repo, "0010-ten", "10. Ten", "Accepted\n\nSupersedes [9. Nine](0009-nine.md)")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Records")
    decide(repo, "new", "New takes nine", "--supersedes", "9")
    told = cli(repo, "history", "9").out
    assert told.startswith("Nine\n")
    assert "replaced by 2 decisions, on new and without a topic" in told
    assert not [word for word in FORK_WORDS if word in told]
    named = {topic["topic"]: (topic["stated"], topic["forked"]) for topic in ok(repo, "topics")["topics"]}
    assert named == {"new": (True, False), "Ten": (False, False)}


def test_a_topic_keeps_its_name_when_it_goes_on_under_none(repo: Path) -> None:
    apples = decide(repo, "red fruit", "Grow apples")
    write(repo / "memory/decisions/pears.md", f"---\nid: d_2\nsupersedes: [{apples}]\n---\n# Grow pears\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Records")
    told = [(one["topic"], one["stated"], one["ids"]) for one in ok(repo, "topics")["topics"]]
    assert told == [("red fruit", True, ["d_2"]), ("Grow pears", False, ["d_2"])]
    assert [one["topic"] for one in ok(repo, "topics", "fruit")["topics"]] == ["red fruit"]


def test_what_was_given_up_for_a_proposal_is_followed_by_it_at_every_door(repo: Path) -> None:
    adr(repo, "0001-alpha", "1. Alpha", "Superseded by [2. Beta](0002-beta.md)")
    adr(repo, "0002-beta", "2. Beta", "Proposed")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Records")
    [alpha] = ok(repo, "get", "1")["results"]
    for asked in ("1", "2"):
        told = ok(repo, "history", asked)
        assert [step["title"] for step in told["chain"]] == ["1. Alpha", "2. Beta"]
        assert told["chain"][0]["proposed"] == alpha["proposed"] == [told["chain"][1]["id"]]
        assert (told["heads"], [step["holds"] for step in told["chain"]]) == ([], [False, False])
        assert told["note"].startswith("nothing holds: 1 deprecated; proposed: 2. Beta (")
    assert (alpha.get("superseded_by"), alpha["note"]) == (None, "deprecated; nothing holds")
    assert "proposed in its place: 2. Beta (memory/decisions/0002-beta.md)" in cli(repo, "get", "1").out


def test_where_nothing_holds_every_door_says_why(memory: Memory, repo: Path) -> None:
    def save(topic: str, decision: str, **more: object) -> str:
        return memory.save(topic=topic, decision=decision, reasoning="Because", **more).id

    first, other = save("a", "A one"), save("b", "B one")
    memory.update(first, status="deprecated")
    proposal = memory.save(topic="a", decision="A two", reasoning="Because", status="proposed")
    assert (proposal.superseded, proposal.would_supersede) == ((), (first,))
    save("b", "B two", status="deprecated")
    save("c", "C one", status="rejected", supersedes=[])
    save("d", "D one", supersedes=[other])  # another on b, where a deprecated one had replaced it
    save("f", "F one", supersedes=[save("e", "E one")], status="deprecated")
    told = {
        "e": "nothing holds: 1 deprecated on f",
        "f": "nothing holds: 1 deprecated",
        "a": f"nothing holds: 1 deprecated; proposed: A two ({proposal.id[-8:]})",
        "c": "nothing holds: 1 rejected",
    }
    topics = {topic.topic: topic.vacancy for topic in memory.topics()}
    assert topics == {**told, "b": "", "d": ""}
    assert {topic: memory.history(topic).vacancy for topic in topics} == topics
    out = cli(repo, "topics").out
    for topic, words in told.items():
        assert f"\n{topic}  ({2 if topic == 'a' else 1} decision{'s' * (topic == 'a')})  {words}\n" in f"\n{out}"
        assert cli(repo, "history", topic).out.endswith(f"{words}\n")
    [one, two] = memory.get(first, proposal.id)
    assert (one.vacancy, one.proposed, one.superseded_by) == ("nothing holds", (proposal.id,), ())
    assert (two.vacancy, two.proposed) == ("nothing holds: 1 deprecated", ())


def test_a_proposal_without_a_topic_does_not_deny_what_holds(repo: Path) -> None:
    adr(repo, "0007-seven", "7. Use seven", "Accepted")
    adr(repo, "0012-twelve", "12. Use twelve", "Proposed\n\nSupersedes ADR-7")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Records")
    [seven] = ok(repo, "get", "7")["results"]
    holds = f"{called('7. Use seven', seven['id'])} holds"
    for words in (["get", "12"], ["search", "twelve"], ["get", "12", "--at", "HEAD"]):
        [twelve] = [hit for hit in ok(repo, *words)["results"] if hit["title"] == "12. Use twelve"]
        assert twelve["note"] == f"only proposed; {holds}", words
    assert "note" not in ok(repo, "history", "12")
    assert [one["title"] for one in ok(repo, "topics")["topics"]] == ["7. Use seven"]


def test_what_a_topic_replaced_elsewhere_is_nothing_to_a_proposal_for_it(repo: Path, memory: Memory) -> None:
    fruit = decide(repo, "fruit", "Grow apples")
    decide(repo, "wood", "Use oak", "--supersedes", fruit)
    stone = decide(repo, "stone", "Use granite", "--supersedes", fruit)
    for name, status in (("plastic", "proposed"), ("steel", "accepted")):
        of = stone if status == "proposed" else fruit
        header = f"---\nid: {name}\nstatus: {status}\nsupersedes: [{of}]\n---\n"
        write(repo / f"memory/decisions/{name}.md", f"{header}# Use {name}\n\nBecause.\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Records")
    holds = f"{called('Use granite', stone)} on stone holds"
    assert memory.get("plastic")[0].vacancy == holds
    topics = {topic.topic: topic for topic in memory.topics()}
    assert topics["Use plastic"].vacancy == f"proposed: Use plastic (plastic); {holds}"
    assert (topics["Use steel"].vacancy, topics["Use steel"].heads) == ("", ("steel",))
    for name in ("plastic", "steel"):
        history = memory.history(name)
        assert (history.heads, history.vacancy) == (topics[f"Use {name}"].heads, topics[f"Use {name}"].vacancy)


@pytest.mark.parametrize(
    ("old", "new", "status", "why"),
    [
        ("topic: queues", "", "proposed", ""),
        ("", "topic: queues", "proposed", "nothing holds on queues"),
        ("topic: events", "topic: queues", "proposed", "nothing holds on queues"),
        ("topic: events", "topic: queues", "rejected", "nothing holds on queues: 1 rejected"),
    ],
)
def test_what_was_not_accepted_elsewhere_leaves_what_it_names(
    repo: Path, memory: Memory, old: str, new: str, status: str, why: str
) -> None:
    for name, topic, more in (
        ("nats", old, "status: accepted"),
        ("kafka", new, f"status: {status}\nsupersedes: [nats.md]"),
    ):
        header = "\n".join(filter(None, (topic, more)))
        write(repo / f"memory/decisions/{name}.md", f"---\n{header}\n---\n# Use {name}\n\nBecause.\n")
        git(repo, "add", "-A")
        git(repo, "commit", "-q", "-m", name)
    where = {"topic: queues": " on queues", "topic: events": " on events", "": ""}
    nats, kafka = (f"memory/decisions/{name}.md" for name in ("nats", "kafka"))
    hits = {one.path: one for one in memory.get(nats, kafka)}
    holds = f"{called('Use nats', hits[nats].id)}{where[old]} holds"
    proposed = f"proposed: {called('Use kafka', hits[kafka].id)}" if status == "proposed" else ""
    own = why.partition(":")[0]  # a hit says of itself how it stands, before this
    assert (hits[nats].vacancy, hits[kafka].vacancy) == ("", "; ".join(filter(None, (own, holds))))
    assert memory.at("HEAD").get(kafka)[0].vacancy == hits[kafka].vacancy
    assert {one.path: one.vacancy for one in memory.search("use kafka").hits} == {
        path: hit.vacancy for path, hit in hits.items()
    }
    group = "queues" if new else "Use kafka"
    told = {topic.topic: topic.vacancy for topic in memory.topics()}
    assert told[group] == "; ".join(filter(None, (why, proposed, holds)))
    assert memory.history(kafka).vacancy == told[group]
    assert [step.record.title for step in memory.history(kafka).chain if step.holds] == ["Use nats"]


def test_equal_headings_are_told_apart_and_go_by_the_numbers_of_their_files(repo: Path) -> None:
    for name, title in (("0100-c", "Draft"), ("0021-b", "Draft"), ("0004-a", "Alone")):
        adr(repo, name, title, "Accepted")
    rows = ["no topic stated:", "  Alone  (1 decision)"]
    rows += [f"  Draft  (1 decision)  memory/decisions/{name}.md" for name in ("0021-b", "0100-c")]
    assert cli(repo, "topics").out.splitlines() == rows
    assert [one["path"] for one in ok(repo, "topics", "21")["topics"]] == ["memory/decisions/0021-b.md"]


def test_a_live_decision_names_what_is_proposed_in_its_place_until_that_is_settled(memory: Memory, repo: Path) -> None:
    first = memory.save(topic="a", decision="A one", reasoning="Because").id
    second = memory.save(topic="b", decision="B two", reasoning="Because", status="proposed", supersedes=[first]).id
    [hit] = memory.get(first)
    assert (hit.proposed, hit.vacancy, hit.heads) == ((second,), "", (first,))
    assert [(step.record.id, step.foreign) for step in memory.history("a").chain] == [(first, False), (second, True)]
    assert f"proposed in its place: B two ({second})" in cli(repo, "search", "A one").out
    memory.update(second, status="accepted")
    assert memory.get(first)[0].successors == (second,)
    assert memory.get(first)[0].proposed == ()


def test_a_save_says_where_its_topic_had_gone_on(memory: Memory) -> None:
    def save(topic: str, decision: str, **more: object) -> Saved:
        return memory.save(topic=topic, decision=decision, reasoning="Because", **more)

    first = save("a", "A one").id
    b, c = (save(topic, f"{topic} takes it", supersedes=[first]).id[-8:] for topic in ("b", "c"))
    again = save("a", "A again")
    told = f"what was decided on a went on elsewhere: b takes it ({b}) on b and c takes it ({c}) on c hold in its place"
    assert (again.superseded, again.note.partition(";")[0]) == ((), told)
    assert save("a", "A goes on").note == ""
    assert save("new", "New").note == ""


def test_the_end_of_a_heading_that_was_cut_and_the_reason_are_one_text(repo: Path) -> None:
    long = " ".join(["Decide"] + ["word"] * 18 + ["merge"])
    decide(repo, "a", long)
    [row] = [row.strip() for row in cli(repo, "history", "a").out.splitlines() if row.strip().startswith("…")]
    assert row.endswith("merge. Because")


def test_the_history_of_a_decision_without_a_topic_says_that_links_make_it(repo: Path) -> None:
    adr(repo, "0007-seven", "7. Use seven", "Accepted")
    adr(repo, "0012-twelve", "12. Use twelve", "Proposed\n\nSupersedes ADR-7")
    adr(repo, "0013-thirteen", "13. Use thirteen", "Proposed\n\nSupersedes ADR-7")
    adr(repo, "0020-alone", "20. Use no other", "Accepted")
    [twelve] = ok(repo, "get", "12")["results"]
    told = cli(repo, "history", "12").out
    name = called("12. Use twelve", twelve["id"])
    assert f"note: {name} states no topic: told are the decisions that links join to it\n" in told
    linked = ["7. Use seven", "12. Use twelve", "13. Use thirteen"]
    assert sorted(one["title"] for one in ok(repo, "history", "12")["chain"]) == sorted(linked)
    assert "states no topic" not in cli(repo, "history", "20").out
    decide(repo, "a", "Use A")
    decide(repo, "a", "Use B")
    assert "states no topic" not in cli(repo, "history", "a").out
