"""The documentation as a site: `make docs` builds it from docs/ into site/, and refuses a link that leads nowhere.

Rule: the pages are plain Markdown, and what this builder needs stands here alone, so that another one can take its
place. A page asks no other host for anything.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

ROOT = Path(__file__).resolve().parent.parent
PAGES: Mapping[str, tuple[str, ...]] = {
    "Start": ("start.md",),
    "Agents": ("agents.md", "mcp.md"),
    "Viewer": ("viewer.md",),
    "Import": ("import.md", "migrating.md"),
    "Git": ("git.md", "ci.md"),
    "Search": ("ranking.md", "workspace.md", "organisation.md", "kubernetes.md", "scale.md"),
    "Format": ("format.md",),
    "Commands": ("cli.md",),
    "HTTP": ("http.md",),
    "Python": ("python.md",),
    "FAQ": ("faq.md",),
    "Project": ("architecture.md",),
}
"""What stands in the navigation, in this order; every page of docs/ is in it, but the first, index.md."""
_CONFIG = """\
[project]
site_name = "filemem"
site_description = {about}
site_url = {address}
docs_dir = "pages"
site_dir = "site"
nav = [{nav}]

[project.theme]
font = false
features = ["navigation.sections", "content.code.copy"]
palette = [
    {{ media = "(prefers-color-scheme: light)", scheme = "default" }},
    {{ media = "(prefers-color-scheme: dark)", scheme = "slate" }},
]
"""
_ASKS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
}
_LINKS = frozenset(
    ("stylesheet", "icon", "preconnect", "preload", "prefetch", "modulepreload", "dns-prefetch")
)


class Page(HTMLParser):
    """What a page asks for by itself, where its links lead, and the names of its places."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.asks, self.links, self.names = set[str](), set[str](), set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag says."""
        given = {name: value or "" for name, value in attrs}
        self.names |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        if tag == "link" and _LINKS & {*given.get("rel", "").split()}:
            self.asks.add(given["href"])
        if tag in _ASKS and _ASKS[tag] in given:
            self.asks.add(given[_ASKS[tag]])


def problems(site: Path, base: str = "/") -> Iterator[str]:
    """What is wrong with a site that is served at `base`: links that lead nowhere, what is asked of another host."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site)
        for target in sorted(page.asks | page.links):
            parts = urlsplit(urljoin(f"{base}{name.as_posix()}", target))
            if parts.scheme or parts.netloc:
                if target in page.asks and parts.scheme != "data":
                    yield f"{name} asks another host: {target}"
                continue
            found = site / unquote(parts.path.removeprefix(base))
            found = found / "index.html" if found.is_dir() else found
            if not found.is_file():
                yield f"{name}: no such page: {target}"
            elif (
                parts.fragment
                and found in pages
                and unquote(parts.fragment) not in pages[found].names
            ):
                yield f"{name}: no such place: {target}"
    for path in sorted(site.rglob("*.css")):
        if far := re.search(
            r"(?:url\(|@import )\W?(https?:)?//[^)\s]*", path.read_text(encoding="utf-8")
        ):
            yield f"{path.relative_to(site)} asks another host: {far[0]}"


def titles(docs: Path) -> dict[str, str]:
    """The heading of each page."""
    return {
        path.name: path.read_text(encoding="utf-8").partition("\n")[0].strip("# ")
        for path in docs.glob("*.md")
    }


def unlisted(docs: Path = ROOT / "docs") -> set[str]:
    """The pages that stand in no navigation."""
    return (
        {path.name for path in docs.glob("*.md")}
        - {name for names in PAGES.values() for name in names}
        - {"index.md"}
    )


def llms(docs: Path, about: Mapping[str, str], address: str) -> str:
    """llms.txt: what the project is, and where each page is as Markdown."""
    rows = [f"# filemem\n\n> {about['description']}\n\nA page is at its address as Markdown too."]
    names = titles(docs)
    for title, pages in PAGES.items():
        there = [f"- [{names[page]}]({address}{page})" for page in pages if page in names]
        rows += [f"\n## {title}", *there] if there else []
    return "\n".join(rows) + "\n"


def stage(into: Path) -> str:
    """Put the pages, and what the builder needs, into a folder; return the path at which the site is served.

    A link out of docs/ leads to the repository.
    """
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source, address = about["urls"]["Source"], about["urls"]["Documentation"]
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(ROOT / "docs", into / "pages")
    for path in (into / "pages").glob("*.md"):
        text = path.read_text(encoding="utf-8")
        path.write_text(
            re.sub(r"\]\(\.\./([^)]+)\)", rf"]({source}/blob/HEAD/\1)", text), encoding="utf-8"
        )
    names = titles(into / "pages")
    listed = {title: [page for page in pages if page in names] for title, pages in PAGES.items()}
    for title in (title for title, pages in listed.items() if not pages):
        print(f"no page yet: {title}", file=sys.stderr)
    nav = ['"index.md"']
    for title, pages in listed.items():
        inner = ", ".join(f'{{ "{names[page]}" = "{page}" }}' for page in pages)
        nav += (
            [
                f'{{ "{title}" = "{pages[0]}" }}'
                if len(pages) == 1
                else f'{{ "{title}" = [{inner}] }}'
            ]
            if pages
            else []
        )
    config = _CONFIG.format(
        about=f'"{about["description"]}"', address=f'"{address}"', nav=", ".join(nav)
    )
    (into / "zensical.toml").write_text(config, encoding="utf-8")
    (into / "llms.txt").write_text(llms(into / "pages", about, address), encoding="utf-8")
    return str(urlsplit(address).path)


def build(work: Path) -> list[str]:
    """Build the site in a folder, as its folder `site`; return what is wrong with it."""
    base = stage(work)
    subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=work, check=True
    )
    shutil.copy(work / "llms.txt", work / "site")
    for path in (work / "pages").glob("*.md"):
        shutil.copy(path, work / "site" / path.name)
    return [
        *(f"{name} is in no navigation: tools/site.py" for name in unlisted()),
        *problems(work / "site", base),
    ]


def main() -> int:
    """Build, check, and put the site into site/."""
    work = ROOT / "build" / "docs"
    if found := build(work):
        print(*found, sep="\n", file=sys.stderr)
        return 1
    shutil.rmtree(ROOT / "site", ignore_errors=True)
    shutil.move(work / "site", ROOT / "site")
    print("site/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
