"""Markdown of records as HTML that can do nothing: no raw HTML, no images, links to the web alone.

The one owner of markdown-it-py.

A title, a path or a name is never Markdown: the page sets those as text.
"""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt

MAX_LENGTH = 200_000  # characters that are rendered; what is longer is cut
_SAFE_SCHEMES = ("http://", "https://")


@cache
def _build_renderer() -> MarkdownIt:
    renderer = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    renderer.validateLink = _is_web_link  # type: ignore[method-assign]
    return renderer


def _is_web_link(url: str) -> bool:
    """An address within the repository leads nowhere from a page."""
    return url.strip().lower().startswith(_SAFE_SCHEMES)


def render_html(text: str) -> str:
    """Render a text. It is HTML for a page whose policy allows no script and no other origin."""
    return str(_build_renderer().render(text[:MAX_LENGTH]))
