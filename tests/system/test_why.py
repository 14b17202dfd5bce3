"""Decisions and code: what governs a file, whether that code drifted, what history says came of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from filemem.memory import Memory
from tests.support import git, make_repo, write
from tests.system.tools import cli, ok, snapshot, talking

LINES = "".join(f"line {number}\n" for number in range(1, 11))


def commit(repo: Path, message: str, **files: str) -> str:
    """Write files (`__` for `/`, `_py` for `.py`) and commit them."""
    for name, text in files.items():
        write(repo / name.replace("__", "/").replace("_py", ".py"), text)
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", message)
    return git(repo, "rev-parse", "HEAD")


def decide(repo: Path, topic: str, decision: str, *affects: str, reasoning: str = "For one reason.") -> str:
    """Save a decision; returns its id."""
    paths = [part for one in affects for part in ("--affects", one)]
    saved = ok(repo, "save", "decision", "--topic", topic, "--decision", decision, "--reasoning", reasoning, *paths)
    return str(saved["id"])


def drift(repo: Path, one: str) -> str:
    return str(ok(repo, "get", one)["results"][0].get("drift", ""))


def why(repo: Path, place: str) -> list[tuple[str, str]]:
    return [(hit["kind"], hit["title"]) for hit in ok(repo, "why", place)["results"]]


def test_the_surest_come_first(repo: Path) -> None:
    commit(repo, "Code", src__cache__lru_py=LINES)
    decide(repo, "code style", "All code is formatted by a tool", "src/**")
    decide(repo, "caching", "Use Redis", "src/cache/lru.py")
    decide(repo, "caching", "Use an LRU cache", "src/cache/lru.py", "src/cache/keys.py")
    decide(
        repo,
        "eviction",
        "The lru cache evicts by time",
        reasoning="The src cache lru py evicts line 1, line 2 and line 3 first.",
    )
    decide(repo, "logging", "Log as JSON", "src/log.py")
    assert why(repo, "src/cache/lru.py") == [
        ("governs", "Use an LRU cache"),
        ("governs", "All code is formatted by a tool"),
        ("near", "The lru cache evicts by time"),
    ]
    shown = cli(repo / "src", "why", "cache/lru.py").out
    assert "governs src/cache/lru.py:" in shown
    assert "affects src/cache/lru.py" in shown
    for folder in ("src/cache", "src/cache.py"):  # a module that is a package by now
        answer = ok(repo, "why", folder)
        assert (answer["path"], answer["results"][0]["title"]) == ("src/cache", "Use an LRU cache")
    with talking(repo) as client:
        found = client.call("search", path=str(repo / "src/cache/lru.py"), live=True)
        assert {hit["title"] for hit in found["results"]} == {"Use an LRU cache", "All code is formatted by a tool"}
        outside = client.refused("search", path="/etc/passwd")
        assert (outside["field"], "outside the work tree" in outside["message"]) == ("path", True)


def test_a_line_leads_to_the_decision_that_came_with_it(repo: Path) -> None:
    commit(repo, "Code", code_py=LINES)
    write(repo / "memory/decisions/seven.md", "---\ntopic: seven\n---\n# Seven is special\n")
    changed = commit(repo, "Make it so", code_py=LINES.replace("line 7", "LINE 7"))
    one = decide(repo, "nine", "Nine is odd")
    commit(repo, f"Nine\n\nDecision: {one}", code_py=(repo / "code.py").read_text().replace("line 9", "LINE 9"))
    assert ("touched", "Seven is special") in why(repo, "code.py:7")
    assert ("touched", "Nine is odd") in why(repo, "code.py:9")
    assert [kind for kind, _ in why(repo, "code.py:3")].count("touched") == 0
    assert {title for kind, title in why(repo, "code.py") if kind == "touched"} == {"Seven is special", "Nine is odd"}
    write(repo / "code.py", "# new\n" + (repo / "code.py").read_text())
    answer = ok(repo, "why", "code.py:8")
    assert f"came with {changed[:10]}, which changed line 8: Make it so" in answer["results"][0]["because"]
    assert ok(repo, "why", "code.py:1")["note"] == "not committed yet: line 1"
    git(repo, "checkout", "-q", "code.py")
    git(repo, "mv", "code.py", "renamed.py")
    commit(repo, "Rename")
    assert ("touched", "Seven is special") in why(repo, "renamed.py:7")


def test_lines_that_speak_of_nothing_lead_to_what_the_file_is_about(repo: Path) -> None:
    about = "Invoices are rendered to PDF by a queue worker."
    commit(repo, "Code", src__invoices_py=f'"""{about}"""\n' + "\n" * 8 + "    return None, True\n")
    decide(repo, "invoices", "A queue worker renders invoices to PDF", reasoning=about)
    (told,) = ok(repo, "why", "src/invoices.py:10")["results"]
    assert (told["kind"], told["title"]) == ("near", "A queue worker renders invoices to PDF")
    assert "the whole file is near in meaning" in told["because"]
    assert "the whole file" not in ok(repo, "why", "src/invoices.py:1")["results"][0]["because"]


def test_several_lines_lead_to_all_that_came_with_them(repo: Path) -> None:
    commit(repo, "Code", src__a_py=LINES, **{"memory/decisions/ten.md": "# Ten lines are enough\n"})
    text = LINES
    for number in (3, 5, 9):
        text = text.replace(f"line {number}\n", f"LINE {number}\n")
        record = {f"memory/decisions/at{number}.md": f"# Loud at {number}\n"}
        commit(repo, f"Line {number}", src__a_py=text, **record)
    (repo / "src/a.py").write_text("# new\n" + text)
    for place in ("src/a.py:4-6", "src/a.py#L4-L6", "src/a.py#L4-6"):
        answer = ok(repo, "why", place)
        assert (answer["path"], answer["line"], answer["last_line"]) == ("src/a.py", 4, 6)
        touched = {hit["title"] for hit in answer["results"] if hit["kind"] == "touched"}
        assert touched == {"Loud at 3", "Loud at 5", "Ten lines are enough"}, place
    shown = cli(repo, "why", "src/a.py:4-6").out
    assert "came with src/a.py:4-6:" in shown
    assert "which changed lines 4 to 6: Line 5" in shown
    assert "last_line" not in ok(repo, "why", "src/a.py:4:7"), "a column"
    with Memory.open(repo) as memory:
        assert memory.why("src/a.py:4-6").lines == (4, 6)


def test_a_file_may_have_a_newline_in_its_name(repo: Path) -> None:
    name = "src/a\nb"
    write(repo / name, "1\n")
    commit(repo, "Code")
    decide(repo, "code", "Keep it", "src/*")
    assert why(repo, name) == why(repo, f"{name}:1") == [("governs", "Keep it")]
    assert "gone" not in cli(repo, "why", name).out


def test_a_file_that_is_not_there_is_not_answered_for_as_if_it_were(repo: Path) -> None:
    commit(repo, "Code", src__a_py=LINES)
    decide(repo, "caching", "Use an LRU cache", "src/**")
    decide(repo, "naming", "The src zzz py is named after nothing")
    answer = ok(repo, "why", "src/aa.py")
    assert (answer["note"], [hit["kind"] for hit in answer["results"]]) == (
        "there is no file src/aa.py; did you mean src/a.py?",
        ["governs"],
    )
    assert ok(repo, "why", "src/zzz_new.py")["note"] == "there is no file src/zzz_new.py"
    assert ok(repo / "src", "why", "src/a.py:3")["path"] == "src/a.py"
    assert "note" not in ok(repo, "why", "src/a.py")


def test_a_save_names_what_it_states_and_nothing_matches(repo: Path) -> None:
    commit(repo, "Code", src__a_py=LINES)
    write(repo / "lib/new.py", "not added yet\n")

    def noted(*affects: str) -> str:
        paths = [part for one in affects for part in ("--affects", one)]
        fields = (
            "--topic",
            "t",
            "--decision",
            f"Govern {' '.join(affects)}",
            "--reasoning",
            "r",
            "--status",
            "proposed",
        )
        return str(ok(repo, "save", "decision", *fields, *paths).get("note", ""))

    assert noted("src/a.py", "src", "src/", "./src/*.py", "**/new.py", "lib/**", "memory/**") == ""
    assert noted("src/typo.py", "src/a.py", "*.zig") == "affects src/typo.py, *.zig: no file matches that yet"
    assert noted("src/[ab].py").endswith("no file matches that yet; only * ? and ** are wildcards")
    assert noted("../x").count("affects") == 1, "that it lies outside is enough"
    git(repo, "sparse-checkout", "set", "memory")
    assert not (repo / "src").exists()
    assert noted("src/a.py", "src/**") == ""
    alone = make_repo(repo.parent / "alone")
    write(alone / ".filemem.toml", 'store = "."\n')
    saved = ok(alone, "save", "decision", "--topic", "t", "--decision", "D", "--reasoning", "r", "--affects", "x.py")
    assert "note" not in saved, "its code is elsewhere"


def test_what_a_limit_leaves_out_is_counted(repo: Path) -> None:
    commit(repo, "Code", src__a_py=LINES)
    for number in range(4):
        decide(repo, f"topic {number}", f"Use number {number}", "src/a.py")
    answer = ok(repo, "why", "src/a.py", "-n", "3")
    assert (answer["count"], answer["total"]) == (3, 4)
    assert "note: 3 of 4 are shown: -n 4 shows all" in cli(repo, "why", "src/a.py", "-n", "3").out
    assert "are shown" not in cli(repo, "why", "src/a.py").out


def test_a_file_is_governed_under_the_name_it_had(repo: Path) -> None:
    commit(repo, "Code", src__old_py=LINES)
    one = decide(repo, "naming", "Keep it small", "src/old.py")
    git(repo, "mv", "src/old.py", "src/new.py")
    commit(repo, "Rename")
    assert why(repo, "src/new.py") == [("governs", "Keep it small")]
    assert drift(repo, one) == ""


def test_what_changed_a_file_under_another_name_before_it_was_renamed_back_is_found(repo: Path) -> None:
    commit(repo, "Code", a_py=LINES)
    ages, sizes = decide(repo, "evict", "Evict by age"), decide(repo, "limits", "Limit by size")
    git(repo, "mv", "a.py", "b.py")
    commit(repo, "Away")
    commit(repo, f"Limit\n\nDecision: {sizes}", b_py=f"{LINES}more\n")
    commit(repo, f"Evict\n\nDecision: {ages}", b_py=f"{LINES}more\nand more\n")
    git(repo, "mv", "b.py", "a.py")
    commit(repo, "Back")
    told = why(repo, "a.py:12")
    assert told[0] == ("touched", "Evict by age")
    assert why(repo, "a.py")[:2] == [told[0], ("touched", "Limit by size")], "the newest first"


@pytest.mark.parametrize(
    ("place", "code", "words"),
    [
        ("../x.py", 2, "outside the work tree"),
        ("/etc/passwd", 2, "outside the work tree"),
        ("code.py:99", 2, "has 1 line, not 99"),
        ("cod.py", 4, "did you mean code.py?"),
        ("code.py:1-2", 2, "has 1 line, not 2"),
        ("code.py:2-1", 2, "'2-1' names no lines of code.py"),
        ("code.py:main", 2, "code.py:40-60 are several"),
        ("code.py#main", 2, "'main' names no lines of code.py"),
    ],
)
def test_places_that_are_none(repo: Path, place: str, code: int, words: str) -> None:
    done = cli(repo, "why", place)
    assert (done.code, words in done.err) == (code, True), done.err


def test_drift_is_told_from_git_and_looking_refreshes_nothing(repo: Path) -> None:
    commit(repo, "Code", src__a_py="a\n", src__b_py="b\n", src__c_py="c\n", other_py="x\n")
    one = decide(repo, "src", "Keep src simple", "src/*.py")
    assert drift(repo, one) == "", "silent where nothing changed"
    commit(repo, "Elsewhere", other_py="y\n")
    assert drift(repo, one) == ""
    commit(repo, "Change", src__a_py="A\n", src__b_py="B\n")
    commit(repo, "Change more", src__a_py="AA\n")
    told = "changed (2 of 3 files, 2 commits)"
    before = snapshot(repo)
    for _ in range(2):
        assert drift(repo, one) == told
        assert ok(repo, "why", "src/c.py")["results"][0]["drifted"] == ["src/a.py", "src/b.py"]
        assert f"the code that it governs was largely rewritten: {told}: src/a.py, src/b.py" in cli(repo, "check").out
    assert snapshot(repo) == before
    assert cli(repo, "check").code == 0, "drift is advice"
    assert cli(repo, "check", "--strict").code == 1
    assert ok(repo, "search", "--path", "src/a.py")["results"][0]["drift"] == told
    commit(repo, "Take it back", src__a_py="a\n", src__b_py="b\n")
    assert drift(repo, one) == ""
    git(repo, "rm", "-q", "-r", "src")
    commit(repo, "Remove")
    assert drift(repo, one).startswith("missing (3 of 3 files, 4 commits)")
    assert ok(repo, "get", one)["results"][0]["title"] == "Keep src simple"


def test_check_tells_of_code_that_left_its_decision_behind_and_of_less_when_asked(repo: Path) -> None:
    """Work goes on after a decision: what is said each time must be worth reading."""
    text = "".join(f"    line {number}\n\n" for number in range(10))
    commit(repo, "Code", src__a_py=text, src__b_py=text, src__data_py="x" * (1 << 20), gone_py="1\n")
    one = decide(repo, "src", "Keep src simple", "src/*.py")
    commit(
        repo, "Grow and indent", src__a_py=text.replace("    ", "\t\t").replace("line 1", "line one") + "more\n" * 30
    )
    commit(repo, "Write one of three anew", src__b_py="new\n")
    told = "changed (2 of 3 files, 2 commits)"
    assert (drift(repo, one), cli(repo, "check").out) == (told, "1 record checked: clean\n")
    listed = cli(repo, "check", "--drift", "--strict")
    assert (listed.code, "1 hint" in listed.err) == (0, True), "what was asked for stops nothing"
    assert f"drift the code that it governs is {told}: src/a.py, src/b.py" in listed.out
    commit(repo, "Data is not read as lines", src__data_py="y" * (1 << 20) + "y")
    assert cli(repo, "check").code == 0
    assert "drift" not in cli(repo, "check").out
    commit(repo, "Write another anew", src__a_py="new\n")
    assert "was largely rewritten: changed (3 of 3 files, 4 commits)" in cli(repo, "check").out
    two = decide(repo, "gone", "Keep it", "gone.py", "src/*.py")
    git(repo, "rm", "-q", "gone.py")
    commit(repo, "Remove")
    assert drift(repo, two).startswith("missing (1 of 4 files")
    assert "the code that it governs is missing (1 of 4 files, 1 commit): gone.py is gone" in cli(repo, "check").out
    refused = cli(repo, "check", "--lint", "--drift", "memory")
    assert (refused.code, "--drift" in refused.err) == (2, True)


@pytest.mark.parametrize("how", ["--no-ff", "--squash"])
def test_a_decision_lands_with_its_branch_however_it_is_merged(repo: Path, how: str) -> None:
    commit(repo, "Code", code_py="1\n")
    git(repo, "checkout", "-q", "-b", "feature")
    one = decide(repo, "code", "Rewrite it", "code.py")
    commit(repo, "Rewrite", code_py="2\n")
    git(repo, "checkout", "-q", "main")
    git(repo, "merge", "-q", how, *(["-m", "Merge"] if how == "--no-ff" else []), "feature")
    if how == "--squash":
        git(repo, "commit", "-q", "-m", "Feature")
    git(repo, "branch", "-D", "feature")
    assert drift(repo, one) == ""
    commit(repo, "Change", code_py="3\n")
    assert drift(repo, one) == "changed (1 of 1 file, 1 commit)"


def test_what_is_not_known_is_not_called_stale(repo: Path, tmp_path: Path) -> None:
    commit(repo, "Code", code_py="1\n")
    abroad = decide(repo, "abroad", "Follow the other project", "../other/x.py")
    planned = decide(repo, "plan", "There will be a file", "src/planned.py")
    known = decide(repo, "code", "Keep it", "code.py")
    assert drift(repo, abroad) == "unknown: it names no path of this repository"
    assert drift(repo, planned) == "unknown: src/planned.py is not in Git"
    commit(repo, "Change", code_py="2\n")
    assert "drift" in cli(repo, "check").out
    git(tmp_path, "clone", "-q", "--depth", "1", repo.as_uri(), "shallow")
    assert drift(tmp_path / "shallow", known).startswith("unknown: history does not show")
    assert "drift" not in cli(tmp_path / "shallow", "check").out
    write(
        repo / "memory/decisions/new.md", "---\nid: decision_new_1763650000123_k3f9w2ma\naffects: code.py\n---\n# New\n"
    )
    new = "decision_new_1763650000123_k3f9w2ma"
    assert drift(repo, new) == "unknown: the decision is not committed yet"
    for asked in (("why", "code.py"), ("search", "--path", "code.py")):
        told = {one["id"]: one.get("drift", "") for one in ok(repo, *asked)["results"]}
        assert told[new] == "unknown: the decision is not committed yet", "every door tells the same"
        assert "its code is unknown: the decision is not committed yet" in cli(repo, *asked).out
        there = {one["id"]: one.get("drift", "") for one in ok(tmp_path / "shallow", *asked)["results"]}
        assert there[known] == drift(tmp_path / "shallow", known)
    assert not any("drift" in one for one in ok(repo, "search")["results"]), "a list looks at no code"


def test_links_and_submodules_are_governed_as_files_are(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = make_repo(repo / "part/vendor")
    write(repo / ".gitmodules", '[submodule "vendor"]\n\tpath = part/vendor\n\turl = ../vendor\n\tignore = all\n')
    (repo / "part/current").symlink_to("one.py")
    commit(repo, "Code", part__one_py="1\n", part__two_py="2\n")
    vendor = decide(repo, "vendor", "Vendor it", "part/vendor")
    link = decide(repo, "link", "Use the first", "part/current")
    every = decide(repo, "part", "Keep it", "part")
    assert [drift(repo, one) for one in (vendor, link, every)] == ["", "", ""]
    git(inner, "commit", "-q", "--allow-empty", "-m", "Next")
    commit(repo, "Bump")
    (repo / "part/current").unlink()
    (repo / "part/current").symlink_to("two.py")
    commit(repo, "Switch")
    one = "changed (1 of 1 file, 1 commit)"
    assert [drift(repo, each) for each in (vendor, link, every)] == [one, one, "changed (2 of 4 files, 2 commits)"]
    told = cli(repo, "check", "--drift").out
    assert "part/vendor" in told, "what is in another repository is not looked into"
    monkeypatch.setattr("filemem.memory.governing.SOON", 1e-6)
    assert [drift(repo, each) for each in (link, every)] == ["changed (1 of 1 file)", "changed (2 of 4 files)"]
    (repo / "part/current").unlink()
    commit(repo, "A file of its own", part__current="3\n")
    assert drift(repo, every) == "changed (2 of 4 files)"


def test_what_lies_in_a_submodule_is_asked_in_there(repo: Path) -> None:
    inner = make_repo(repo / "part/vendor")
    commit(inner, "Library", lib_py="1\n")
    write(repo / ".gitmodules", '[submodule "vendor"]\n\tpath = part/vendor\n\turl = ../vendor\n')
    commit(repo, "Vendor it", part__own_py="2\n")
    told = "part/vendor is a submodule: what its own memory and history say is asked in there"
    assert told in cli(repo, "why", "part/vendor/lib.py").out
    gone = cli(repo, "why", "part/vendor/none.py")
    assert (gone.code, told in gone.err) == (4, True)
    decide(repo, "vendor", "Use this library", "part/vendor")
    for place in ("part/vendor", "part/vendor/lib.py", "part/vendor/lib.py:1"):
        assert ("governs", "Use this library") in why(repo, place)
        assert told in cli(repo, "why", place).out
    assert "submodule" not in cli(repo, "why", "part/own.py").out + cli(repo, "why", "part").out


def test_a_place_is_taken_as_people_name_it(repo: Path) -> None:
    commit(repo, "Code", src__a_py=LINES, src__b_py="1\n")
    decide(repo, "one", "Use one", str(repo / "src/a.py"), "src/a.py")
    decide(repo, "all", "Use all", str(repo / "src/**"))
    decide(repo, "none", "Use what is elsewhere", "/elsewhere/a.py")
    found = {hit["title"]: hit["affects"] for hit in ok(repo, "search", "--path", "src/a.py:3")["results"]}
    assert found == {"Use one": ["src/a.py"], "Use all": ["src/**"]}
    assert "names no lines of src/a.py" in cli(repo, "search", "--path", "src/a.py:three").err
    with talking(repo) as client:
        for path in ("src/a.py:3-4", "src/a.py#L3", str(repo / "src/a.py:3")):
            assert {hit["title"] for hit in client.call("search", path=path)["results"]} == found.keys()
    commit(repo, "A file with such a name", **{"src/a.py:3": "1\n"})
    assert [hit["title"] for hit in ok(repo, "search", "--path", "src/a.py:3")["results"]] == ["Use all"]
    for place, at in ((".", repo), (str(repo), repo), ("src", repo), (".", repo / "src")):
        assert [hit["title"] for hit in ok(at, "why", place)["results"][:2]] == ["Use one", "Use all"]
    assert {hit["title"] for hit in ok(repo, "search", "--path", ".")["results"]} == found.keys()


def test_a_place_may_be_named_through_a_link(repo: Path) -> None:
    commit(repo, "Code", src__a_py=LINES)
    (link := repo.parent / "link").symlink_to(repo)
    decide(repo, "one", "Use one", str(link / "src/a.py"))
    for command in (("why", str(link / "src/a.py")), ("search", "--path", str(link / "src/a.py:1"))):
        assert [hit["affects"] for hit in ok(repo, *command)["results"]] == [["src/a.py"]]
    with talking(repo) as client:
        assert client.call("search", path=str(link / "src/a.py"))["count"] == 1
    outside = cli(repo, "why", str(link.parent / "a.py"))
    assert (outside.code, "lies outside the work tree" in outside.err) == (2, True)


def test_a_link_in_the_work_tree_stands_for_what_it_leads_to(repo: Path) -> None:
    write(repo / "memory/decisions/seven.md", "---\ntopic: seven\n---\n# Seven is special\n")
    for link, end in (("link.py", "src/a.py"), ("folder", "src"), ("gone.py", "src/none.py")):
        (repo / link).symlink_to(end)
    (repo / "record.md").symlink_to("memory/decisions/seven.md")
    commit(repo, "Code", src__a_py=LINES)
    decide(repo, "code", "Use it", "src/a.py")
    decide(repo, "link", "Use a link", "link.py")
    for place in ("link.py", "folder/a.py", str(repo / "link.py")):
        answer = ok(repo, "why", place)
        assert (answer["path"], answer["results"][0]["title"]) == ("src/a.py", "Use it")
        assert answer["note"].endswith(" leads to src/a.py")
    assert ("touched", "Seven is special") in why(repo, "link.py:7")
    assert [title for kind, title in why(repo, "link.py") if kind == "governs"] == ["Use it", "Use a link"]
    assert "link.py leads to src/a.py" in cli(repo, "why", "link.py").out
    assert "src/a.py has 10 lines, not 11" in cli(repo, "why", "link.py:11").err
    assert "filemem history memory/decisions/seven.md" in cli(repo, "why", "record.md").out
    gone = cli(repo, "why", "gone.py")
    assert (gone.code, "gone.py leads to src/none.py; there is no file src/none.py" in gone.err) == (4, True)
    found = ok(repo, "search", "--path", "link.py:3")["results"]
    assert {hit["title"] for hit in found} == {"Use it", "Use a link"}
    (repo / "src/a.py").unlink()
    beyond = cli(repo, "why", "src/a.py:11")
    assert (beyond.code, "src/a.py has 10 lines, not 11" in beyond.err) == (2, True)


def test_a_link_that_leads_out_of_the_work_tree_is_not_followed(repo: Path, tmp_path: Path) -> None:
    secret = write(tmp_path / "elsewhere/secret.py", LINES)
    (repo / "out.py").symlink_to(secret)
    (repo / "folder").symlink_to(secret.parent)
    commit(repo, "Links")
    decide(repo, "out", "Use what is elsewhere", "out.py")
    for place in ("out.py", "out.py:3"):
        assert why(repo, place) == [("governs", "Use what is elsewhere")]
        assert "out.py is a link that leads out of the work tree" in cli(repo, "why", place).out
    for command in (("why", "folder/secret.py"), ("search", "--path", "folder/secret.py:2")):
        refused = cli(repo, *command)
        assert (refused.code, "folder/secret.py lies outside the work tree" in refused.err) == (2, True)


def test_a_save_names_no_path_that_nothing_governed_before_it(repo: Path) -> None:
    first = decide(repo, "storage", "Use S3", "src/**")
    ok(repo, "update", first, "--status", "deprecated")
    save = ("save", "decision", "--reasoning", "Because", "--supersedes", first)
    for topic in ("objects", "blobs"):
        assert "src/**" not in str(ok(repo, *save, "--topic", topic, "--decision", f"Use {topic}").get("note"))
    live = decide(repo, "queues", "Use NATS", "lib/**")
    save = ("save", "decision", "--reasoning", "Because", "--supersedes", live)
    told = [str(ok(repo, *save, "--topic", topic, "--decision", topic).get("note")) for topic in ("kafka", "rabbit")]
    assert ["lib/** any more" in note for note in told] == [True, False]


def test_a_path_that_only_a_replaced_decision_states_is_told_of(repo: Path) -> None:
    commit(repo, "Code", a_py="1\n", b_py="1\n")
    decide(repo, "caching", "Use Redis", "a.py", "b.py")
    old = decide(repo, "caching", "Use an LRU cache", "a.py", "b.py")
    decide(repo, "other", "Leave b alone", "b.py")
    saved = ok(
        repo, "save", "decision", "--topic", "caching", "--decision", "Use no cache", "--reasoning", "Fast enough"
    )
    assert saved["note"].startswith("no decision governs a.py any more: what this one replaces did")
    (hit,) = [hit for hit in ok(repo, "why", "a.py")["results"] if hit["kind"] == "governed"]
    assert (hit["id"], hit["superseded_by"]) == (old, [saved["id"]])
    assert hit["because"].startswith("affects a.py; ")
    assert "Use no cache" in hit["because"]
    assert "governed, until it was replaced, a.py:" in cli(repo, "why", "a.py").out
    again = ok(repo, "save", "decision", "--topic", "caching", "--decision", "Use an LRU cache again", "--reasoning",
               "Slow after all", "--affects", "a.py")  # fmt: skip
    assert "note" not in again
    kinds = [kind for kind, _ in why(repo, "a.py")]
    assert (kinds[0], "governed" in kinds) == ("governs", False)


def test_a_proposal_that_is_accepted_tells_what_it_leaves_ungoverned(repo: Path) -> None:
    commit(repo, "Code", a_py="1\n")
    decide(repo, "caching", "Use Redis", "a.py")
    save = ("save", "decision", "--topic", "caching", "--decision", "Use no cache", "--reasoning", "r")
    new = ok(repo, *save, "--status", "proposed")
    assert "note" not in new
    told = ok(repo, "update", new["id"], "--status", "accepted")
    assert told["note"].startswith("no decision governs a.py any more: what this one replaces did")
    assert "note" not in ok(repo, "update", new["id"], "--status", "deprecated")


def test_a_commit_that_carries_a_decision_out_is_no_drift(repo: Path) -> None:
    commit(repo, "Code", code_py="1\n")
    one = decide(repo, "code", "Rewrite it", "code.py")
    commit(repo, f"Rewrite\n\nDecision: {one.rpartition('_')[2]}", code_py="2\n")
    assert drift(repo, one) == ""
    commit(repo, f"Give up\n\nDecision: {one}\nOutcome: failed", code_py="3\n")
    assert drift(repo, one).startswith("changed"), "what says that it failed does not carry it out"


@pytest.mark.parametrize("how", ["--no-ff", "--squash", "--ff-only"])
def test_a_merge_carries_out_what_it_brought(repo: Path, how: str) -> None:
    """Also what a branch brought that was merged into the one that is merged; not what one says failed."""
    commit(repo, "Code", code_py="1\n", other_py="1\n")
    one, two = decide(repo, "code", "Rewrite it", "code.py"), decide(repo, "other", "Rewrite that", "other.py")
    git(repo, "switch", "-q", "-c", "feature")
    git(repo, "switch", "-q", "-c", "part")
    said = f"Rewrite\n\nDecision: {one}\nDecision: {two}"
    commit(repo, said, code_py="2\n", other_py="2\n")
    git(repo, "switch", "-q", "feature")
    git(repo, "merge", "-q", how if how != "--squash" else "--no-ff", "--no-edit", "part")
    failed = f"It does not do\n\nDecision: {two}\nOutcome: failed"
    commit(repo, failed, other_py="3\n")
    git(repo, "switch", "-q", "main")
    git(repo, "merge", "-q", how, *(["--no-edit"] if how == "--no-ff" else []), "feature")
    if how == "--squash":
        git(repo, "commit", "-q", "-m", f"Rewrite\n\nDecision: {two}\nOutcome: failed\nDecision: {one}")
    assert drift(repo, one) == ""
    assert drift(repo, two).startswith("changed (1 of 1 file, 1 commit)")
    commit(repo, "Go on", code_py="4\n")
    assert drift(repo, one) == "changed (1 of 1 file, 1 commit)"


def test_a_file_that_came_and_was_reverted_is_not_missing(repo: Path) -> None:
    one = decide(repo, "web", "Write the page by hand", "web/**")
    commit(repo, "Add a page", web__a_js="1\n")
    git(repo, "revert", "--no-edit", "HEAD")
    assert drift(repo, one) == ""


def test_a_stated_path_that_came_and_went_is_missing(repo: Path) -> None:
    commit(repo, "Code", old_py="1\n")
    one = decide(repo, "web", "Write the page by hand", "web/a.py")
    two = decide(repo, "both", "Leave both", "web/a.py", "old.py")
    folder = decide(repo, "folder", "Keep the folder", "web")
    assert drift(repo, one) == "unknown: web/a.py is not in Git"
    commit(repo, "Add a page", web__a_py="1\n")
    assert [drift(repo, each) for each in (one, two, folder)] == ["", "", ""]
    git(repo, "rm", "-q", "web/a.py")
    git(repo, "commit", "-q", "-m", "Remove the page")
    gone = "missing (1 of {}, 1 commit): web/a.py is gone"
    told = [drift(repo, each) for each in (one, two, folder)]
    assert told == [gone.format("1 file"), gone.format("2 files"), ""]
    assert gone.format("1 file") in cli(repo, "check").out
    commit(repo, "Add another page", web__a_py="2\n")
    assert [drift(repo, each) for each in (one, two, folder)] == ["", "", ""], "compared with what it was when it came"
    git(repo, "mv", "web/a.py", "web/b.py")
    git(repo, "commit", "-q", "-m", "Rename the page")
    assert drift(repo, one) == "", "it went on under another name"


def evidence(repo: Path, one: str) -> list[str]:
    return list(ok(repo, "get", one)["results"][0].get("evidence", []))


def test_what_took_a_decision_away_speaks_no_more_against_one_that_was_brought_back(repo: Path) -> None:
    one = decide(repo, "caching", "Use Redis")
    git(repo, "revert", "--no-edit", "HEAD")
    ok(repo, "restore", one)
    assert evidence(repo, one) == []
    assert "evidence" not in cli(repo, "check").out
    commit(repo, f"Work\n\nDecision: {one}", code_py="2\n")
    git(repo, "revert", "--no-edit", "HEAD")
    assert len(evidence(repo, one)) == 1, "a revert that leaves the record"


def test_a_revert_speaks_against_a_decision_until_an_outcome_answers(repo: Path) -> None:
    commit(repo, "Code", code_py="1\n")
    one = decide(repo, "code", "Rewrite it")
    done = commit(repo, f"Rewrite\n\nDecision: {one}", code_py="2\n")
    assert evidence(repo, one) == []
    before = snapshot(repo / "memory")
    git(repo, "revert", "--no-edit", done)
    undone = git(repo, "rev-parse", "HEAD")
    told = f"possibly failed: reverted in {undone[:10]}"
    assert told in cli(repo, "search", "rewrite").out
    assert evidence(repo, one) == [told]
    assert told in cli(repo, "why", "code.py").out
    assert f"evidence {told}; if so: filemem update {one} --outcome failed" in cli(repo, "check").out
    assert snapshot(repo / "memory") == before, "nothing is changed silently"
    assert ok(repo, "get", one)["results"][0]["outcome"] == "pending"
    ok(repo, "update", one, "--outcome", "partial", "--reason", "Half of it came back")
    assert evidence(repo, one) == []
    assert "evidence" not in cli(repo, "check").out


def test_only_an_outcome_that_came_later_answers_a_revert(repo: Path) -> None:
    commit(repo, "Code", code_py="1\n")
    one = decide(repo, "code", "Rewrite it")
    done = commit(repo, f"Rewrite\n\nDecision: {one}", code_py="2\n")
    ok(repo, "update", one, "--outcome", "success", "--reason", "It runs")
    git(repo, "switch", "-q", "-c", "side")
    ok(repo, "update", one, "--outcome", "success", "--reason", "It runs here too")
    git(repo, "switch", "-q", "main")
    git(repo, "revert", "--no-edit", done)
    told = [f"possibly failed: reverted in {git(repo, 'rev-parse', 'HEAD')[:10]}"]
    ok(repo, "update", one, "--tag", "x")
    assert evidence(repo, one) == told, "another edit is no answer"
    git(repo, "merge", "-q", "--no-edit", "side")
    (path,) = (repo / "memory/decisions").rglob("*.md")
    git(repo, "mv", str(path), "memory/decisions/moved.md")
    git(repo, "commit", "-q", "-m", "Rename")
    ok(repo, "update", one, "--tag", "y")
    assert evidence(repo, one) == told, "nor is one that was given elsewhere before"
    ok(repo, "update", one, "--outcome", "partial", "--reason", "Half of it came back")
    for tag in "abcdef":
        ok(repo, "update", one, "--tag", tag)
    assert evidence(repo, one) == [], "however often it was edited since"


def test_an_answer_to_a_revert_outlives_what_comes_after_it(repo: Path) -> None:
    commit(repo, "Code", code_py="1\n")
    one = decide(repo, "code", "Rewrite it")
    done = commit(repo, f"Rewrite\n\nDecision: {one}", code_py="2\n")
    (path,) = (repo / "memory/decisions").rglob("*.md")
    git(repo, "mv", str(path), "memory/decisions/second.md")
    git(repo, "commit", "-q", "-m", "Rename")
    git(repo, "revert", "--no-edit", done)
    git(repo, "branch", "side")
    ok(repo, "update", one, "--outcome", "partial", "--reason", "Half of it came back")
    git(repo, "switch", "-q", "side")
    edited = (repo / "memory/decisions/second.md").read_text().replace("# Rewrite it", "# Rewrite all of it")
    write(repo / "memory/decisions/second.md", edited)
    git(repo, "commit", "-qam", "Title", GIT_COMMITTER_DATE="2033-01-01T00:00:00Z")
    git(repo, "switch", "-q", "main")
    git(repo, "merge", "-q", "--no-edit", "side")
    assert evidence(repo, one) == [], "though a side came in that did not have it"
    git(repo, "mv", "memory/decisions/second.md", "memory/decisions/third.md")
    git(repo, "commit", "-q", "-m", "Rename")
    assert evidence(repo, one) == [], "though the name that it had then is neither the first nor the last"


def test_an_outcome_from_before_under_a_name_in_between_is_no_answer(repo: Path) -> None:
    commit(repo, "Code", code_py="1\n")
    one = decide(repo, "code", "Rewrite it")
    (path,) = (repo / "memory/decisions").rglob("*.md")
    git(repo, "mv", str(path), "memory/decisions/second.md")
    git(repo, "commit", "-q", "-m", "Rename")
    ok(repo, "update", one, "--outcome", "success", "--reason", "It works")
    git(repo, "commit", "-q", "--allow-empty", "-m", f"No\n\nDecision: {one}\nOutcome: failed",
        GIT_COMMITTER_DATE=(datetime.now(UTC) + timedelta(minutes=1)).isoformat())  # fmt: skip
    told = evidence(repo, one)
    git(repo, "mv", "memory/decisions/second.md", "memory/decisions/third.md")
    git(repo, "commit", "-q", "-m", "Rename")
    commit(
        repo, "Edit", **{"memory/decisions/third.md": (repo / "memory/decisions/third.md").read_text() + "\nMore.\n"}
    )
    assert len(told) == 1
    assert evidence(repo, one) == told


def test_a_typo_that_is_mended_in_an_outcome_from_before_is_no_answer(repo: Path) -> None:
    commit(repo, "Code", code_py="1\n")
    one = decide(repo, "code", "Rewrite it")
    done = commit(repo, f"Rewrite\n\nDecision: {one}", code_py="2\n")
    ok(repo, "update", one, "--outcome", "success", "--reason", "It wroks")
    git(repo, "revert", "--no-edit", done)
    told = evidence(repo, one)
    (path,) = (repo / "memory/decisions").rglob("*.md")
    write(path, path.read_text().replace("wroks", "works"))
    git(repo, "commit", "-qam", "Typo")
    assert len(told) == 1
    assert evidence(repo, one) == told


def test_each_decision_of_a_commit_has_its_own_outcome(repo: Path) -> None:
    commit(repo, "Code", code_py="1\n", more_py="1\n")
    one, other = decide(repo, "code", "Keep it", "code.py"), decide(repo, "more", "Keep that", "more.py")
    told = f"Try\n\nDecision: {one}\nOutcome: success\ndecision: {other}\nOUTCOME: failed: too slow"
    made = commit(repo, told, code_py="2\n", more_py="2\n")
    assert evidence(repo, one) == [f"possibly success: {made[:10]} says so: Try"]
    assert evidence(repo, other) == [f"possibly failed: {made[:10]} says so: too slow"]
    assert (drift(repo, one), drift(repo, other)) == ("", "changed (1 of 1 file, 1 commit)")


def test_a_trailer_may_name_a_decision_by_its_title(repo: Path) -> None:
    commit(repo, "Code", a_py="1\n", b_py="1\n", c_py="1\n")
    titles = {"a.py": "Queue plan", "b.py": "Plan, then build", "c.py": "plan"}
    one, two, other = (decide(repo, title, title, path) for path, title in titles.items())
    git(repo, "switch", "-q", "-c", "side")
    commit(repo, "Work\n\nDecision: Queue plan", a_py="2\n", c_py="2\n")
    commit(repo, f"Work\n\nDecision: plan, then  build\nDecision: {one[-8:]} Plan", a_py="3\n", b_py="3\n", c_py="3\n")
    assert [drift(repo, each) for each in (one, two)] == ["", ""]
    assert drift(repo, other) == "changed (1 of 1 file, 1 commit)", "the first commit names another"
    assert "no decision is called" not in cli(repo, "check", "--base", "main").out
    assert ("touched", "Queue plan") in why(repo, "c.py")
    failed = commit(repo, "Stop\n\nDecision: queue plan, plan\nOutcome: failed: too slow", a_py="4\n")
    told = [f"possibly failed: {failed[:10]} says so: too slow"]
    assert [evidence(repo, each) for each in (one, two, other)] == [told, [], told]
    commit(repo, "Go on\n\nDecision: No plan\nDecision: Nobody knows", d_py="1\n")
    unknown = "names the decision No, Nobody knows, which no decision is called"
    assert unknown in cli(repo, "check", "--base", "main").out


@pytest.mark.parametrize("said", ["Outcome: disaster", "Outcome: success\nOutcome: failed"])
def test_an_outcome_that_is_not_clear_carries_nothing_out_and_is_told(repo: Path, said: str) -> None:
    commit(repo, "Code", code_py="1\n")
    one = decide(repo, "code", "Keep it", "code.py")
    git(repo, "switch", "-q", "-c", "side")
    made = commit(repo, f"Try\n\nDecision: {one}\n{said}", code_py="2\n")
    assert (evidence(repo, one), drift(repo, one)) == ([], "changed (1 of 1 file, 1 commit)")
    done = cli(repo, "check", "--base", "main")
    assert (done.code, f"{made[:10]} (Try) says nothing clear of what came of {one}" in done.out) == (0, True), done
    assert cli(repo, "check", "--base", "main", "--strict").code == 1


def test_outcomes_that_differ_under_two_names_of_a_decision_are_told(repo: Path) -> None:
    commit(repo, "Code", code_py="1\n")
    one = decide(repo, "code", "Keep it", "code.py")
    git(repo, "switch", "-q", "-c", "side")
    said = f"Decision: {one[-8:]}\nOutcome: success\nDecision: Keep it\nOutcome: failed"
    made = commit(repo, f"Try\n\n{said}", code_py="2\n")
    assert (evidence(repo, one), drift(repo, one)) == ([], "changed (1 of 1 file, 1 commit)")
    told = f"{made[:10]} (Try) says nothing clear of what came of {one}: it says success and failed"
    assert told in cli(repo, "check", "--base", "main").out


@pytest.mark.parametrize("quoted", ["* Try\n\nDecision: {}\n\n* Go on", "commit 123\n\n    Try\n\n    decision: {}"])
def test_a_decision_named_outside_of_the_trailers_is_hinted_at(repo: Path, quoted: str) -> None:
    """As squashes quote the messages of what they were made of."""
    commit(repo, "Code", code_py="1\n")
    one = decide(repo, "code", "Keep it", "code.py")
    git(repo, "switch", "-q", "-c", "side")
    said = quoted.format(one)
    commit(repo, f"All of it\n\nDecision: we keep it, as ADR-1 says\n\n{said}", code_py="2\n")
    told = f"(All of it) names the decision {one} outside of its trailers"
    for _ in range(2):  # what is kept of messages tells the same
        assert drift(repo, one) == "changed (1 of 1 file, 1 commit)"
        assert cli(repo, "check", "--base", "main").out.count(told) == 1
    git(repo, "commit", "-q", "--amend", "-m", f"All of it\n\n{said}\n\nDecision: {one.rpartition('_')[2]}")
    assert drift(repo, one) == ""
    assert "no-trailer" not in cli(repo, "check", "--base", "main").out


def test_a_revert_is_known_by_its_subject_where_a_rebase_made_ids_stale(repo: Path) -> None:
    commit(repo, "Code", code_py="1\n")
    git(repo, "checkout", "-q", "-b", "side")
    one = decide(repo, "code", "Rewrite it")
    done = commit(repo, f"Rewrite\n\nDecision: {one}", code_py="2\n")
    git(repo, "revert", "--no-edit", done)
    assert len(evidence(repo, one)) == 1
    git(repo, "checkout", "-q", "main")
    commit(repo, "Go on", more_py="1\n")
    git(repo, "checkout", "-q", "side")
    git(repo, "rebase", "-q", "main")
    undone = git(repo, "rev-parse", "HEAD")
    assert evidence(repo, one) == [f"possibly failed: reverted in {undone[:10]}"]


def test_a_revert_that_was_reverted_counts_for_nothing_also_where_the_clock_ran_backwards(repo: Path) -> None:
    one = decide(repo, "code", "Rewrite it")
    done = commit(repo, f"Rewrite\n\nDecision: {one}", code_py="2\n")
    git(repo, "revert", "--no-edit", done)
    git(repo, "revert", "--no-edit", "HEAD", GIT_COMMITTER_DATE="1000000000 +0000")
    assert evidence(repo, one) == []
    git(repo, "revert", "--no-edit", "HEAD", GIT_COMMITTER_DATE="1000000001 +0000")
    told = [f"possibly failed: reverted in {git(repo, 'rev-parse', 'HEAD')[:10]}"]
    assert evidence(repo, one) == told, "taken back once more, it counts again"


def test_an_outcome_from_before_the_last_of_three_reverts_answers_none_of_them(repo: Path) -> None:
    one = decide(repo, "code", "Rewrite it")
    done = commit(repo, f"Rewrite\n\nDecision: {one}", code_py="2\n")
    git(repo, "revert", "--no-edit", done)
    git(repo, "revert", "--no-edit", "HEAD")
    again = git(repo, "rev-parse", "HEAD")
    ok(repo, "update", one, "--outcome", "success", "--reason", "It works since it was done again")
    assert evidence(repo, one) == []
    git(repo, "revert", "--no-edit", again)
    undone = git(repo, "rev-parse", "HEAD")
    assert evidence(repo, one) == [f"possibly failed: reverted in {undone[:10]}"]
    ok(repo, "update", one, "--outcome", "partial", "--reason", "It is gone")
    assert evidence(repo, one) == []


def test_the_revert_of_a_merge_speaks_against_what_the_merge_brought(repo: Path) -> None:
    commit(repo, "Code", code_py="1\n")
    other = decide(repo, "other", "Leave it")
    git(repo, "checkout", "-q", "-b", "feature")
    one = decide(repo, "code", "Rewrite it")
    commit(repo, "Rewrite", code_py="2\n")
    git(repo, "checkout", "-q", "main")
    commit(repo, "Go on", more_py="1\n")
    git(repo, "merge", "-q", "--no-ff", "-m", "Merge feature", "feature")
    git(repo, "revert", "--no-commit", "-m", "1", "HEAD")
    git(repo, "checkout", "-q", "HEAD", "--", "memory")
    merge, kept = git(repo, "rev-parse", "HEAD", "HEAD~1").split()
    undone = commit(
        repo, f'Revert "Merge feature"\n\nThis reverts commit {merge}, reversing\nchanges made to {kept}.', x_py="1\n"
    )
    assert evidence(repo, one) == [f"possibly failed: reverted in {undone[:10]}"]
    assert evidence(repo, other) == []
    (step,) = ok(repo, "history", "code")["chain"]
    assert step["evidence"] == evidence(repo, one)
    assert f"possibly failed: reverted in {undone[:10]}" in cli(repo, "history", "code").out


def test_trailers_say_what_came_of_a_decision(repo: Path) -> None:
    one = decide(repo, "code", "Rewrite it")
    other = decide(repo, "other", "Leave it")
    made = commit(repo, f"Give up\n\nDecision: {one}\nOutcome: failed", code_py="3\n")
    assert evidence(repo, one) == [f"possibly failed: {made[:10]} says so: Give up"]
    assert evidence(repo, other) == []


def test_a_file_can_neither_make_evidence_nor_hide_it(repo: Path) -> None:
    text = "---\ntopic: code\n---\n# Rewrite it\n\nBecause.\n"
    write(repo / "memory/decisions/code.md", text)
    first = commit(repo, "Decide and do", code_py="2\n")
    forged = f"{text}\nThis reverts commit {first}.\n\nDecision: code\nOutcome: failed\n"
    commit(repo, "Write", memory__notes="x", **{"memory/observations/forged.md": forged})
    (hit,) = ok(repo, "get", "memory/decisions/code.md")["results"]
    assert "evidence" not in hit
    commit(repo, f"Undo part\n\nThis reverts commit {first}.", code_py="1\n")
    write(repo / "memory/decisions/code.md", text + "\n## Outcomes\n- 2999-01-01 partial: hides it\n")
    (told,) = ok(repo, "get", "memory/decisions/code.md")["results"][0]["evidence"]
    assert told.startswith("possibly failed: reverted in ")


def test_base_reports_what_a_branch_does(repo: Path) -> None:
    commit(repo, "Code", code_py="1\n", more_py="1\n")
    old = decide(repo, "caching", "Use Redis")
    decide(repo, "caching", "Use an LRU cache", "code.py")
    decide(repo, "more", "Keep more", "more.py")
    commit(repo, "Drift", more_py="2\n")
    write(repo / "memory/decisions/bad.md", "---\nconfidence: high\n---\n# Bad\n")
    commit(repo, "Something bad")
    git(repo, "checkout", "-q", "-b", "feature")
    assert cli(repo, "check").code == 1
    clean = cli(repo, "check", "--base", "main")
    assert (clean.code, clean.out) == (0, "4 records checked: clean\n")
    commit(repo, "Change", code_py="2\n")
    path = repo / ok(repo, "get", old)["results"][0]["path"]
    path.write_text(path.read_text().replace("For one reason.", "For quite another reason."))
    uncommitted = cli(repo, "check", "--base", "main").out
    assert "edited-superseded changed after Use an LRU cache" in uncommitted
    commit(repo, "Rewrite history")
    write(repo / "memory/decisions/worse.md", "---\nconfidence: low\n---\n# Worse\n")
    found = cli(repo, "check", "--base", "main", "--json").json["problems"]
    assert {problem["code"] for problem in found if problem["level"] != "hint"} == {
        "bad-confidence",
        "drift",
        "edited-superseded",
    }
    assert all("bad.md" not in problem["path"] for problem in found)
    (edited,) = [problem["message"] for problem in found if problem["code"] == "edited-superseded"]
    assert "by Ada" in edited
    for base, code, words in (("mian", 4, "did you mean main?"), ("", 2, "--base is empty")):
        refused = cli(repo, "check", "--base", base)
        assert (refused.code, words in refused.err) == (code, True), refused.err
    git(repo, "checkout", "-q", "--orphan", "alone")
    git(repo, "commit", "-q", "-m", "Alone")
    refused = cli(repo, "check", "--base", "main")
    assert (refused.code, "have no history in common" in refused.err) == (5, True), "as diff answers it"


def test_a_fork_is_told_at_the_side_that_this_branch_adds(repo: Path) -> None:
    decide(repo, "caching", "Start simple")
    git(repo, "checkout", "-q", "-b", "feature")
    ours = decide(repo, "caching", "Use Redis")
    git(repo, "checkout", "-q", "main")
    decide(repo, "caching", "Use an LRU cache")
    git(repo, "checkout", "-q", "feature")
    git(repo, "merge", "-q", "-m", "Merge main", "main")
    (fork,) = [
        p for p in cli(repo, "check", "--base", "main", "--json").json["problems"] if p["code"] == "forked-topic"
    ]
    assert fork["path"] == ok(repo, "get", ours)["results"][0]["path"]


def test_python_has_it_too(repo: Path, memory: Memory) -> None:
    commit(repo, "Code", code_py="1\n")
    memory.save(topic="code", decision="Keep it", reasoning="One file", affects=["code.py"])
    (reason,) = memory.why("code.py").reasons
    assert (reason.kind, reason.hit.title) == ("governs", "Keep it")
    assert reason.hit.drift is not None
    assert not reason.hit.drift.drifted


def test_nothing_of_the_repository_runs(repo: Path, tmp_path: Path) -> None:
    """textconv, external diff, fsmonitor, filters and blame options of a hostile configuration."""
    commit(repo, "Code", code_py=LINES)
    one = decide(repo, "code", "Keep it", "code.py")
    commit(repo, "Change", code_py=LINES + "more\n")
    canary = tmp_path / "ran"
    program = write(tmp_path / "evil", f"#!/bin/sh\necho $0 $@ >> {canary}\ncat\n")
    program.chmod(0o755)
    write(repo / ".git/info/attributes", "* diff=evil filter=evil\n")
    for key in ("diff.evil.textconv", "diff.evil.command", "filter.evil.clean", "filter.evil.smudge", "core.fsmonitor"):
        git(repo, "config", key, str(program))
    git(repo, "config", "blame.ignoreRevsFile", str(program))
    for arguments in (
        ("why", "code.py"),
        ("why", "code.py:3"),
        ("get", one),
        ("check",),
        ("check", "--base", "HEAD~1"),
    ):
        assert cli(repo, *arguments).code == 0, arguments
    assert not canary.exists(), canary.read_text()


def test_records_on_a_branch_of_their_own_govern_the_code_beside_them(repo: Path) -> None:
    """Then the code is compared with what it was when the decision was committed on the memory's branch."""
    later: dict[str, Any] = {"GIT_COMMITTER_DATE": "2099-01-01T00:00:00Z", "GIT_AUTHOR_DATE": "2099-01-01T00:00:00Z"}
    ok(repo, "init", "--own-branch")
    commit(repo, "Code", code_py="1\n")
    one = decide(repo, "code", "Keep it", "code.py")
    assert drift(repo, one) == ""
    assert why(repo, "code.py")[0] == ("governs", "Keep it")
    write(repo / "code.py", "2\n")
    git(repo, "commit", "-q", "-a", "-m", f"Change\n\nDecision: {one}\nOutcome: failed", **later)
    assert evidence(repo, one)[0].endswith("says so: Change")
    write(repo / "code.py", "3\n")
    git(repo, "commit", "-q", "-a", "-m", "Change", **later)
    assert drift(repo, one) == "changed (1 of 1 file, 2 commits)"
    git(repo, "checkout", "-q", "-b", "feature")
    write(repo / "code.py", "4\n")
    git(repo, "commit", "-q", "-a", "-m", "Change more", **later)
    found = cli(repo, "check", "--base", "main", "--json").json["problems"]
    assert [problem["code"] for problem in found if problem["level"] != "hint"] == ["drift"]


def test_a_history_too_long_to_walk_is_told_without_its_commits(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(repo, "Code", code_py="1\n", other_py="1\n")
    one = decide(repo, "code", "Keep both", "code.py", "other.py")
    commit(repo, "Change", code_py="2\n")
    monkeypatch.setattr("filemem.memory.governing.SOON", 1e-6)
    assert drift(repo, one) == "changed (1 of 2 files)"
    assert "was largely rewritten: changed (1 of 2 files): code.py" in cli(repo, "check").out
    git(repo, "rm", "-q", "other.py")
    commit(repo, "Remove")
    told = "changed (2 of 2 files): other.py is gone"
    assert drift(repo, one) == told
    assert f"its code is {told}; changed: code.py\n" in cli(repo, "why", "code.py").out


def test_a_search_by_path_finds_what_governed_the_file_before_it_moved(repo: Path) -> None:
    commit(repo, "Code", src__auth__one_py=LINES, src__auth__two_py=LINES * 2)
    decide(repo, "auth", "Sessions are signed", "src/auth/")
    git(repo, "mv", "src/auth", "lib")
    git(repo, "commit", "-q", "-m", "Move")
    assert why(repo, "lib/two.py") == [("governs", "Sessions are signed")]
    for options in ((), ("sessions",)):
        assert [hit["title"] for hit in ok(repo, "search", *options, "--path", "lib/two.py")["results"]] == [
            "Sessions are signed"
        ]
    assert ok(repo, "search", "--path", "code.py")["count"] == 0
    assert ok(repo, "search", "--path", "lib/two.py", "--at", "HEAD~1")["count"] == 0


@pytest.mark.parametrize("merged", [False, True])
def test_an_edit_of_the_record_refreshes_nothing(repo: Path, merged: bool) -> None:
    commit(repo, "Code", code_py="1\n", other_py="1\n")
    if merged:
        git(repo, "checkout", "-q", "-b", "feature")
    one = decide(repo, "code", "Keep it", "code.py")
    if merged:
        git(repo, "checkout", "-q", "main")
        git(repo, "merge", "-q", "--no-ff", "-m", "Merge", "feature")
    commit(repo, "Rewrite", code_py="2\n")
    told = "changed (1 of 1 file, 1 commit)"
    assert drift(repo, one) == told
    path = repo / ok(repo, "get", one)["results"][0]["path"]
    path.write_text(path.read_text().replace("For one reason", "For 1 reason"))
    commit(repo, "A typo")
    assert drift(repo, one) == told
    assert "drift" in cli(repo, "check").out
    ok(repo, "forget", one)
    ok(repo, "restore", one)
    assert drift(repo, one) == told
    decide(repo, "other", "Another", "other.py")
    ok(repo, "update", one, "--outcome", "success", "--reason", "it holds")
    assert drift(repo, one) == told
    assert ok(repo, "search", "--path", "code.py")["results"][0]["drift"] == told


def test_an_outcome_says_that_somebody_looked(repo: Path) -> None:
    """`check` warns of what came after the newest outcome; the drift is told as it is everywhere else."""
    commit(repo, "Code", code_py="1\n")
    one = decide(repo, "code", "Keep it", "code.py")
    commit(repo, "Rewrite", code_py="2\n")
    assert "was largely rewritten" in cli(repo, "check").out
    ok(repo, "update", one, "--outcome", "success", "--reason", "it holds")
    assert cli(repo, "check").out == "1 record checked: clean\n"
    assert "is changed (1 of 1 file, 1 commit)" in cli(repo, "check", "--drift").out
    path = repo / ok(repo, "get", one)["results"][0]["path"]
    path.write_text(path.read_text().replace("For one reason", "For 1 reason"))
    commit(repo, "Rewrite again", code_py="3\n")
    commit(repo, "Go on", code_py="4\n")
    assert "was largely rewritten: changed (1 of 1 file, 2 commits): code.py" in cli(repo, "check").out
    assert drift(repo, one) == "changed (1 of 1 file, 3 commits)"
    path.write_text(path.read_text() + "- 2024-01-01 partial: seen, but dated long ago\n")
    assert "was largely rewritten" in cli(repo, "check").out, "the newest is the one before"
    later = datetime.now(UTC) + timedelta(seconds=1)  # than the outcome before, to the second
    path.write_text(path.read_text() + f"- {later:%Y-%m-%dT%H:%M:%SZ} success: seen\n")
    assert cli(repo, "check").out == "1 record checked: clean\n", "also before it is committed"
    commit(repo, "Seen")
    assert cli(repo, "check").out == "1 record checked: clean\n"
    git(repo, "rm", "-q", "code.py")
    commit(repo, "Remove")
    assert "missing" in cli(repo, "check").out


@pytest.mark.parametrize("how", ["--no-ff", "--squash", "--ff-only"])
def test_base_tells_of_the_drift_that_a_merge_would_bring(repo: Path, how: str) -> None:
    """A decision lands with the code of its branch; one that was there before is left behind by it."""
    text = "".join(f"line {number}\n" for number in range(10))
    commit(repo, "Code", src__a_py=text, src__b_py=text)
    old = decide(repo, "b", "Keep b", "src/b.py")
    git(repo, "checkout", "-q", "-b", "feature")
    new = decide(repo, "a", "Rewrite a", "src/a.py")
    commit(repo, "Rewrite", src__a_py="new\n", src__b_py="new\n")
    decide(repo, "c", "Keep a as it is", "src/a.py")
    told = [one for one in cli(repo, "check", "--base", "main", "--json").json["problems"] if one["code"] == "drift"]
    assert [one["path"] for one in told] == [ok(repo, "get", old)["results"][0]["path"]]
    git(repo, "checkout", "-q", "main")
    git(repo, "merge", "-q", how, *(["-m", "Merge"] if how == "--no-ff" else []), "feature")
    if how == "--squash":
        git(repo, "commit", "-q", "-m", "Feature")
    apart = "" if how != "--ff-only" else "changed (1 of 1 file, 1 commit)"  # its commits came one by one
    assert (drift(repo, old), drift(repo, new)) == ("changed (1 of 1 file, 1 commit)", apart)


def test_what_is_gone_and_what_changed_are_told_apart(repo: Path) -> None:
    commit(repo, "Code", src__a_py="1\n", src__b_py="1\n", docs__c_py="1\n")
    one = decide(repo, "cache", "Cache it", "src", "docs/c.py")
    git(repo, "rm", "-q", "docs/c.py")
    commit(repo, "Remove")
    commit(repo, "Change", src__a_py="2\n")
    told = "missing (1 of 3 files, 1 changed, 2 commits): docs/c.py is gone"
    assert drift(repo, one) == told
    assert f"the code that it governs is {told}; changed: src/a.py" in cli(repo, "check").out
