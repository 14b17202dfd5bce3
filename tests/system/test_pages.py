"""The pages of the documentation: each command on them is run, each link leads somewhere, and the site asks nobody."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import git, make_repo, write
from tests.system.test_start import commands, said
from tests.system.tools import cli
from tools import site

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path for path in [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"] if path.name != "start.md"
)
ELSEWHERE = {  # what is not run here: how it begins, where it is, and by which words
    "make demo": ("tests/system/test_cli.py", '"demo.py"'),
    "make bench": ("bench/__main__.py", "click.command"),
    "python -m bench": ("bench/__main__.py", "click.command"),
    "uv tool install": ("CONTRIBUTING.md", "uvx --no-cache --from dist/*.whl"),
    "curl ": ("tests/web/test_mem_claude.py", '"/api/save"'),
    "eval ": ("tests/system/test_completion.py", "filemem completion bash"),
    "filemem completion": ("tests/system/test_completion.py", "filemem completion fish"),
    "filemem web": ("tests/web/support.py", '"web"'),
    "FILEMEM_TOKEN=": ("tests/web/test_security.py", "FILEMEM_TOKEN"),
    "filemem --personal": ("tests/system/test_personal.py", '"--personal"'),
    "filemem import": ("tests/system/test_import.py", "docs/import.md"),
    "filemem export": ("tests/system/test_import.py", "docs/import.md"),
    "export FILEMEM_ORG_": ("tests/org/test_service.py", "FILEMEM_ORG_DSN"),
    "filemem org": ("tests/org/test_service.py", '"org", "serve"'),
    "pg_dump ": ("tests/org/test_backup.py", "pg_dump"),
    "cp deploy/": ("tests/org/test_deploy.py", "example.env"),
    "mkdir deploy/ssh": ("deploy/compose.yaml", "./ssh"),
    "docker compose": ("tests/org/test_deploy.py", "compose.yaml"),
    "alias admin": ("deploy/compose.yaml", "  admin: "),
    "admin ": ("deploy/compose.yaml", "  admin: "),
    "filemem search --org": ("tests/org/test_service.py", '"search", "--org"'),
    "filemem get --org": ("tests/org/test_service.py", '"get", "--org"'),
    "filemem sync": ("tests/system/test_repositories.py", '"sync"'),
}
REVIEW = frozenset(("check", "doctor"))  # 1 is an answer of theirs
MOVE = "git subtree split"  # in the block that moves records to a branch of their own
RECORD = """---
id: decision_{topic}_1763650000123_{short}
type: decision
topic: {topic}
created: "2025-11-20T14:46:40.123Z"
supersedes: []
affects: [src/cache/**]
---
# {title}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the examples speak of: a cache, a fork about queues, a version, another side, and a branch."""
    repo = make_repo(tmp_path_factory.mktemp("pages") / "repo")
    write(repo / "src/cache/lru.py", "size = 60\n" * 60)
    for topic, title, short in (
        ("caching", "Use Redis", "k3f9w2ma"),
        ("queues", "Use NATS", "aaaa1111"),
        ("queues", "Use Kafka", "bbbb2222"),
    ):
        name = f"memory/decisions/2025/11/{topic}--20251120-x-{short}.md"
        write(repo / name, RECORD.format(topic=topic, title=title, short=short))
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Begin")
    git(repo, "tag", "v1.2")
    git(repo, "clone", "-q", "--bare", ".", "../origin.git")
    git(repo, "remote", "add", "origin", "../origin.git")
    git(repo, "fetch", "-q", "origin")
    git(repo, "switch", "-q", "-c", "feature")
    for beside in ("web", "ops"):
        git(repo, "clone", "-q", "../origin.git", f"../{beside}")
    return repo


def shown(page: Path) -> Iterator[str]:
    """Every command of a page, without the comment behind it."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(rf"(?ms)^```console\n[^`]*{MOVE}.*?^```", "", text)
    yield from (command.replace("\\\n", "") for command, _ in commands(text))
    for block in re.findall(r"(?ms)^```(?:sh|bash)\n(.*?)^```", text):
        yield from block.replace("\\\n", "").splitlines()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_runs(project: Path, page: Path) -> None:
    for command in shown(page):
        if beginning := next((one for one in ELSEWHERE if command.startswith(one)), ""):
            where, word = ELSEWHERE[beginning]
            assert word in (ROOT / where).read_text(encoding="utf-8"), command
            continue
        program, *words = shlex.split(command.partition(" > ")[0], comments=True)
        if program == "cd":
            continue
        assert program == "filemem", command
        done = cli(project, *words)
        assert done.code == 0 or (done.code == 1 and words[0] in REVIEW), (command, done)


def test_records_move_to_a_branch_of_their_own_as_the_page_has_it(
    project: Path, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "-q", str(project.parent / "origin.git"), "clone")
    clone, text = tmp_path / "clone", (ROOT / "docs/git.md").read_text(encoding="utf-8")
    write(clone / "memory/private/.gitignore", "*\n")
    (block,) = (one for one in re.findall(r"(?ms)^```console\n.*?^```", text) if MOVE in one)
    block = re.sub(r"&&\n +", "&& ", re.sub(r" +# .*", "", block))
    told = said(clone, [command for command, _ in commands(block)])
    assert git(clone, "log", "-1", "--format=%s") == "Records have a branch of their own", told
    assert [one["topic"] for one in cli(clone, "topics", "--json").json["topics"]] == [
        "caching",
        "queues",
    ], told
    assert "filemem" in git(clone, "ls-remote", "--heads", "origin"), told


def test_every_page_is_in_the_navigation() -> None:
    assert site.unlisted() == set()


def test_links_and_requests_of_a_site_are_checked(tmp_path: Path) -> None:
    write(
        tmp_path / "a/index.html",
        '<h1 id="here"></h1><a href="../b.html">b</a><a href="#here">h</a>',
    )
    write(
        tmp_path / "b.html",
        '<a href="a/#here">a</a><a href="https://example.org/">out</a><img src="data:,x">',
    )
    assert list(site.problems(tmp_path)) == []
    write(tmp_path / "404.html", '<a href="/x/a/">a</a><a href="/x/gone/">g</a>')
    assert [one.split(":")[0] for one in site.problems(tmp_path, "/x/")] == ["404.html"]
    write(
        tmp_path / "404.html",
        '<a href="a/#gone">a</a><script src="//cdn.example.org/x.js"></script>',
    )
    write(tmp_path / "c.css", '@import url("https://fonts.example.org/x.css");')
    told = "\n".join(site.problems(tmp_path))
    assert "no such place: a/#gone" in told
    assert "404.html asks another host: //cdn.example.org/x.js" in told
    assert "c.css asks another host" in told


def test_the_site_is_whole(tmp_path: Path) -> None:
    if not importlib.util.find_spec("zensical"):
        pytest.skip("Zensical is not installed: `make docs` installs it")
    assert site.build(tmp_path / "docs") == []
    told = (tmp_path / "docs/site/llms.txt").read_text(encoding="utf-8")
    assert all(
        f"/{path.name})" in told for path in (ROOT / "docs").glob("*.md") if path.name != "index.md"
    )
