"""Promise: people come with tokens of their identity provider, and see what their groups may see."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import jwt
import pytest

from filemem import config
from filemem.errors import BadInput, Locked
from filemem.org import access, oidc, worker
from filemem.org.engine import NOBODY, Principal
from filemem.org.oidc import People, build_provider
from filemem.org.postgres import Postgres
from tests.org.issuer import AUDIENCE, Issuer, issuing
from tests.org.test_service import Running, made, serving


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as made_one:
        yield made_one


def people(issuer: Issuer, **claims: str) -> People:
    stated = build_provider(issuer.url, AUDIENCE, **claims)
    assert stated is not None
    return People(stated)


def test_a_token_names_a_person_and_their_groups(issuer: Issuer) -> None:
    asked = people(issuer)
    token = issuer.token("ada", groups=["web", "api", 3])
    assert asked.is_provider_token(token)
    assert asked.find_principal(token) == Principal("ada", ("web", "api"))
    assert asked.find_principal(issuer.token("bob")) == Principal("bob")
    assert issuer.calls == ["/.well-known/openid-configuration", "/keys"], "keys are kept"
    by_mail = people(issuer, name="email", groups="roles")
    mail = {"email": "ada@example.org", "roles": ["web"]}
    assert by_mail.find_principal(issuer.token("1", **mail)) == Principal(
        "ada@example.org", ("web",)
    )
    assert by_mail.find_principal(issuer.token("1", **mail, email_verified=False)) == NOBODY


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another"},
        {"aud": None},
        {"iss": "https://evil.example.org"},
        {"exp": 1_700_000_000},
        {"exp": None},
        {"sub": None},
        {"nbf": 4_000_000_000},
    ],
)
def test_a_token_for_others_or_that_ended_is_nobody_s(
    issuer: Issuer, claims: dict[str, object]
) -> None:
    assert people(issuer).find_principal(issuer.token("ada", **claims)) == NOBODY


def test_a_token_that_the_provider_did_not_sign_is_nobody_s(issuer: Issuer) -> None:
    asked = people(issuer)
    right = issuer.token("ada")
    head, body, _ = right.split(".")
    claims = {"iss": issuer.url, "aud": AUDIENCE, "sub": "ada", "exp": int(time.time()) + 60}
    none = jwt.encode(claims, "", algorithm="none", headers={"kid": "first"})
    shared = jwt.encode(claims, "x" * 32, algorithm="HS256", headers={"kid": "first"})
    for token in (f"{head}.{body}.", f"{head}.{body}.AAAA", none, shared, "a.b.c", "a..b"):
        assert asked.find_principal(token) == NOBODY
    with issuing() as other:
        other.url = issuer.url
        assert asked.find_principal(other.token("ada")) == NOBODY
    assert asked.find_principal(right).name == "ada"


def test_keys_that_turn_are_asked_for_and_unknown_ones_not_all_the_time(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    asked = people(issuer)
    old = issuer.token("ada")
    assert asked.find_principal(old).name == "ada"
    issuer.turn("second")
    new = issuer.token("ada")
    for _ in range(20):
        assert asked.find_principal(new) == NOBODY
    assert len(issuer.calls) == 2, "at most twice a minute"
    now[0] += oidc.RETRY_SECONDS + 1
    assert asked.find_principal(new).name == "ada"
    assert asked.find_principal(old) == NOBODY
    issuer.status = 503
    now[0] += oidc.KEY_LIFETIME + 1
    assert asked.find_principal(new).name == "ada", "while the provider is away"


def test_a_provider_that_does_not_answer_or_is_another_gives_no_keys(issuer: Issuer) -> None:
    token = issuer.token("ada")
    issuer.stated = "https://evil.example.org"
    with pytest.raises(Locked, match="identity provider"):
        people(issuer).find_principal(token)
    issuer.stated = ""
    issuer.status = 500
    with pytest.raises(Locked):
        people(issuer).find_principal(token)


def test_half_a_provider_or_one_that_others_can_read_is_refused(tmp_path: Path) -> None:
    assert build_provider("", "") is None
    with pytest.raises(BadInput, match="not stated whole"):
        build_provider("https://id.example.org", "")
    with pytest.raises(BadInput, match="org_oidc_issuer"):
        config.load(tmp_path, {"FILEMEM_ORG_OIDC_ISSUER": "http://id.example.org/realms/x"})
    stated = {"FILEMEM_ORG_OIDC_ISSUER": "https://id.example.org/realms/x"}
    assert config.load(tmp_path, stated).org_oidc_issuer == stated["FILEMEM_ORG_OIDC_ISSUER"]


def test_two_groups_of_a_provider_see_what_they_may_and_a_leaver_nothing(
    issuer: Issuer,
    engine: Postgres,
    dsn: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FILEMEM_ORG_OIDC_ISSUER", issuer.url)
    monkeypatch.setenv("FILEMEM_ORG_OIDC_AUDIENCE", AUDIENCE)
    api = made(tmp_path / "api", caching="Cache in Redis")
    web = made(tmp_path / "web", caching="Cache at the edge")
    engine.add_repositories({"team/api": str(api), "team/web": str(web)})
    worker.sync_repositories(engine, tmp_path, os.environ)
    with engine.transaction() as con:
        access.replace_rights(con, access.Rights({"@api": ["team/api"], "@web": ["team/web"]}))
    with serving(dsn, "--audit-days", "30") as port:
        running = Running(port, engine, api, web, {}, dsn)

        def seen(*groups: str) -> set[str]:
            token = issuer.token("ada", groups=list(groups))
            status, body, _ = running.ask("POST", "/org/search", {"query": "caching"}, token)
            assert status == 200
            return {hit["repository"] for hit in json.loads(body)["results"]}

        assert seen("api") == {"team/api"}
        assert seen("web", "other") == {"team/web"}
        assert seen("api", "web") == {"team/api", "team/web"}
        assert seen() == set()
        wrong = issuer.token("ada", groups=["api"], aud="another")
        assert running.ask("POST", "/org/search", {"query": "caching"}, wrong)[0] == 401
        with engine.transaction() as con:
            access.replace_rights(con, access.Rights({"@web": ["team/web"]}))
        assert seen("api") == set(), "a right that is taken away holds at the next question"
