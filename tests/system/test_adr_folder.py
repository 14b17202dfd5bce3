"""A folder of numbered ADRs as the store: what is saved there is an ADR like the others; none of those is touched."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from filemem.errors import BadInput
from filemem.memory import Memory
from filemem.memory.save import WriteResult
from tests.support import git, make_repo, write
from tests.system.tools import cli

TITLES = (
    "Record architecture decisions",
    "Use REST",
    "Deploy by containers",
    "Version the API",
    "Use PostgreSQL",
)
NYGARD = "# {n}. {t}\n\nDate: 2024-01-0{n}\n\n## Status\n\nAccepted\n\n## Context\n\nWhy.\n\n## Decision\n\n{t}.\n\n"
NYGARD += "## Consequences\n\nFine.\n"
SECTIONS = "## Context and Problem Statement\n\nWhy.\n\n## Decision Outcome\n\n{t}.\n"
MADR = "---\nstatus: accepted\ndate: 2024-01-0{n}\ndeciders: [Ada]\n---\n\n# {t}\n\n" + SECTIONS
LIST = "# {t}\n\n* Status: accepted\n* Date: 2024-01-0{n}\n\n" + SECTIONS


def adrs(folder: Path, form: str = NYGARD) -> Path:
    repo = make_repo(folder)
    for n, t in enumerate(TITLES, 1):
        write(repo / f"docs/adr/000{n}-{t.lower().replace(' ', '-')}.md", form.format(n=n, t=t))
    write(repo / "docs/adr/template.md", "# NUMBER. TITLE\n\nDate: DATE\n\n## Status\n\nSTATUS\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "ADRs")
    return repo


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return adrs(tmp_path / "repo")


@pytest.fixture
def memory(repo: Path) -> Iterator[Memory]:
    with Memory.open(repo, store="docs/adr") as opened:
        opened.refresh()
        yield opened


def decide(memory: Memory, decision: str, topic: str, **more: object) -> WriteResult:
    return memory.save(
        topic=topic, decision=decision, reasoning="Writes in several regions", **more
    )


def test_what_is_replaced_is_told_by_its_decision_not_by_its_status(
    repo: Path, memory: Memory
) -> None:
    text = "# Broker\n\nDate: 2024-02-01\n\n## Status\n\nAccepted\n\n## Decision\n\nWe use Kafka.\n"
    write(repo / "docs/adr/0006-broker.md", text)
    memory.refresh()
    [line] = decide(memory, "Use NATS", "broker", supersedes=["docs/adr/0006-broker.md"]).replaced
    assert line.endswith("old): We use Kafka.")


LINK = "Supersedes [5. Use PostgreSQL](0005-use-postgresql.md)"


@pytest.mark.parametrize(
    ("form", "written"),
    [
        (NYGARD, f"# 6. Use CockroachDB\n\nDate: DAY\n\n## Status\n\nAccepted\n\n{LINK}\n\n## Context\n\nWRITES\n\n"
         "## Decision\n\nUse CockroachDB\n\n## Consequences\n"),
        (MADR, f"---\nstatus: accepted\ndate: DAY\n---\n# Use CockroachDB\n\n{LINK}\n\n"
         "## Context and Problem Statement\n\nWRITES\n\n## Decision Outcome\n\nUse CockroachDB\n"),
        (LIST, f"# Use CockroachDB\n\n* Status: accepted\n* Date: DAY\n* {LINK}\n\n"
         "## Context and Problem Statement\n\nWRITES\n\n## Decision Outcome\n\nUse CockroachDB\n"),
    ],
    ids=("nygard", "madr", "list"),
)  # fmt: skip
def test_a_decision_is_written_in_the_style_of_the_folder(
    tmp_path: Path, form: str, written: str
) -> None:
    repo = adrs(tmp_path / "repo", form)
    with Memory.open(repo, store="docs/adr") as memory:
        saved = decide(memory, "Use CockroachDB", "Use PostgreSQL")
        assert saved.path == "docs/adr/0006-use-cockroachdb.md"
        file = (repo / saved.path).read_text()
        day = file[file.index("ate: ") + 5 :][:10]
        written = written if form == NYGARD else written.replace("[5. ", "[")
        assert file == written.replace("DAY", day).replace("WRITES", "Writes in several regions")
        assert git(repo, "show", "--name-status", "--format=") == f"A\t{saved.path}"
        old = memory.get("ADR-5")[0].record
        assert saved.superseded == (old.id,)
        assert memory.get(saved.id)[0].record.title.endswith("Use CockroachDB")
        assert [step.hit.id for step in memory.history("ADR-5").chain] == [old.id, saved.id]
        again = decide(memory, "Use CockroachDB", "Use PostgreSQL")
        assert (again.id, again.commit) == (saved.id, "")
        # The way goes on by the old heading, by the new one and by number.
        second = decide(memory, "Use TiDB", "Use PostgreSQL")
        third = decide(memory, "Use Spanner", "Use TiDB")
        fourth = decide(
            memory, "Use SQLite", "database", supersedes=["8"], affects=["src/**"], confidence=0.5
        )
        fifth = decide(memory, "Use DuckDB", "database", status="proposed")
        assert [one.superseded for one in (second, third, fourth)] == [
            (saved.id,),
            (second.id,),
            (third.id,),
        ]
        assert fifth.would_supersede == (fourth.id,)
        file = (repo / fourth.path).read_text()
        assert "topic: database\nconfidence: 0.5\naffects: [src/**]\n---\n" in file
        assert memory.history("database").heads == (fourth.id,)
        assert memory.get("10")[0].record.status == "proposed"


def test_an_outcome_adds_no_header_and_a_template_is_no_record(repo: Path, memory: Memory) -> None:
    path = repo / "docs/adr/0005-use-postgresql.md"
    before = path.read_text()
    memory.update("ADR-5", outcome="success", reason="fast")
    assert path.read_text().startswith(f"{before}\n## Outcomes\n- ")
    assert memory.get("5")[0].record.outcome == "success"
    assert not [
        hit for hit in memory.search("NUMBER TITLE STATUS DATE").hits if "TITLE" in hit.record.title
    ]


def test_what_the_status_says_is_shown_once(repo: Path) -> None:
    path = repo / "docs/adr/0002-use-rest.md"
    write(
        path,
        path.read_text().replace(
            "Accepted", "Superseded by [4. Version the API](0004-version-the-api.md)"
        ),
    )
    write(repo / "docs/adr/0004-version-the-api.md", "# 4. Version the API\n\nAmends ADR-3\n")
    with Memory.open(repo, store="docs/adr") as memory:
        old, new, amended = (memory.get(one)[0] for one in ("2", "4", "3"))
        chain = memory.history("2").chain
    assert (old.record.status, old.superseded_by) == ("accepted", (new.id,))
    assert [step.hit.record.status for step in chain] == ["accepted", "accepted"]
    assert [(edge.kind, edge.target) for edge in new.related] == [("builds_on", amended.id)]
    assert [(edge.kind, edge.target) for edge in amended.related] == [("built_on_by", new.id)]


def test_check_of_a_healthy_folder_is_short_and_names_a_number_that_is_taken_twice(
    repo: Path,
) -> None:
    def check(*more: str) -> tuple[int, list[str]]:
        done = cli(repo, "--store", "docs/adr", "check", *more)
        return done.code, done.out.splitlines()

    code, lines = check()
    assert (code, [line.split()[1] for line in lines]) == (0, ["no-id", "no-topic"])
    assert all(line.endswith(" (5 files: -v lists them)") for line in lines)
    assert len(check("-v")[1]) == 10
    write(repo / "docs/adr/0005-use-mysql.md", "# 5. Use MySQL\n\nDate: 2024-01-05\n")
    code, lines = check()
    assert code == 0
    assert [line for line in lines if "same-number" in line and "0005-use-mysql.md and" in line]


def test_a_status_that_nobody_understands_never_holds_and_is_named_once(repo: Path) -> None:
    for number in (6, 7):
        text = f"# {number}. Use a cache\n\n## Status\n\nOn hold\n"
        write(repo / f"docs/adr/000{number}-use-a-cache.md", text)
    done = cli(repo, "--store", "docs/adr", "check")
    lines = [line for line in done.out.splitlines() if "unknown-status" in line]
    assert (done.code, len(lines)) == (0, 1)
    assert 'status not understood: "On hold" (and in 1 more)' in lines[0]
    assert '[status] in .filemem.toml: "on hold" = "proposed"' in lines[0]
    assert cli(repo, "--store", "docs/adr", "check", "--strict").code == 1
    status = cli(repo, "--store", "docs/adr", "status").out
    assert "2 decisions with a status that is not understood: filemem check" in status
    assert "    docs/adr/0006-use-a-cache.md\n" in status
    with Memory.open(repo, store="docs/adr") as memory:
        hit = memory.get("6")[0]
        assert not memory.search("cache", live=True)
    assert (hit.record.status, hit.record.status_written) == ("unknown", "On hold")
    assert 'status not understood: "On hold"' in cli(repo, "--store", "docs/adr", "get", "6").out


def test_files_in_forms_that_are_not_read_are_counted(repo: Path) -> None:
    write(repo / "docs/adr/0006-use-a-cache.org", "* Use a cache\n")
    line = "not read: 1 .org; filemem reads Markdown, AsciiDoc and reStructuredText"
    for command in (["init", "--dry-run"], ["status"]):
        assert line in cli(repo, "--store", "docs/adr", *command).out


def test_a_project_says_what_its_own_words_for_a_status_mean(repo: Path) -> None:
    write(repo / "docs/adr/0006-use-a-cache.md", "# 6. Use a cache\n\n## Status\n\nOn hold (Ada)\n")
    write(repo / "docs/adr/0007-use-a-queue.md", "# 7. Use a queue\n\n## Status\n\nRolled out\n")

    def found() -> dict[str, str]:
        with Memory.open(repo, store="docs/adr") as memory:
            memory.refresh()
            return {hit.title: hit.record.status for hit in memory.search("use", limit=50)}

    before = found()
    assert (before["6. Use a cache"], before["7. Use a queue"]) == ("unknown", "unknown")
    write(repo / ".filemem.toml", '[status]\n"on hold" = "proposed"\n"rolled out" = "accepted"\n')
    after = found()
    assert (after["6. Use a cache"], after["7. Use a queue"]) == ("proposed", "accepted")
    assert "unknown-status" not in cli(repo, "--store", "docs/adr", "check").out
    write(repo / ".filemem.toml", '[status]\n"on hold" = "paused"\n')
    assert "one of proposed, accepted, rejected, deprecated" in cli(repo, "search", "x").err


@pytest.mark.parametrize(
    ("written", "word"),
    [("On-Hold", "on-hold"), ("Won't fix", "Won't  fix"), ("Parked (2024)", "parked")],
)
def test_a_word_of_the_project_counts_as_it_is_written_in_a_record(
    repo: Path, written: str, word: str
) -> None:
    text = f"# 6. Use a cache\n\n## Status\n\n{written}\n"
    write(repo / "docs/adr/0006-use-a-cache.md", text)
    write(repo / ".filemem.toml", f'[status]\n"{word}" = "Rejected"\n"" = "accepted"\n')
    with Memory.open(repo, store="docs/adr") as memory:
        assert memory.get("6")[0].record.status == "rejected"


@pytest.mark.parametrize("form", [NYGARD, MADR], ids=("nygard", "madr"))
def test_topics_are_one_list_by_number(tmp_path: Path, form: str) -> None:
    repo = adrs(tmp_path / "repo", form)
    with Memory.open(repo, store="docs/adr") as memory:
        decide(memory, "Use CockroachDB", "Use PostgreSQL")
        decide(memory, "Use GraphQL", "api", supersedes=["ADR-2"])
        listed = [(one.number, one.decisions) for one in memory.topics().topics]
        assert listed == [(1, 1), (3, 1), (4, 1), (6, 2), (7, 2)]
    rows = cli(repo, "--store", "docs/adr", "topics").out.splitlines()
    assert rows[0].startswith("ADR-1  Record architecture decisions  docs/adr/0001-")
    assert rows[-1] == "ADR-7  api  Use GraphQL  (2 decisions)"


def test_the_number_of_a_forgotten_decision_is_not_taken_by_its_like(memory: Memory) -> None:
    first = decide(memory, "Use CockroachDB", "Use PostgreSQL")
    memory.delete(first.id)
    second = decide(memory, "Use CockroachDB", "Use PostgreSQL")
    assert second.path == "docs/adr/0007-use-cockroachdb.md"
    assert memory.get("ADR-7")[0].id == second.id
    assert memory.history("ADR-5").heads == (second.id,)


GERMAN = (
    "# ADR-000{n}: {t}\n\n## 1. Status\n\nAccepted\n\n## 2. Kontext\n\nx\n\n"
    "## 3. Entscheidung\n\ny\n\n## 4. Konsequenzen\n\nz\n"
)
FRENCH = "# {t}\n\n* Statut : accepted\n* Décideurs : Ada\n* Date : 2024-01-0{n}\n\n## Contexte\n\nx\n\n## Décision\n\ny\n"
GATED = "---\nid: '000{n}'\ntitle: {t}\nstate: Accepted\ncreation-date: 2024-01-0{n}\n---\n\n# 000{n} — {t}\n\n## Context\n\nx\n"


@pytest.mark.parametrize(
    ("form", "written"),
    [
        (GERMAN, "# ADR-0006: Cache pages\n\n## Status\n\nAccepted\n\n## Kontext\n\nWRITES\n\n"
         "## Entscheidung\n\nCache pages\n\n## Konsequenzen\n"),
        (FRENCH, "# Cache pages\n\n* Statut : accepted\n* Date : DAY\n\n## Contexte\n\nWRITES\n\n"
         "## Décision\n\nCache pages\n"),
        (GATED, "---\nid: '0006'\ntitle: Cache pages\nstate: Accepted\ncreation-date: DAY\n---\n# 0006 — Cache pages\n\n"
         "## Context\n\nWRITES\n\n## Decision\n\nCache pages\n"),
    ],
    ids=("german", "french", "gated"),
)  # fmt: skip
def test_words_and_keys_are_those_of_the_neighbours(
    tmp_path: Path, form: str, written: str
) -> None:
    repo = adrs(tmp_path / "repo", form)
    with Memory.open(repo, store="docs/adr") as memory:
        saved = decide(memory, "Cache pages", "Cache pages")
        file = (repo / saved.path).read_text()
        day = git(repo, "show", "-s", "--format=%cs")
        expected = written.replace("DAY", day).replace("WRITES", "Writes in several regions")
        assert file == expected
        assert memory.get(saved.id)[0].record.path == saved.path.removeprefix("docs/adr/")


def test_a_folder_named_by_dates_gets_dated_names(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    for day, title in ((24, "Use Markdown"), (25, "Use Lerna")):
        name = f"202009{day}-{title.lower().replace(' ', '-')}.md"
        write(repo / "docs/adr" / name, LIST.format(t=title, n=1))
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "ADRs")
    with Memory.open(repo, store="docs/adr") as memory:
        first = decide(memory, "Cache pages", "Cache pages")
        second = decide(memory, "Cache pages", "another topic")
    today = git(repo, "show", "-s", "--format=%cs").replace("-", "")
    assert first.path == f"docs/adr/{today}-cache-pages.md"
    assert second.path == f"docs/adr/{today}-cache-pages-2.md"
    assert (repo / first.path).read_text().startswith("# Cache pages\n\n* Status: accepted\n")


def test_a_number_that_another_branch_or_work_tree_has_is_not_taken(
    repo: Path, tmp_path: Path
) -> None:
    git(repo, "switch", "-q", "-c", "feature")
    git(repo, "switch", "-q", "main")
    write(repo / "docs/adr/0006-on-main.md", "# 6. On main\n\n## Status\n\nAccepted\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Decide")
    git(repo, "worktree", "add", "-q", str(tmp_path / "beside"), "-b", "other")
    write(tmp_path / "beside/docs/adr/0007-beside.md", "# 7. Beside\n")
    git(repo, "switch", "-q", "feature")
    with Memory.open(repo, store="docs/adr") as memory:
        assert decide(memory, "Use NATS", "queue").path == "docs/adr/0008-use-nats.md"


def test_renumber_commits_what_it_changes_or_changes_nothing(repo: Path) -> None:
    old = next((repo / "docs/adr").glob("0003-*.md"))
    with Memory.open(repo, store="docs/adr") as memory:
        note = memory.save(text=f"See {old.name}", visibility="private").path
    kept = (repo / note).read_bytes()
    done = cli(repo, "--store", "docs/adr", "renumber", str(old.relative_to(repo)))
    assert (done.code, "commit " in done.out) == (0, True)
    assert git(repo, "status", "--porcelain") == ""
    assert (repo / note).read_bytes() == kept
    young = next((repo / "docs/adr").glob("0002-*.md"))
    write(repo / "docs/adr/0009-mine.md", f"# 9. Mine\n\nSee [2]({young.name}).\n")
    refused = cli(repo, "--store", "docs/adr", "renumber", str(young.relative_to(repo)))
    assert (refused.code, "0009-mine.md links to it" in refused.err) == (5, True)
    assert git(repo, "status", "--porcelain") == "?? docs/adr/0009-mine.md"


def test_renumber_gives_the_younger_of_two_the_next_number_and_mends_links(
    repo: Path,
) -> None:
    older = "# 6. Use Kafka\n\nDate: 2024-02-01\n\n## Status\n\nAccepted\n"
    younger = "# 6. Use NATS\n\nDate: 2024-03-01\n\n## Status\n\nAccepted\n"
    link = "# 7. Queue by subject\n\nDate: 2024-04-01\n\n## Status\n\nAccepted\n\nSee [6](0006-use-nats.md).\n"
    write(repo / "docs/adr/0006-use-kafka.md", older)
    write(repo / "docs/adr/0006-use-nats.md", younger)
    write(repo / "docs/adr/0007-queue.md", link)
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Merge")
    found = cli(repo, "--store", "docs/adr", "check")
    assert "filemem renumber 6" in found.out
    done = cli(repo, "--store", "docs/adr", "renumber", "6")
    assert done.code == 0, done.err
    changed = git(repo, "show", "--name-status", "-M10", "--format=").splitlines()
    assert [row[0] for row in changed] == ["M", "R"]
    assert (repo / "docs/adr/0008-use-nats.md").read_text() == younger.replace("# 6.", "# 8.")
    assert (repo / "docs/adr/0007-queue.md").read_text() == link.replace("0006-use", "0008-use")
    assert (repo / "docs/adr/0006-use-kafka.md").read_text() == older
    assert git(repo, "status", "--porcelain") == ""
    refused = cli(repo, "--store", "docs/adr", "renumber", "docs/adr/none.md")
    assert refused.code != 0


def test_renumber_names_the_files_whose_links_it_does_not_mend(repo: Path) -> None:
    old = next((repo / "docs/adr").glob("0003-*.md"))
    others = {
        "docs/adr/0007-a.adoc": f"= 7. A\n:status: accepted\n\nSee link:{old.name}[three].\n",
        "docs/adr/0008-b.rst": f"8. B\n====\n\n:Status: accepted\n\nSee :doc:`{old.stem}`.\n",
        "docs/adr/README.md": f"- [3]({old.name})\n",
        "src/queue.py": f"# see docs/adr/{old.name}\n",
    }
    for path, text in others.items():
        write(repo / path, text)
    write(repo / "src/other.py", f"# see {old.stem}-again and 1{old.name}\n")
    write(repo / "docs/adr/0009-c.md", f"# 9. C\n\nSee [3]({old.name}).\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "More")
    done = cli(repo, "--store", "docs/adr", "renumber", str(old.relative_to(repo)))
    assert done.code == 0, done.err
    assert f"{old.name} and were not changed: {', '.join(others)}; " in done.out + done.err
    assert {path: (repo / path).read_text() for path in others} == others
    assert old.name not in (repo / "docs/adr/0009-c.md").read_text()


def test_the_day_in_a_record_is_the_writers_own(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = set()
    for zone in ("Etc/GMT+12", "Etc/GMT-14"):  # 26 hours apart: never on one day
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        with Memory.open(repo, store="docs/adr") as memory:
            saved = decide(memory, f"Use {zone}", zone)
        days.add((repo / saved.path).read_text().partition("Date: ")[2][:10])
    monkeypatch.undo()
    time.tzset()
    assert len(days) == 2


ADOC = "= {n}. {t}\n:status: accepted\n:date: 2024-01-0{n}\n\n== Context\n\nWhy.\n\n== Decision\n\n{t}.\n"
RST = "{n}. {t}\n============================\n\n:Status: accepted\n:Date: 2024-01-0{n}\n\nContext\n-------\n\nWhy.\n"


@pytest.mark.parametrize(("form", "suffix"), [(ADOC, "adoc"), (RST, "rst")], ids=("adoc", "rst"))
def test_records_in_other_markup_are_read_and_never_written(
    tmp_path: Path, form: str, suffix: str
) -> None:
    repo = make_repo(tmp_path / "repo")
    for n, t in enumerate(TITLES[:3], 1):
        write(repo / f"docs/adr/000{n}-x.{suffix}", form.format(n=n, t=t))
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "ADRs")
    before = {path: path.read_bytes() for path in (repo / "docs/adr").iterdir()}
    planned = cli(repo, "--store", "docs/adr", "init", "--dry-run").out
    assert (
        f"3 decision records, read where they are; those in .{suffix} are never changed" in planned
    )
    assert "not read" not in planned
    with Memory.open(repo, store="docs/adr") as memory:
        memory.refresh()
        [found] = memory.search("deploy containers", limit=1).hits
        assert (found.path, found.title) == (f"docs/adr/0003-x.{suffix}", "3. Deploy by containers")
        name = f"docs/adr/0003-x.{suffix}"
        for change in (
            lambda: memory.update(name, status="rejected"),
            lambda: memory.update(name, outcome="failed", reason="x"),
            lambda: memory.delete(name, reason="x"),
            lambda: memory.adopt([name]),
            lambda: memory.renumber(name),
            lambda: memory.edit(name, before[repo / name] + b"\nx\n", before[repo / name]),
        ):
            with pytest.raises(BadInput, match=rf"{name}: .*read, never changed"):
                change()
        saved = memory.save(topic="use rest", decision="Use gRPC", reasoning="Faster")
        assert saved.path == "docs/adr/0004-use-grpc.md"
        written = (repo / saved.path).read_text()
        assert f"Supersedes [2. Use REST](0002-x.{suffix})" in written
        assert "accepted" in written
        [old] = memory.get(f"0002-x.{suffix}")
        assert old.superseded_by == (saved.id,)
    assert {path: path.read_bytes() for path in before} == before
    assert git(repo, "status", "--porcelain") == ""
