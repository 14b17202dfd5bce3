"""`filemem site`: every link resolves, every record reads without script, and nothing private or personal is in it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

import pytest

from tests.support import git, make_repo, write
from tests.system.tools import cli, ok

HOSTILE = "<img src=x onerror=alert(1)>\u202e</script><script>alert(2)</script>"


class Links(HTMLParser):
    """Where a page leads, and which tags it has."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.found += [value for name, value in attrs if name in ("href", "src") and value]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory with a chain, hostile words, a private record, and an author whose name holds an address."""
    folder = make_repo(tmp_path_factory.mktemp("site") / "project")

    def save(topic: str, decision: str, *more: str) -> str:
        given = ("--topic", topic, "--decision", decision, "--reasoning", "Why not", *more)
        return str(ok(folder, "save", "decision", *given)["id"])

    old = save("caching", "Use Redis")
    git(folder, "config", "user.name", "Bob Doe <bob@example.org>")
    save("caching", "Use an LRU cache", "--builds-on", old)
    ok(folder, "update", old, "--outcome", "failed", "--reason", "too slow")
    write(
        folder / "memory/decisions/odd.md",
        f"---\nid: ../../odd {HOSTILE}\ntopic: odd\n---\n# Odd {HOSTILE}\n\n{HOSTILE}\n",
    )
    write(folder / "memory/private/decisions/a.md", "---\ntopic: pay\n---\n# Pay Ann twice\n")
    agent = "Claude <noreply@example.org>"
    ok(
        folder,
        "save",
        "checkpoint",
        "--summary",
        "Half done",
        "--next-steps",
        "The other half",
        "--agent",
        agent,
    )
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_twice_the_same(folder: Path, tmp_path: Path) -> None:
    ok(folder, "site", str(tmp_path / "a"), "--base", "https://example.org/memory")
    first = files(tmp_path / "a")
    ok(folder, "site", str(tmp_path / "b"), "--base", "https://example.org/memory/")
    ok(folder, "site", str(tmp_path / "a"), "--base", "https://example.org/memory")
    assert first == files(tmp_path / "a") == files(tmp_path / "b")
    for name in ("sitemap.xml", "feed.xml"):
        links = re.findall(
            r"https://example.org/memory/([^<\"]*)",
            (tmp_path / "a" / name).read_text(encoding="utf-8"),
        )
        ET.parse(tmp_path / "a" / name)
        assert links
        assert not [one for one in links if one and one not in first]


def test_every_page_reads_without_script_and_every_link_resolves(
    folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    told = ok(folder, "site", str(out))
    pages = sorted(out.glob("d/*/index.html"))
    assert told["records"] == len(pages) == 4
    assert not (out / "sitemap.xml").exists()
    for page in (out / "index.html", *pages):
        links = Links(page)
        assert not {"img", "iframe"} & {*links.tags}
        assert page.parent == out or "script" not in links.tags
        for link in links.found:
            assert not urlsplit(link).scheme, link
            assert (page.parent / unquote(urlsplit(link).path)).is_file(), link
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    for said in (
        "Use Redis",
        "Why not",
        "failed: too slow",
        "Half done",
        "The other half",
        "Builds on",
        "replaced</strong> by",
        "Before it in the chain",
    ):
        assert said in text
    for name in re.findall(r"\]\(([^)]*)\)", (out / "llms.txt").read_text(encoding="utf-8")):
        assert (out / name).is_file()


def test_the_page_has_its_data_in_it(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ok(folder, "site", str(out))
    inlined = re.search(
        r'<script type="application/json" id="data">(.*?)</script>',
        (out / "index.html").read_text("utf-8"),
    )
    assert inlined
    data = json.loads(inlined[1])
    assert data == json.loads((out / "data.json").read_bytes())
    assert (data["static"], data["can_write"]) == (True, False)
    for one in data["records"]:
        script = (out / one["page"]).with_name("record.js").read_text(encoding="utf-8")
        record = json.loads(script.removeprefix("viewerRecord(").removesuffix(");\n"))
        assert (record["id"], record["title"]) == (one["id"], one["title"])
    assert {one["who"] for one in data["records"] if "who" in one} == {"Ada", "Bob Doe"}


def test_nothing_private_and_no_address_of_a_person(folder: Path, tmp_path: Path) -> None:
    ok(folder, "site", str(tmp_path / "out"), "--base", "https://example.org")
    for name, data in files(tmp_path / "out").items():
        if not name.startswith("viewer/"):
            assert b"Ann" not in data, name
            assert b"@example" not in data, name


def test_a_folder_of_others_is_left_alone(folder: Path, tmp_path: Path) -> None:
    theirs = write(tmp_path / "public/index.html", "mine").parent
    refused = cli(folder, "site", str(theirs))
    assert refused.code == 2
    assert files(theirs) == {"index.html": b"mine"}
    out = tmp_path / "out"
    ok(folder, "site", str(out))
    (page,) = (
        one for one in out.glob("d/*/index.html") if "<title>Half done" in one.read_text("utf-8")
    )
    write(out / "d/mine/index.html", "mine")
    write(out / "CNAME", "example.org")
    half = page.parent.name
    ok(folder, "forget", half)
    ok(folder, "site", str(out))
    assert not page.exists()
    assert ((out / "d/mine/index.html").read_bytes(), (out / "CNAME").read_bytes()) == (
        b"mine",
        b"example.org",
    )
    with (out / ".filemem-site").open("a", encoding="utf-8") as mark:
        mark.write("../public/index.html\nCNAME\n")  # as a mark that others wrote might say
    ok(folder, "site", str(out))
    assert (out / "CNAME").exists()
    assert files(theirs) == {"index.html": b"mine"}
    script = out / "viewer/assets/app.js"
    script.unlink()
    script.symlink_to(theirs / "index.html")
    assert cli(folder, "site", str(out)).code == 2
    assert files(theirs) == {"index.html": b"mine"}
    assert cli(folder, "site", str(tmp_path / "x"), "--base", "example.org").code == 2
