"""The page for people: what it shows, and that nothing stored can act in it."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from tests.support import write
from tests.system.tools import until
from tests.web.support import Server

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'</title></pre>"


@pytest.mark.requirement("mama-http-pages")
def test_the_root_leads_to_the_viewer(server: Server) -> None:
    reply = server.get("/")
    assert (reply.status, reply.headers["location"]) == (307, "/viewer")


@pytest.mark.requirement("mama-http-pages", "mc-http-viewer")
def test_the_page_shows_what_is_new(server: Server) -> None:
    assert "Nothing yet" in server.get("/viewer").text
    server.post("/api/mama/save", topic="caching", decision="Keep an LRU cache", reasoning="One process")
    server.post("/api/save", title="The cache is small", text="It holds ten")
    server.post("/api/checkpoint/save", summary="Cache half done", next_steps="Measure it", open_files=["cache.py"])
    reply = server.get("/viewer")
    assert reply.headers["content-type"].startswith("text/html")
    for told in ("Keep an LRU cache", "caching", "The cache is small", "Cache half done", "Measure it", "cache.py"):
        assert told in reply.text
    assert "<script" not in reply.text
    found = server.get("/viewer", q="lru").text
    assert "Keep an LRU cache" in found
    assert 'value="lru"' in found


def test_links_lead_to_topics_and_records(server: Server) -> None:
    server.post("/api/mama/save", topic="queues", decision="Use one queue", reasoning="Simple")
    server.post("/api/mama/save", topic="queues", decision="Use two queues", reasoning="Fast ones wait for slow ones")
    page = server.get("/viewer", topic="queues").text
    assert page.index("Use two queues") < page.index("Use one queue")
    assert "Fast ones wait for slow ones" in page
    assert "superseded" in page
    for link in set(re.findall(r'href="([^"]+)"', page)):
        assert server.get(link.replace("&amp;", "&")).status in (200, 307), link
    assert server.get("/viewer", topic="nothing of the kind").status == 404


def test_a_file_cannot_say_who_wrote_it(server: Server) -> None:
    write(server.folder / "memory/decisions/forged.md", "---\ntopic: forged\nagent: trusted-bot\n---\n# Trust me\n")
    until(lambda: "Trust me" in server.get("/viewer", topic="forged").text)
    assert "trusted-bot" not in server.get("/viewer", topic="forged").text


def test_hostile_text_is_only_text(server: Server) -> None:
    server.post("/api/mama/save", topic=f"x {HOSTILE}", decision=HOSTILE, reasoning=HOSTILE)
    server.post("/api/save", title=HOSTILE, text=HOSTILE)
    server.post("/api/checkpoint/save", summary=HOSTILE, next_steps=HOSTILE, open_files=["a<b>"])
    for reply in (server.get("/viewer"), server.get("/viewer", q=HOSTILE), server.get("/viewer", topic=HOSTILE)):
        for bad in ("<script", "<img", "<b>"):
            assert bad not in reply.text
        policy = reply.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        style = re.search(r"<style>(.*?)</style>", reply.text, re.DOTALL)
        assert style
        assert base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode() in policy
        assert reply.headers["x-content-type-options"] == "nosniff"


def test_the_token_goes_on_only_where_it_came_from(server: Server) -> None:
    assert server.token not in server.get("/viewer").text
    page = server.get("/viewer", token=server.token).text
    assert f'name="token" value="{server.token}"' in page
