"""What the page is sent and what it changes: who may ask, that nothing stored can act, that it equals the commands."""

from __future__ import annotations

import gzip
import http.client
import json
from pathlib import Path
from typing import Any

import pytest

from filemem.errors import NotFound
from filemem.memory import Memory
from tests.support import git, make_repo, write
from tests.system.tools import cli, ok, until
from tests.web.support import Reply, Server

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'</title></pre>"
BODY = (
    f"{HOSTILE}\n\n[go](javascript:alert(3)) ![pixel](https://evil.example/x.png) [docs](https://example.org/a)\n\n"
    "See [the code](../src/a.py).\n\n| a | b |\n|---|---|\n| 1 | 2 |"
)


def saved(server: Server, **given: Any) -> Any:
    """Save a decision as the page does, and return the answer."""
    reply = server.post("/viewer/save", **{"reasoning": "It is simple", **given})
    assert reply.status == 200, reply.text
    return reply.body


def rows(server: Server) -> dict[str, Any]:
    return {one["id"]: one for one in server.get("/viewer/data").body["records"]}


@pytest.mark.requirement("mama-http-pages")
def test_the_root_leads_to_the_page(server: Server) -> None:
    reply = server.get("/")
    assert (reply.status, reply.headers["location"]) == (303, "/viewer")
    reply = server.get("/viewer")
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy


def test_files_of_the_page_are_sent_once(server: Server) -> None:
    reply = server.get("/viewer/assets/viewer.css")
    assert reply.headers["content-type"] == "text/css; charset=utf-8"
    again = server.ask(
        "GET",
        "/viewer/assets/viewer.css",
        headers={**server.bearer, "If-None-Match": reply.headers["etag"]},
    )
    assert (again.status, again.text) == (304, "")
    for name in (
        "../viewer.py",
        "..%2fviewer.py",
        "prelude.js",
        "nothing.js",
        "/etc/passwd",
        "vendor",
    ):
        assert server.get(f"/viewer/assets/{name}").status == 404, name


def test_a_token_in_the_address_becomes_a_cookie(server: Server) -> None:
    reply = server.get("/viewer", token=server.token, id="a b")
    assert (reply.status, reply.headers["location"]) == (303, "/viewer?id=a+b")
    cookie, *flags = reply.headers["set-cookie"].split("; ")
    assert {*flags} == {"Path=/", "HttpOnly", "SameSite=Strict"}
    assert server.token not in cookie
    assert server.get("/viewer", token="wrong").status == 401
    own = {"Cookie": cookie, "Content-Type": "application/json"}
    here = {**own, "Origin": f"http://127.0.0.1:{server.port}"}
    given = {"topic": "cookies", "decision": "Use one", "reasoning": "It is not in the address"}
    assert server.ask("POST", "/viewer/save", given, own).status == 401  # no page of ours
    assert server.ask("POST", "/viewer/save", given, {**here, "Cookie": f"{cookie}0"}).status == 401
    assert (
        server.ask(
            "POST", "/viewer/save", given, {**here, "Cookie": cookie.replace("filemem_", "x")}
        ).status
        == 401
    )
    assert server.ask("POST", "/viewer/save", given, here).status == 200
    assert server.ask("GET", "/viewer/data", headers=own).body["can_write"] is True
    assert server.ask("GET", "/viewer/data").status == 401


def test_a_file_that_leads_to_the_page_gets_in(server: Server) -> None:
    """A browser sends no strict cookie after a redirect from elsewhere: the page itself leads on."""
    strange = {"Sec-Fetch-Site": "cross-site"}
    reply = server.ask("GET", f"/viewer/read?id=a&token={server.token}", headers=strange)
    assert reply.status == 200
    assert 'content="0;url=/viewer/read?id=a"' in reply.text
    assert "SameSite=Strict" in reply.headers["set-cookie"]
    for path in ("/viewer?token=wrong", "/viewer", f"/viewer/data?token={server.token}"):
        assert server.ask("GET", path, headers=strange).status == 403, path


def test_the_token_stands_nowhere(server: Server) -> None:
    told = [
        server.get(path).text
        for path in ("/viewer", "/viewer/data", "/api/memory/export", "/api/daemon/logs")
    ]
    assert not [text for text in told if server.token in text]


@pytest.mark.requirement("mama-http-viewer", "mc-http-viewer")
def test_a_row_for_every_record(server: Server) -> None:
    old = saved(server, topic="caching", decision="Use Redis", affects=["src/cache.py"])["id"]
    new = saved(
        server, topic="caching", decision="Use an LRU cache", tags=["performance"], builds_on=[old]
    )["id"]
    server.post("/api/save", title="The cache is small", text="It holds ten", type="discovery")
    server.post("/api/checkpoint/save", summary="Cache half done", next_steps="Measure it")
    reply = server.get("/viewer/data")
    body = reply.body
    assert body["branch"] == "main"
    assert body["head"] == git(server.folder, "rev-parse", "HEAD").strip()
    found = {one["title"]: one for one in body["records"]}
    assert {"The cache is small", "Cache half done"} <= found.keys()
    assert found["The cache is small"]["kind"] == "discovery"
    first, last = found["Use Redis"], found["Use an LRU cache"]
    assert (first["id"], first["superseded_by"], "live" in first) == (old, [new], False)
    assert (last["live"], last["supersedes"], last["area"], last["who"]) == (
        True,
        [old],
        "performance",
        "Ada",
    )
    edges = server.get("/graph", edges="true").body["edges"]
    assert {"from": new, "to": old, "relationship": "builds_on", "reason": ""} in edges
    assert (first["affects"], "area" in first) == (["src/cache.py"], False)

    def sent_once() -> bool:  # until what was saved is folded into the index
        mark = server.get("/viewer/data").headers["etag"]
        headers = {**server.bearer, "If-None-Match": mark}
        return server.ask("GET", "/viewer/data", headers=headers).status == 304

    assert until(sent_once)


def test_rows_are_compressed_for_who_can_read_that(server: Server) -> None:
    saved(
        server,
        topic="rows",
        decision="Compress them",
        tags=[f"tag-{n}" for n in range(30)],
        affects=[f"src/{n}.py" for n in range(60)],
    )
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("GET", "/viewer/data", headers={**server.bearer, "Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    assert answer.headers["Content-Encoding"] == "gzip"
    assert "records" in json.loads(gzip.decompress(answer.read()))
    connection.close()


def test_one_record_whole(server: Server) -> None:
    first = saved(server, topic="queues", decision="Use one queue")["id"]
    reason = f"Fast ones wait for slow ones.\n\nbuilds_on: {first}"
    new = saved(
        server, topic="lanes", decision="Two lanes", reasoning=reason, rejected=["Three: too many"]
    )["id"]
    server.post("/graph/update", id=new, outcome="failed", reason="Nobody used the second")
    told = server.get("/viewer/record", id=new).body
    assert told["rejected"] == ["Three: too many"]
    assert told["reasoning_html"] == "<p>Fast ones wait for slow ones.</p>\n"
    assert told["related"][0]["reason"] == ""
    assert [(one["outcome"], one["reason"]) for one in told["outcomes"]] == [
        ("failed", "Nobody used the second")
    ]
    assert told["version"] == git(server.folder, "rev-parse", f"HEAD:{told['path']}").strip()
    assert [one["who"] for one in told["commits"]] == ["Ada", "Ada"]
    (edge,) = told["related"]
    assert (edge["kind"], edge["id"], edge["title"], edge["in"]) == (
        "builds_on",
        first,
        "Use one queue",
        False,
    )
    (back,) = server.get("/viewer/record", id=first).body["related"]
    assert (back["kind"], back["id"], back["in"]) == ("builds_on", new, True)
    assert server.get("/viewer/record", id="nothing of the kind").status == 404


def test_hostile_text_is_only_text(server: Server) -> None:
    one = saved(server, topic=f"x {HOSTILE}", decision=HOSTILE, reasoning=BODY)["id"]
    told = server.get("/viewer/record", id=one).body
    html = told["reasoning_html"] + told["decision_html"]
    for bad in ("<script", "<img", "</title", '<a href="javascript', '<a href="..', "src="):
        assert bad not in html.replace("src=x", "").replace("src/", "")
    assert '<a href="https://example.org/a">docs</a>' in html
    assert "<td>1</td>" in html


@pytest.mark.requirement("mama-memory-tab")
def test_search_marks_what_it_found(server: Server) -> None:
    one = saved(
        server, topic="locks", decision="Hold the lock briefly", reasoning="A starving writer waits"
    )["id"]
    found = server.get("/viewer/search", q="starving").body["hits"]
    assert found[0]["id"] == one
    assert "\ue000starving\ue001" in found[0]["snippet"]
    assert server.get("/viewer/search", q="starving", type="checkpoint").body["hits"] == []
    assert len(server.get("/viewer/search", q="lock", limit=1).body["hits"]) == 1


@pytest.mark.requirement("mama-save-form")
def test_the_form_shows_what_holds(server: Server) -> None:
    one = saved(server, topic="retries", decision="Retry three times")["id"]
    near = server.get("/viewer/near", topic="retries", decision="never retry").body["near"]
    assert (near[0]["id"], near[0]["same_topic"]) == (one, True)
    assert server.get("/viewer/near").body == {"near": []}
    new = saved(server, topic="retries", decision="Retry once")
    assert new["superseded"] == [one]
    assert git(server.folder, "log", "-1", "--format=%s").startswith(
        "decision(retries): Retry once"
    )
    refused = server.post(
        "/viewer/save", topic="retries", decision="Again", reasoning="x", confidence=3
    )
    assert (refused.status, refused.body["field"]) == (400, "confidence")


@pytest.mark.requirement("mama-outcome-editor")
def test_an_outcome_is_one_commit_and_a_stale_page_is_told(server: Server) -> None:
    one = saved(server, topic="timeouts", decision="Wait ten seconds")["id"]
    version = server.get("/viewer/record", id=one).body["version"]
    before = git(server.folder, "rev-list", "--count", "HEAD")

    def update(**given: Any) -> Reply:
        return server.post("/viewer/update", id=one, version=version, **given)

    bare = server.ask(
        "POST",
        "/viewer/update",
        {"id": one, "version": version},
        {"Content-Type": "application/json"},
    )
    assert bare.status == 401
    assert update(outcome="success", reason="It holds").status == 200
    assert int(git(server.folder, "rev-list", "--count", "HEAD")) == int(before) + 1
    ours = git(server.folder, "log", "-1", "--format=%s%n%b")
    other = saved(server, topic="pauses", decision="Wait ten seconds")["id"]
    ok(server.folder, "update", other, "--outcome", "success", "--reason", "It holds")
    theirs = (
        git(server.folder, "log", "-1", "--format=%s%n%b")
        .replace(other, one)
        .replace("pauses", "timeouts")
    )
    assert ours == theirs
    stale = update(outcome="failed")
    assert (stale.status, "changed since" in stale.body["error"]) == (409, True)
    assert server.post("/viewer/forget", id=one, version=version).status == 409
    version = server.get("/viewer/record", id=one).body["version"]
    assert update(status="deprecated").status == 200
    version = server.get("/viewer/record", id=one).body["version"]
    assert server.post("/viewer/forget", id=one, version=version, reason="a test").status == 200
    assert server.get("/viewer/record", id=one).status == 404
    assert one not in rows(server)


def test_what_an_agent_saves_is_told_at_once(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", "/viewer/events", headers=server.bearer)
    stream = connection.getresponse()
    assert stream.headers["Content-Type"].startswith("text/event-stream")
    version = _version(stream)
    assert version == server.get("/viewer/data").body["version"]
    assert (
        cli(
            server.folder,
            "save",
            "decision",
            "--topic",
            "news",
            "--decision",
            "Tell",
            "--reasoning",
            "Soon",
        ).code
        == 0
    )
    while _version(stream) == version:  # the first look of the watcher may say what is known
        pass
    assert "Tell" in [one["title"] for one in rows(server).values()]
    connection.close()


def _version(stream: http.client.HTTPResponse) -> str:
    while not (line := stream.readline()).startswith(b"data: "):
        assert line, "the stream ended"
    return str(json.loads(line[6:])["version"])


def test_the_past_and_a_branch_are_those_of_the_commands(tmp_path: Path) -> None:
    from filemem.web import viewer

    folder = make_repo(tmp_path / "repo")

    def save(topic: str, decision: str) -> str:
        return str(
            ok(
                folder,
                "save",
                "decision",
                "--topic",
                topic,
                "--decision",
                decision,
                "--reasoning",
                "x",
            )["id"]
        )

    old, kept = save("caching", "Use Redis"), save("queues", "Use one")
    then = git(folder, "rev-parse", "HEAD").strip()
    git(folder, "switch", "--quiet", "--create", "feature")
    new, added = save("caching", "Use an LRU cache"), save("locks", "Hold briefly")
    ok(folder, "update", kept, "--outcome", "failed")
    git(folder, "switch", "--quiet", "main")
    with Memory.open(folder) as memory:
        past = viewer.answer_moment(memory, {"when": then})
        topics = ok(folder, "topics", "--at", then)["topics"]
        assert (
            past["live"]
            == sorted(one for topic in topics for one in topic["ids"])
            == sorted([old, kept])
        )
        told = viewer.answer_comparison(memory, {"branch": "feature"})
        assert told["effects"] == ok(folder, "diff", "main...feature")["effects"]
        assert ({*told["added"]}, told["replaced"], told["changed"]) == (
            {new, added},
            [old],
            [kept],
        )
        assert {one["id"]: one["title"] for one in told["records"]} == {
            new: "Use an LRU cache",
            added: "Hold briefly",
        }
        there = viewer.answer_record(memory, {"id": added, "at": told["head"]["commit"]})
        assert (there["id"], there["title"]) == (added, "Hold briefly")
        assert there["version"] == git(folder, "rev-parse", f"feature:{there['path']}").strip()
        brief = viewer.answer_brief(memory, {"paths": "src/a.py, src/b.py"})
        assert brief["tokens"] == -(-len(brief["text"]) // 4)


def test_what_is_not_for_everybody_is_nowhere(tmp_path: Path) -> None:
    from filemem.web import viewer

    folder = make_repo(tmp_path / "repo")
    ok(
        folder,
        "save",
        "decision",
        "--topic",
        "pay",
        "--decision",
        "Pay monthly",
        "--reasoning",
        "x",
    )
    write(
        folder / "memory/private/decisions/a.md",
        "---\ntopic: pay\n---\n# Pay Ann twice\n\nQuietly.\n",
    )
    secret = "---\ntype: observation\nvisibility: {}\ndepartment: hr\nagent: x\n---\n# Ann is paid twice\n"
    for seen in ("private", "department"):
        write(folder / f"memory/observations/{seen}.md", secret.format(seen))
    with Memory.open(folder) as memory:
        answers: list[Any] = [
            viewer.answer_data(memory, {}).body,
            viewer.answer_search(memory, {"q": "Ann paid twice"}),
            viewer.answer_nearby(memory, {"topic": "pay", "decision": "Ann twice"}),
            viewer.answer_record(memory, {"id": "Pay monthly"}),
        ]
        assert not [one for one in answers if "twice" in str(one) or "Ann" in str(one)]
        assert answers[3]["live"]
        for title in ("Pay Ann twice", "Ann is paid twice"):
            with pytest.raises(NotFound):
                viewer.answer_record(memory, {"id": title})


def test_a_comparison_names_nothing_private(tmp_path: Path) -> None:
    from filemem.web import viewer

    folder = make_repo(tmp_path / "repo")
    ok(
        folder,
        "save",
        "decision",
        "--topic",
        "pay",
        "--decision",
        "Pay monthly",
        "--reasoning",
        "x",
    )
    write(
        folder / "memory/decisions/ann.md",
        "---\nid: ann\ntopic: raise\nvisibility: private\n---\n# Pay Ann twice\n",
    )
    git(folder, "add", "memory")
    git(folder, "commit", "--quiet", "--message", "More")
    git(folder, "switch", "--quiet", "--create", "feature")
    more = "---\nid: {0}\ntopic: raise\n{1}\n---\n# {2}\n"
    for name, head, title in (
        ("bob", "visibility: private", "Pay Ann and Bob twice"),
        ("new", "status: proposed\nsupersedes: [ann]", "Ask the board"),
    ):
        write(folder / f"memory/decisions/{name}.md", more.format(name, head, title))
    git(folder, "add", "memory")
    git(folder, "commit", "--quiet", "--message", "Raises")
    git(folder, "switch", "--quiet", "main")
    with Memory.open(folder) as memory:
        told = viewer.answer_comparison(memory, {"branch": "feature"})
        assert "Pay Ann" in str(ok(folder, "diff", "main...feature"))
        assert told["added"] == ["new"]
        assert "Ann" not in str(told)


def test_rows_open_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from filemem.files import Files

    folder = make_repo(tmp_path / "repo")
    for topic, said in (
        ("caching", "Use Redis"),
        ("queues", "Use one"),
        ("caching", "Use an LRU cache"),
    ):
        ok(folder, "save", "decision", "--topic", topic, "--decision", said, "--reasoning", "x")
    with Memory.open(folder) as memory:
        monkeypatch.setattr(Files, "read", lambda *_: pytest.fail("a record was opened"))
        assert [row.live for row in memory.build_overview().rows] == [False, True, True]
