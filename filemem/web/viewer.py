"""A page for people, without script: what was decided, observed and left off, and a box to search it all.

Everything stored is text written by others: it is escaped, shown, and never followed.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from filemem.dialects.present import asides, everything
from filemem.dialects.reader import Reader
from filemem.dialects.reader import search as look
from filemem.errors import FilememError
from filemem.record import DECISION, OBSERVATION, Record, format_time
from filemem.web.route import Arguments, Told

if TYPE_CHECKING:
    from filemem.memory import Memory
    from filemem.query import Hit

DECISIONS, OBSERVATIONS, FOUND = 25, 15, 30
_STYLE = """
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }
article { border-left: .25rem solid #bbb; padding-left: 1rem; margin: 1rem 0; }
article.old { opacity: .6; } small { color: #555; } pre { white-space: pre-wrap; overflow-wrap: anywhere; }
h1 a { color: inherit; text-decoration: none; } input[type=search] { width: 70%; font: inherit; }
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_HASH}'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
}
_DATA = (("graph", "graph"), ("export", "api/memory/export?format=markdown"), ("log", "api/daemon/logs"))


def page(memory: Memory, arguments: Arguments) -> Told:
    """Draw the page: a search where `q` is given, a topic or a record where one is named, else what is new."""
    view, status = _View(memory, arguments.get("token", "")), 200
    try:
        if arguments.get("q"):
            body = view.found(arguments["q"])
        elif arguments.get("topic"):
            chain = memory.history(arguments["topic"])
            hits = memory.get(*(step.record.id for step in reversed(chain.chain)))
            body = f"<h2>{escape(chain.topic)}</h2>" + view.articles(hits, whole=True)
        elif arguments.get("id"):
            body = view.articles((hit for hit in memory.get(arguments["id"]) if _everybody(hit.record)), whole=True)
        else:
            body = view.newest()
        body = f"<p>{escape(memory.lacked)}</p>{body}" if memory.lacked else body
    except FilememError as error:
        body, status = f"<h2>{escape(error.message)}</h2><p>{escape(error.hint)}</p>", 404
    return Told(_frame(view, body, arguments.get("q", "")), status, "text/html; charset=utf-8", HEADERS)


def _everybody(record: Record) -> bool:
    """Whether a record is meant for all who have the repository: a page has no name to give."""
    return record.visibility != "private" and Reader("").may_see(record)


class _View:
    """Draws the parts; links carry the token on where the page itself was asked for with it."""

    def __init__(self, memory: Memory, token: str) -> None:
        self.memory, self.token = memory, token

    def link(self, text: str, address: str = "viewer", **asked: str) -> str:
        """A link within this server."""
        given = {**asked, **({"token": self.token} if self.token else {})}
        mark = "&" if "?" in address else "?"
        where = f"/{address}{mark}{urlencode(given)}" if given else f"/{address}"
        return f'<a href="{escape(where)}">{escape(text)}</a>'

    def newest(self) -> str:
        """What was decided, observed and left off last."""
        found = self.memory.latest_checkpoint()
        parts = ["<h2>Checkpoint</h2>", self.articles(found[:1], whole=True)] if found else []
        for title, kind, count in (("Decisions", DECISION, DECISIONS), ("Observations", OBSERVATION, OBSERVATIONS)):
            parts += [f"<h2>{title}</h2>", self.articles(look(self.memory, "", _everybody, count, type=kind))]
        return "\n".join(parts)

    def found(self, query: str) -> str:
        """What a search finds."""
        found = look(self.memory, query, _everybody, FOUND)
        notes = (f"<p>{escape(note)}</p>" for note in asides(found).values())
        return "\n".join([f"<h2>Found: {len(found)}</h2>", *notes, self.articles(found)])

    def articles(self, hits: Iterable[Hit], *, whole: bool = False) -> str:
        """Records, one below the other."""
        return "\n".join([self.article(hit, whole) for hit in hits] or ["<p>Nothing yet.</p>"])

    def article(self, hit: Hit, whole: bool) -> str:
        """One record."""
        record = hit.record
        facts = [format_time(hit.created)[:16].replace("T", " ") if hit.created else "", record.type, record.kind]
        if record.type == DECISION:
            status = "superseded" if hit.superseded_by else record.status
            facts += [word for word in (record.outcome, status) if word not in ("pending", "accepted")]
        told = escape(" · ".join(filter(None, (*facts, hit.provenance.author, hit.provenance.agent))))
        topic = f"{self.link(record.topic, topic=record.topic)}: " if record.topic else ""
        text = f"<pre>{escape(everything(record))}</pre>" if whole else ""
        if whole and record.open_files:
            text += f"<h4>Open files</h4><pre>{escape(chr(10).join(record.open_files))}</pre>"
        old = ' class="old"' if hit.superseded_by else ""
        title = self.link(hit.title or record.id, id=record.id)
        return f"<article{old}><h3>{topic}{title}</h3><small>{told}<br>{escape(hit.path)}</small>{text}</article>"


def _frame(view: _View, body: str, query: str) -> str:
    token = f'<input type="hidden" name="token" value="{escape(view.token)}">' if view.token else ""
    links = " · ".join(view.link(name, address) for name, address in _DATA)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>filemem</title><style>{_STYLE}</style></head>
<body><h1>{view.link("filemem")}</h1>
<form action="/viewer"><input type="search" name="q" value="{escape(query)}" aria-label="Search">{token}
<button>Search</button></form>
<main>{body}</main>
<footer><p>{links}</p></footer></body></html>
"""
