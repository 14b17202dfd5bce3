"""People as an OpenID Connect provider knows them: its tokens, checked with its keys.

Rule: a token counts if the provider signed it for this service, and until it ends. Keys are asked
for when one is missing, at most twice a minute, however many tokens come.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import jwt

from filemem.errors import BadInput, Locked
from filemem.org.engine import NOBODY, Principal

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
RETRY_SECONDS = 30.0  # seconds between two questions for keys
KEY_LIFETIME = 3600.0  # seconds after which keys are asked for once more
TIMEOUT = 5.0  # seconds for an answer
MAX_SIZE = 1_000_000  # bytes of an answer
LEEWAY = 30  # seconds by which clocks may differ
_PART_COUNT = 3  # of a token of this kind; ours have no dots


class Provider(NamedTuple):
    """Who says who people are."""

    issuer: str  # its address
    audience: str  # what it calls this service
    name: str = "sub"  # the claim that names a person
    groups: str = "groups"  # the claim that names their groups


class People:
    """The people of one provider."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._keys = dict[str, jwt.PyJWK]()
        self._asked_at = float("-inf")
        self._lock = threading.Lock()

    @staticmethod
    def is_provider_token(token: str) -> bool:
        """Whether a token is of the kind that providers sign."""
        return len(token.split(".")) == _PART_COUNT

    def find_principal(self, token: str) -> Principal:
        """Return whose a token is, NOBODY for an invalid one. Raises Locked: there are no keys."""
        try:
            key = self._fetch_key(str(jwt.get_unverified_header(token).get("kid", "")))
            if key is None:
                return NOBODY
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=self._provider.audience,
                issuer=self._provider.issuer,
                leeway=LEEWAY,
                options={"require": ["exp", "iss", "aud", self._provider.name]},
            )
        except jwt.PyJWTError:
            return NOBODY
        return self._parse_claims(claims)

    def _parse_claims(self, claims: Mapping[str, Any]) -> Principal:
        name = claims[self._provider.name]
        is_unverified = self._provider.name == "email" and claims.get("email_verified") is False
        if not isinstance(name, str) or is_unverified:
            return NOBODY
        groups = claims.get(self._provider.groups)
        if not isinstance(groups, list):
            return Principal(name)
        return Principal(name, tuple(group for group in groups if isinstance(group, str)))

    def _fetch_key(self, kid: str) -> jwt.PyJWK | None:
        """The key of a name, None if the provider has none."""
        with self._lock:
            age = time.monotonic() - self._asked_at
            if age > KEY_LIFETIME or (kid not in self._keys and age > RETRY_SECONDS):
                self._asked_at = time.monotonic()
                self._renew_keys()
            return self._keys.get(kid)

    def _renew_keys(self) -> None:
        """Ask for the keys; the old ones stay if that fails. Raises Locked: there are none."""
        try:
            self._keys = _fetch_keys(self._provider.issuer)
        except (OSError, ValueError, LookupError, http.client.HTTPException, jwt.PyJWTError):
            if not self._keys:
                self._asked_at = float("-inf")
                raise Locked("the identity provider does not answer", "ask again later") from None


def build_provider(issuer: str, audience: str, name: str = "", groups: str = "") -> Provider | None:
    """Return the provider that settings state, None for none. Raises BadInput: half is missing."""
    if bool(issuer) != bool(audience):
        hint = "set org_oidc_issuer and org_oidc_audience, or neither"
        raise BadInput("the identity provider is not stated whole", hint)
    if not issuer:
        return None
    return Provider(issuer, audience, name or "sub", groups or "groups")


def _fetch_keys(issuer: str) -> dict[str, jwt.PyJWK]:
    """The signing keys of a provider, by name."""
    configuration = _fetch_json(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    if configuration["issuer"] != issuer:
        raise ValueError("another issuer answers")
    keys = dict[str, jwt.PyJWK]()
    for entry in _fetch_json(configuration["jwks_uri"])["keys"]:
        if entry.get("use", "sig") == "sig" and entry.get("kty") in ("RSA", "EC", "OKP"):
            keys[str(entry.get("kid", ""))] = jwt.PyJWK(entry)
    return keys


def _fetch_json(url: str) -> Any:
    """What an address answers; no redirection is followed."""
    address = urlsplit(url)
    host = address.hostname or ""
    is_encrypted = address.scheme == "https"
    if not is_encrypted and host not in ("127.0.0.1", "localhost", "::1"):
        raise ValueError("not encrypted")
    connection_type = http.client.HTTPSConnection if is_encrypted else http.client.HTTPConnection
    connection = connection_type(host, address.port, timeout=TIMEOUT)
    try:
        target = f"{address.path}?{address.query}" if address.query else address.path
        connection.request("GET", target)
        response = connection.getresponse()
        body = response.read(MAX_SIZE)
        if response.status != http.client.OK:
            raise ValueError(f"status {response.status}")
        return json.loads(body)
    finally:
        connection.close()
