"""Render the Markdown of records as safe HTML: no raw HTML, no images, only links to the web.

Only this module uses markdown-it-py. Titles, paths and names are never rendered as Markdown.
"""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt

MAX_LENGTH = 200_000  # characters of a text that are rendered; the rest is cut
_SAFE_SCHEMES = ("http://", "https://")


@cache
def _build_renderer() -> MarkdownIt:
    renderer = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    renderer.validateLink = _is_web_link  # type: ignore[method-assign]
    return renderer


def _is_web_link(url: str) -> bool:
    """Return whether a link leads to the web; a path in the repository leads nowhere on a page."""
    return url.strip().lower().startswith(_SAFE_SCHEMES)


def render_html(text: str) -> str:
    """Render a text, for a page whose policy allows no script and no other origin."""
    return str(_build_renderer().render(text[:MAX_LENGTH]))
