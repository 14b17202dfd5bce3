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
    tokens = [headers.get("x-gitlab-token", "")]
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        tokens.append(bearer)
    for secret in secrets:
        signature = hmac.new(secret.encode(), body, "sha256").hexdigest()
        if _is_among(signatures, signature) or _is_among(tokens, secret):
            return True
    return False


def _is_among(texts: list[str], expected: str) -> bool:
    """Whether a text is expected; takes as long for each, so that time tells nothing of it."""
    expected_bytes = expected.encode()
    matches = [
        hmac.compare_digest(text.encode("utf-8", "replace"), expected_bytes) for text in texts
    ]
    return any(matches)


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
    event = "push"
    for name in EVENTS:
        if name in headers:
            event = headers[name]
            break
    if event == "System Hook":  # of GitLab, for all its repositories
        event = str(report.get("event_name"))
    if not event.lower().startswith(PUSH_EVENTS):
        return []
    unique_names = dict.fromkeys(_iter_names(report))
    names = [name for name in unique_names if name]
    if not names:
        raise BadInput("the report names no repository", '{"repository": "host/team/api"}')
    return names


def _iter_names(report: Mapping[str, Any]) -> Iterator[str]:
    for part in (report.get("repository"), report.get("project")):
        if isinstance(part, str):
            yield from (part, parse_repository_name(part))
        if isinstance(part, dict):
            for key in _ADDRESSES:
                address = part.get(key)
                if isinstance(address, str):
                    yield parse_repository_name(address)
