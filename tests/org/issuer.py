"""An OpenID Connect provider on loopback: its documents over HTTP, and tokens that it signs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

AUDIENCE = "filemem"


class Issuer:
    """A provider; `calls` are the paths that it was asked for."""

    def __init__(self) -> None:
        self.url = ""
        self.stated = ""  # the issuer that its document states, if another
        self.calls = list[str]()
        self.status = 200
        self._keys = dict[str, rsa.RSAPrivateKey]()
        self.turn("first")

    def turn(self, kid: str) -> None:
        """Sign with a new key from now on, and publish no other."""
        self._keys = {kid: rsa.generate_private_key(public_exponent=65537, key_size=2048)}

    def token(self, name: str, **claims: Any) -> str:
        """A token for a person; claims that are None are left out."""
        ((kid, key),) = self._keys.items()
        now = int(time.time())
        every = {"iss": self.url, "aud": AUDIENCE, "sub": name, "iat": now, "exp": now + 600}
        stated = {claim: value for claim, value in (every | claims).items() if value is not None}
        return jwt.encode(stated, key, algorithm="RS256", headers={"kid": kid})

    def answer(self, path: str) -> Any:
        self.calls.append(path)
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.stated or self.url, "jwks_uri": f"{self.url}/keys"}
        keys = []
        for kid, key in self._keys.items():
            public = json.loads(RSAAlgorithm.to_jwk(key.public_key()))
            keys.append({**public, "kid": kid, "use": "sig", "alg": "RS256"})
        return {"keys": keys}


@contextmanager
def issuing() -> Iterator[Issuer]:
    """A provider that answers."""
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(issuer.answer(self.path)).encode()
            self.send_response(issuer.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        yield issuer
        server.shutdown()
