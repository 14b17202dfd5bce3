"""Pushes as Git hosts report them: whether a report is genuine, and which repositories it names.

Rule: nothing of a report is believed but the names of repositories. A worker then reads Git itself.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator, Mapping
from typing import Any

from filemem.errors import BadInput
from filemem.repo.mirror import parse_repository_name

MIN_SECRET = 16  # characters of a secret
SIGNATURES = ("x-hub-signature-256", "x-gitea-signature")  # of GitHub; of Gitea and Forgejo
EVENTS = ("x-github-event", "x-gitea-event", "x-gitlab-event")
PUSH_EVENTS = ("push", "repository_update")  # what an event is called that can bring new records
_ADDRESSES = (
    *("clone_url", "ssh_url", "html_url", "web_url", "url", "homepage"),
    *("git_http_url", "git_ssh_url"),
)


def parse_secrets(text: str) -> tuple[str, ...]:
    """Return the secrets in a setting, between spaces. Raises BadInput: one is short."""
    secrets = tuple(text.split())
    if any(len(secret) < MIN_SECRET for secret in secrets):
        hint = "openssl rand -hex 32"
        raise BadInput(
            f"a hook's secret needs {MIN_SECRET} characters", hint, field="org_hook_secret"
        )
    return secrets


def is_genuine(headers: Mapping[str, str], body: bytes, secrets: tuple[str, ...]) -> bool:
    """Whether a sender knows one of the secrets: it signed the body, or sent the secret as a token.

    Headers go by lower-case names. GitHub and Gitea sign, GitLab sends `X-Gitlab-Token`, and a
    hook of plain Git sends `Authorization: Bearer SECRET`.
    """
    signatures = [headers[name].removeprefix("sha256=") for name in SIGNATURES if name in headers]
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    tokens = [headers.get("x-gitlab-token", ""), bearer if scheme.lower() == "bearer" else ""]
    return any(_has_secret(secret.encode(), body, signatures, tokens) for secret in secrets)


def _has_secret(secret: bytes, body: bytes, signatures: list[str], tokens: list[str]) -> bool:
    expected = hmac.new(secret, body, "sha256").hexdigest().encode()
    signature_matches = [hmac.compare_digest(_encode_text(text), expected) for text in signatures]
    token_matches = [hmac.compare_digest(_encode_text(text), secret) for text in tokens]
    return any(signature_matches) or any(token_matches)


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def parse_push(headers: Mapping[str, str], body: bytes) -> list[str]:
    """Return the names that the repository of a report may have here; none if it is no push.

    Raises BadInput: the body is not a JSON object that names a repository.
    """
    try:
        report: Any = json.loads(body)
    except (ValueError, RecursionError):
        report = None
    if not isinstance(report, dict):
        raise BadInput("the body is not a JSON object", "set the content type application/json")
    event = next((headers[name] for name in EVENTS if name in headers), "push")
    if event == "System Hook":  # of GitLab, for all its repositories
        event = str(report.get("event_name"))
    if not event.lower().startswith(PUSH_EVENTS):
        return []
    names = list(dict.fromkeys(filter(None, _iter_names(report))))
    if not names:
        raise BadInput("the report names no repository", '{"repository": "host/team/api"}')
    return names


def _iter_names(report: Mapping[str, Any]) -> Iterator[str]:
    for part in (report.get("repository"), report.get("project")):
        if isinstance(part, str):
            yield from (part, parse_repository_name(part))
        if isinstance(part, dict):
            addresses = [part.get(key) for key in _ADDRESSES]
            yield from (parse_repository_name(text) for text in addresses if isinstance(text, str))
