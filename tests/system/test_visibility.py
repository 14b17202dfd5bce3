"""Who sees which record: every way of reading, every visibility, every caller. `filemem.record.visibility` decides."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from filemem.cli.workspace import join_workspace
from filemem.dialects.call import call
from filemem.dialects.tool import load_profile
from filemem.memory import Memory
from filemem.record.visibility import EVERYBODY
from filemem.web import graph, mama, viewer
from filemem.web.export import write_site
from tests.support import git, make_repo, write
from tests.system.tools import cli

RECORDS = {
    "openly": {},
    "publicly": {"visibility": "public"},
    "shoply": {"visibility": "project", "project": "shop"},
    "secretly": {"visibility": "private", "agent": "ann"},
    "moneyly": {"visibility": "department", "department": "Finance"},
    "nowherely": {"visibility": "department"},
}
OPEN = {"openly", "publicly", "shoply"}
OWNER = OPEN | {"secretly"}
OF_FINANCE = "finance"
Ask = Callable[[Memory, Path], Any]


def profiled(name: str, tool: str, **arguments: Any) -> Ask:
    """A tool of a profile, asked by its own server."""
    return lambda memory, _: call(load_profile(name), memory, tool, arguments).payload


def each(name: str, tool: str, key: str, *, many: bool = False, **more: Any) -> Ask:
    """A tool that is asked for one record after the other."""

    def ask(memory: Memory, _: Path) -> Any:
        titles = [f"Zebra {word}" for word in RECORDS]
        ids = {one: number for one, number in NUMBERS.items() if name == "powermem"}
        told = []
        for title in titles:
            value = ids.get(title, title)
            named = {key: [value] if many else value}
            reply = call(load_profile(name), memory, tool, {**named, **more})
            told += [] if reply.is_error else [reply.payload]
        return [text for text in map(str, told) if "missing" not in text]

    return ask


NUMBERS: dict[str, str] = {}


def command(*arguments: str) -> Ask:
    return lambda _, folder: cli(folder, *arguments).out


def commands(verb: str) -> Ask:
    """A command that is asked for one record after the other."""
    return lambda _, folder: [
        done.out for word in RECORDS if (done := cli(folder, verb, f"Zebra {word}")).code == 0
    ]


def workspace(memory: Memory, _: Path) -> Any:
    join_workspace(memory)
    assert memory.workspace is not None
    return [hit.title for hit in memory.workspace().search("zebra", limit=20)]


def page(memory: Memory, _: Path) -> Any:
    data = viewer.answer_data(memory, {"can_write": False}).body
    text = data.decode() if isinstance(data, bytes) else str(data)
    return [text, viewer.answer_search(memory, {"q": "zebra"})]


def whole_site(memory: Memory, folder: Path) -> Any:
    write_site(memory, folder.parent / "site")
    files = (folder.parent / "site").rglob("*")
    return [path.read_text(errors="replace") for path in files if path.is_file()]


# Each way of reading, and what a caller without and with the department sees there.
SURFACES: dict[str, tuple[Ask, set[str], bool]] = {
    "search": (command("search", "zebra", "-n", "20"), OWNER, True),
    "listing": (command("search", "type:observation", "-n", "20"), OWNER, True),
    "get": (commands("show"), OWNER, True),
    "export": (command("export"), OPEN, True),
    "export --private": (command("export", "--private"), OWNER, True),
    "diff": (command("diff", "HEAD~5..HEAD"), OPEN, True),
    "python": (lambda m, _: [h.title for h in m.search("zebra", limit=20)], OWNER, True),
    "native search": (profiled("native", "search", query="zebra", limit=20), OWNER, True),
    "native get": (each("native", "get", "id"), OWNER, True),
    "native timeline": (
        profiled("native", "timeline", depth_before=20, depth_after=20),
        OWNER,
        True,
    ),
    "mama search": (profiled("mama", "search", query="zebra", limit=20), OPEN, True),
    "mama listing": (profiled("mama", "search", limit=20), OPEN, True),
    "powermem search": (
        profiled("powermem", "search_memories", query="zebra", limit=20),
        OPEN,
        True,
    ),
    "powermem list": (profiled("powermem", "list_memories"), OPEN, True),
    "powermem get": (each("powermem", "get_memory", "memory_id"), OPEN, True),
    "project-memory": (
        profiled("project-memory", "retrieve_context", query="zebra", limit=20),
        OPEN,
        True,
    ),
    "an unlisted tool": (
        profiled("native", "search_memories", query="zebra", limit=20),
        OPEN,
        False,
    ),
    "code-act": (
        lambda m, _: [h.title for h in m.seen_by(EVERYBODY).search("zebra", limit=20)],
        OPEN,
        False,
    ),
    "workspace": (workspace, OPEN, False),
    "page": (page, OPEN, False),
    "site": (whole_site, OPEN, False),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the records, to copy."""
    repo = make_repo(tmp_path_factory.mktemp("filled") / "repo")
    with Memory.open(repo) as memory:
        for word, more in RECORDS.items():
            title = f"Zebra {word}"
            saved = memory.save(title=title, text=f"The zebra runs {word}.", **more)
            NUMBERS[title] = saved.id
    return repo


@pytest.fixture
def folder(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    repo = shutil.copytree(filled, tmp_path / "repo", symlinks=True)
    cli(repo, "workspace", "add", str(repo))
    return repo


@pytest.fixture
def opened(folder: Path) -> Iterator[Memory]:
    with Memory.open(folder) as memory:
        yield memory


def seen(answer: Any) -> set[str]:
    """The records that an answer speaks of."""
    text = answer if isinstance(answer, str) else json.dumps(answer, default=str)
    return {word for word in RECORDS if word in text}


@pytest.mark.parametrize("department", ["", "Sales", OF_FINANCE])
def test_every_way_of_reading_shows_what_its_caller_may_see(
    folder: Path, monkeypatch: pytest.MonkeyPatch, department: str
) -> None:
    if department:
        monkeypatch.setenv("FILEMEM_DEPARTMENT", department)
    more = {"moneyly"} if department == OF_FINANCE else set()
    expected = {
        name: wanted | more if states else wanted for name, (_, wanted, states) in SURFACES.items()
    }
    with Memory.open(folder) as memory:
        answers = {name: seen(ask(memory, folder)) for name, (ask, _, _) in SURFACES.items()}
    assert answers == expected


@pytest.mark.parametrize(
    ("caller", "more"),
    [
        ({}, {"nowherely"}),
        ({"department": "finance"}, {"moneyly"}),
        ({"department": "sales"}, set()),
        ({"agent": "Ann"}, {"secretly", "nowherely"}),
    ],
)
def test_a_call_of_mem_claude_states_its_agent_and_its_department(
    opened: Memory, folder: Path, caller: dict[str, str], more: set[str]
) -> None:
    for ask in (
        profiled("mem-claude", "search", query="zebra", **caller),
        profiled("mem-claude", "timeline", anchor="2100-01-01", **caller),
        each("mem-claude", "get_observations", "ids", many=True, **caller),
    ):
        assert seen(ask(opened, folder)) == OPEN | more


@pytest.mark.parametrize("department", ["", OF_FINANCE])
def test_a_decision_is_hidden_like_an_observation(
    folder: Path, monkeypatch: pytest.MonkeyPatch, department: str
) -> None:
    head = "---\nid: {0}\ntopic: pay\n{1}\n---\n# Pay zebras {0}\n"
    for word, more in (
        ("openly", ""),
        ("moneyly", "visibility: department\ndepartment: finance\nsupersedes: [openly]"),
    ):
        write(folder / f"memory/decisions/{word}.md", head.format(word, more))
    git(folder, "add", "memory")
    git(folder, "commit", "--quiet", "--message", "Pay")
    if department:
        monkeypatch.setenv("FILEMEM_DEPARTMENT", department)
    shown = {"openly", "moneyly"} if department else {"openly"}
    with Memory.open(folder) as memory:
        for answer in (
            cli(folder, "history", "pay").out,
            call(load_profile("native"), memory, "timeline", {"topic": "pay"}).payload,
            call(load_profile("mama-v1"), memory, "recall_decision", {"topic": "pay"}).payload,
            call(load_profile("native"), memory, "search", {"query": "pay zebras"}).payload,
            graph.answer_graph(memory, {}),
            mama.export_decisions(memory, {}),
        ):
            assert seen(answer) & {"openly", "moneyly"} == shown
        for answer in (cli(folder, "topics").out, memory.brief().text):
            assert department or "moneyly" not in answer
        assert "moneyly" not in memory.brief().text
        past = memory.at("HEAD")
        assert (
            seen([hit.title for hit in past.search("pay zebras")])
            & {
                "openly",
                "moneyly",
            }
            == shown
        )


@pytest.mark.parametrize("department", ["", OF_FINANCE])
def test_what_is_like_a_decision_is_hidden_from_who_may_not_see_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, department: str
) -> None:
    head = "---\nid: {0}\ntopic: {0} pay\n{1}\n---\n# Pay the keeper of the zebras by the hour\n"
    for path, line in {
        "decisions/openly": "",
        "decisions/publicly": "",
        "decisions/moneyly": "visibility: department\ndepartment: finance",
        "private/decisions/secretly": "agent: ann",
    }.items():
        write(folder / f"memory/{path}.md", head.format(Path(path).name, line))
    if department:
        monkeypatch.setenv("FILEMEM_DEPARTMENT", department)
    more = {"moneyly"} if department else set[str]()
    with Memory.open(folder) as memory:
        everything = [
            node.id for node, _ in memory.list_similar("keeper of the zebras", "decision", 9)
        ]
        likely = seen(
            [one["id"] for one in graph.answer_similar(memory, {"id": "openly"})["similar"]]
        )
        edges = seen(graph.answer_graph(memory, {"cluster": "true"})["similarityEdges"])
        page = seen(viewer.answer_record(memory, {"id": "openly"})["similar"])
        ann = graph.answer_similar(memory, {"id": "openly", "agent": "ann"})["similar"]
    assert set(everything) == {"openly", "publicly", "secretly"} | more
    assert likely == {"publicly"} | more
    assert edges == {"openly", "publicly"} | more
    assert page == {"publicly"}
    assert seen([one["id"] for one in ann]) == {"publicly", "secretly"} | more


def test_what_is_hidden_looks_as_if_it_were_not_there(opened: Memory) -> None:
    hidden, nowhere = (
        call(load_profile("native"), opened, "get", {"id": title}).payload
        for title in ("Zebra moneyly", "Zebra nothing")
    )
    assert str(hidden).replace("moneyly", "nothing") == str(nowhere)
    assert opened.search("zebra", agent="nobody").hits == ()
    assert {one.id for one in opened.search(limit=20)}.isdisjoint({NUMBERS["Zebra moneyly"]})
    assert NUMBERS["Zebra moneyly"] not in opened.find_names([NUMBERS["Zebra moneyly"]])


def test_a_narrowed_view_is_never_widened(opened: Memory) -> None:
    narrow = opened.seen_by(EVERYBODY)
    assert narrow.seen_by(opened.reader) is narrow
    assert narrow.workspace is None


def test_a_save_does_not_show_what_it_replaces_to_who_may_not_see_it(
    opened: Memory, folder: Path
) -> None:
    how = {"topic": "pay", "reasoning": "Zebra"}
    header = "id: decision_pay_1_abcdwxyz\ntype: decision\ntopic: pay\nvisibility: private\n"
    path = folder / "memory" / "private" / "pay.md"
    write(path, f"---\n{header}created: 2024-01-01\n---\n# Pay secretly\n\nZebra\n")
    opened.refresh()
    saved = opened.seen_by(EVERYBODY).save(decision="Pay openly", **how)
    assert saved.superseded == ("decision_pay_1_abcdwxyz",)
    assert not seen([saved.message, saved.replaced]) - OPEN
