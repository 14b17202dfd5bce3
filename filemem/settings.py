"""Check the values of settings. A function raises BadInput for an invalid value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from filemem.errors import BadInput

POLICIES = ("commit", "leave")
DEFAULT_POLICY: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("decision", "checkpoint", "observation"), "commit")
)
STATUSES = ("proposed", "accepted", "rejected", "deprecated")
HOOKS = ("start", "prompt-first", "prompt", "edits", "failures", "capture", "remind")
_BRANCH_PATTERN = r"(?!HEAD$|refs/)[^\W_][\w.+-]*(?:/[^\W_][\w.+-]*)*"
_SERVICE_PATTERN = r"https://[^/@?#\s]+|http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?"
_MAX_STORE_BYTES = 200


def validate_store_path(text: object) -> str:
    """Check the name of a store folder: a plain relative path inside the work tree.

    Raises BadInput.
    """
    if not isinstance(text, str):
        raise BadInput(f"the store must be the name of a folder, not {text!r}", field="store")
    name = text.removesuffix("/").removeprefix("./")  # as a shell completes the name of a folder
    if name == ".":
        return name
    if not _is_plain_folder(name):
        raise BadInput(
            f"the store must be a folder inside the work tree, not {name!r}",
            'write it as a relative path with "/", for example memory or docs/memory',
            field="store",
        )
    return str(PurePosixPath(name))


def _is_plain_folder(name: str) -> bool:
    """Return whether a name is a short relative path without `..` and outside Git's folders."""
    if "\\" in name or name.startswith("/") or not name.isprintable():
        return False
    for part in name.split("/"):
        if part in ("", ".", "..") or part.lower().startswith(".git"):
            return False
    # A folder of the index has this name too.
    return len(name.encode("utf-8", "surrogateescape")) <= _MAX_STORE_BYTES


def validate_branch_name(text: object) -> str:
    """Check the name of a branch: valid for Git, and not an option.

    `refs/heads/x` is `x`. Raises BadInput.
    """
    name = str(text)
    is_valid = False
    if isinstance(text, str):
        name = text.removeprefix("refs/heads/")
        is_valid = re.fullmatch(_BRANCH_PATTERN, name) is not None
    if not is_valid or ".." in name or name.endswith((".", ".lock")):
        raise BadInput(f"not a branch name: {name[:80]!r}", "for example filemem", field="branch")
    return name


def _validate_policy(value: object) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not value.keys() <= DEFAULT_POLICY.keys():
        raise BadInput("commit takes a table with the keys decision, checkpoint and observation")
    for policy in value.values():
        if policy not in POLICIES:
            choices = ", ".join(POLICIES)
            raise BadInput(f"commit policy must be one of {choices}, not {str(policy)!r}")
    return MappingProxyType({**DEFAULT_POLICY, **value})


def _validate_statuses(value: object) -> Mapping[str, str]:
    words: dict[str, str] = {}
    is_valid = isinstance(value, Mapping)
    if isinstance(value, Mapping):
        for word, status in value.items():
            words[word] = str(status).casefold()
            is_valid = is_valid and words[word] in STATUSES
    if not is_valid:
        raise BadInput(f"takes words of your own, each with one of {', '.join(STATUSES)}")
    return MappingProxyType(words)


def _validate_hooks(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not _is_hook_table(value):
        choices = ", ".join(HOOKS)
        raise BadInput(f"takes events, a list of any of {choices}, and budget, 100 to 2000 tokens")
    return MappingProxyType(dict(value))


def _is_hook_table(table: Mapping[str, Any]) -> bool:
    if not table.keys() <= {"events", "budget"}:
        return False
    events = table.get("events", [])
    if not isinstance(events, list) or not all(event in HOOKS for event in events):
        return False
    budget = table.get("budget", 100)
    return isinstance(budget, int) and 100 <= budget <= 2_000


def _validate_service(value: object) -> str:
    """Check the address of a service: questions and token must be encrypted on the way."""
    address = _validate_text(value).rstrip("/")
    if address and not re.fullmatch(_SERVICE_PATTERN, address):
        raise BadInput(
            "must begin with https:// and name a host, or with http:// and name this machine"
        )
    return address


def _validate_issuer(value: object) -> str:
    """Check the address of an identity provider, as its tokens state it."""
    address = _validate_text(value)
    host_address = "/".join(address.split("/")[:3])
    _validate_service(host_address)
    return address


def _validate_text(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise BadInput(f"must be one line of text, not {value!r}")
    return value


def _validate_folder(value: object) -> Path:
    return Path(_validate_text(value)).expanduser()


Validators = Mapping[str, Callable[[object], object]]
SHARED_SETTINGS: Validators = {
    "store": validate_store_path,
    "branch": validate_branch_name,
    "policy": _validate_policy,
    "status": _validate_statuses,
    "hooks": _validate_hooks,
}
USER_SETTINGS: Validators = {
    "model": _validate_text,
    "agent": _validate_text,
    "department": _validate_text,
    "cache": _validate_folder,
    "token": _validate_text,
    "org_url": _validate_service,
    "org_token": _validate_text,
    "org_dsn": _validate_text,
    "org_read_dsn": _validate_text,
    "org_hook_secret": _validate_text,
    "org_oidc_issuer": _validate_issuer,
    "org_oidc_audience": _validate_text,
    "org_oidc_name": _validate_text,
    "org_oidc_groups": _validate_text,
}
