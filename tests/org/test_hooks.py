"""Promise: a push that a Git host reports is looked at, and nobody else's report is believed."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from typing import Any

import pytest

from filemem.errors import BadInput
from filemem.org.hooks import is_genuine, parse_push, parse_secrets

SECRET = "s" * 32
GITHUB = {
    "ref": "refs/heads/main",
    "repository": {
        "full_name": "Team/api",
        "url": "https://git.example.org/Team/api",
        "clone_url": "https://git.example.org/Team/api.git",
        "ssh_url": "git@git.example.org:Team/api.git",
    },
}
GITLAB = {
    "object_kind": "push",
    "event_name": "push",
    "project": {
        "path_with_namespace": "team/api",
        "git_ssh_url": "ssh://git@git.example.org:2222/team/api.git",
        "git_http_url": "https://git.example.org/team/api.git",
    },
}
NAME = "git.example.org/team/api"


def signature(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, "sha256").hexdigest()


def reports(secret: str = SECRET) -> dict[str, tuple[dict[str, str], bytes]]:
    """A push as each host reports it: headers and body."""
    github = json.dumps(GITHUB).encode()
    gitlab = json.dumps(GITLAB).encode()
    plain = json.dumps({"repository": NAME}).encode()
    signed = f"sha256={signature(github, secret)}"
    return {
        "github": ({"x-github-event": "push", "x-hub-signature-256": signed}, github),
        "gitea": (
            {"x-gitea-event": "push", "x-gitea-signature": signature(github, secret)},
            github,
        ),
        "gitlab": ({"x-gitlab-event": "Push Hook", "x-gitlab-token": secret}, gitlab),
        "gitlab, all": ({"x-gitlab-event": "System Hook", "x-gitlab-token": secret}, gitlab),
        "git": ({"authorization": f"Bearer {secret}"}, plain),
    }


@pytest.mark.parametrize("host", reports())
def test_each_host_proves_itself_and_names_its_repository(host: str) -> None:
    headers, body = reports()[host]
    assert is_genuine(headers, body, (SECRET,))
    assert is_genuine(headers, body, ("o" * 32, SECRET)), "an old secret beside a new one"
    assert NAME in [name.lower() for name in parse_push(headers, body)]


@pytest.mark.parametrize("host", reports())
def test_a_wrong_secret_another_body_and_no_secret_are_refused(host: str) -> None:
    headers, body = reports("x" * 32)[host]
    assert not is_genuine(headers, body, (SECRET,))
    assert not is_genuine(headers, body, ())
    assert not is_genuine({}, body, (SECRET,))
    if "signature" in " ".join(headers):
        assert not is_genuine(reports()[host][0], body + b" ", (SECRET,))
        assert not is_genuine({**headers, "x-hub-signature-256": "sha256=\xff"}, body, (SECRET,))


@pytest.mark.parametrize(
    ("headers", "report"),
    [
        ({"x-github-event": "ping"}, GITHUB),
        ({"x-github-event": "issues"}, GITHUB),
        ({"x-gitlab-event": "System Hook"}, {**GITLAB, "event_name": "user_create"}),
    ],
)
def test_what_is_no_push_asks_for_no_look(headers: Mapping[str, str], report: Any) -> None:
    assert parse_push(headers, json.dumps(report).encode()) == []


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"{}", b"\xff", b"[" * 100_000])
def test_a_body_that_names_nothing_is_refused(body: bytes) -> None:
    with pytest.raises(BadInput):
        parse_push({}, body)


def test_an_address_that_names_a_program_or_a_password_is_no_name() -> None:
    urls = ("ext::sh -c id", "https://ada:secret@git.example.org/api", "file:///srv/api")
    for url in urls:
        with pytest.raises(BadInput):
            parse_push({}, json.dumps({"repository": {"clone_url": url}}).encode())


def test_a_short_secret_is_refused() -> None:
    assert parse_secrets(f" {SECRET} {'t' * 16} ") == (SECRET, "t" * 16)
    with pytest.raises(BadInput, match="16 characters"):
        parse_secrets("password")
