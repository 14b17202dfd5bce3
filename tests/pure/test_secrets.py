"""Secrets: what is found, what is left alone, how long it takes. Every token is put together at run time."""

from __future__ import annotations

import base64
import hashlib
import random
import string
import time
import uuid
from collections.abc import Callable

import pytest

from filemem.secrets import find_secrets

ALNUM = string.ascii_letters + string.digits
URL = ALNUM + "_-"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits
Make = Callable[[random.Random], str]


def some(rng: random.Random, size: int, alphabet: str = ALNUM) -> str:
    return "".join(rng.choice(alphabet) for _ in range(size))


def part(prefix: str, size: int, alphabet: str = ALNUM, tail: str = "") -> Make:
    return lambda rng: prefix + some(rng, size, alphabet) + tail


def jwt(rng: random.Random) -> str:
    def encoded(text: str) -> str:
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    head, body = encoded('{"alg":"HS256","typ":"JWT"}'), encoded(f'{{"sub":"{some(rng, 12)}"}}')
    return f"{head}.{body}.{some(rng, 43, URL)}"


def private_key(kind: str) -> Make:
    dashes = "-" * 5
    return lambda rng: (
        f"{dashes}BEGIN {kind}PRIVATE KEY{dashes}\n{some(rng, 64)}\n{some(rng, 64)}\n{dashes}END"
    )


KINDS: dict[str, list[Make]] = {
    "aws-access-key": [part("AK" + "IA", 16, UPPER), part("AS" + "IA", 16, UPPER)],
    "aws-secret-key": [part("aws_secret_" + "access_key = ", 40, ALNUM + "/+")],
    "github-token": [part(f"gh{letter}" + "_", 36) for letter in "pousr"],
    "github-fine-grained-token": [part("github" + "_pat_", 82, ALNUM + "_")],
    "gitlab-token": [part("gl" + "pat-", 20, URL)],
    "slack-token": [
        lambda rng: (
            "xox"
            + f"b-{some(rng, 11, string.digits)}-{some(rng, 12, string.digits)}-{some(rng, 24)}"
        ),
        part("xox" + "p-", 50),
    ],
    "slack-webhook": [
        lambda rng: (
            "https://hooks.slack"
            + f".com/services/T{some(rng, 9, UPPER)}/B{some(rng, 9, UPPER)}/{some(rng, 24)}"
        )
    ],
    "stripe-key": [part("sk_" + "live_", 24), part("rk_" + "live_", 99), part("sk_" + "test_", 24)],
    "stripe-webhook-secret": [part("whsec" + "_", 32)],
    "google-api-key": [part("AI" + "za", 35, URL)],
    "google-oauth-secret": [part("GOC" + "SPX-", 28, URL)],
    "google-oauth-token": [part("ya" + "29.", 120, URL)],
    "azure-storage-key": [part("Account" + "Key=", 86, ALNUM + "+/", "==")],
    "azure-client-secret": [lambda rng: f"{some(rng, 3)}8" + f"Q~{some(rng, 34, ALNUM + '~.')}"],
    "openai-key": [part("sk" + "-", 48), part("sk-" + "proj-", 120, URL)],
    "anthropic-key": [part("sk-" + "ant-api03-", 95, URL)],
    "npm-token": [part("npm" + "_", 36)],
    "pypi-token": [part("pypi" + "-AgEIcHlwaS5vcmc", 140, URL)],
    "jwt": [jwt],
    "private-key": [private_key(kind) for kind in ("", "RSA ", "EC ", "OPENSSH ")],
    "password-in-url": [
        lambda rng: (
            f"{rng.choice(['postgres', 'mysql', 'mongodb+srv', 'redis'])}://app:{some(rng, 14)}@db.internal/x"
        ),
    ],
    "sendgrid-key": [lambda rng: "SG" + f".{some(rng, 22, URL)}.{some(rng, 43, URL)}"],
    "twilio-key": [part("S" + "K", 32, HEX)],
    "heroku-key": [lambda rng: "HEROKU_API" + f"_KEY={uuid.UUID(int=rng.getrandbits(128))}"],
    "digitalocean-token": [part("dop" + "_v1_", 64, HEX)],
    "huggingface-token": [part("hf" + "_", 34)],
    "telegram-token": [lambda rng: some(rng, 10, "123456789") + f":AA{some(rng, 33, URL)}"],
    "discord-token": [
        lambda rng: "M" + f"{some(rng, 23)}.{some(rng, 6, URL)}.{some(rng, 27, URL)}"
    ],
    "discord-webhook": [
        lambda rng: (
            "https://discord.com/api"
            + f"/webhooks/{some(rng, 18, '123456789')}/{some(rng, 68, URL)}"
        )
    ],
    "mailchimp-key": [part("", 32, HEX, "-us" + "14")],
    "mailgun-key": [part("key" + "-", 32, HEX)],
    "shopify-token": [part("shp" + "at_", 32, HEX)],
    "square-token": [part("sq0" + "atp-", 22, URL)],
    "databricks-token": [part("da" + "pi", 32, HEX)],
    "newrelic-key": [part("NR" + "AK-", 27, UPPER)],
    "grafana-token": [lambda rng: "gl" + f"sa_{some(rng, 32)}_{some(rng, 8, HEX)}"],
    "vault-token": [part("hv" + "s.", 90, URL)],
    "terraform-token": [lambda rng: some(rng, 14) + f".atlas" + f"v1.{some(rng, 67, URL)}"],  # noqa: F541
    "docker-token": [part("dckr" + "_pat_", 27, URL)],
    "linear-token": [part("lin" + "_api_", 40)],
    "postman-key": [lambda rng: "PM" + f"AK-{some(rng, 24, HEX)}-{some(rng, 34, HEX)}"],
    "doppler-token": [part("dp" + ".pt.", 43)],
    "supabase-token": [part("sbp" + "_", 40, HEX)],
    "rubygems-token": [part("rubygems" + "_", 48, HEX)],
    "airtable-token": [lambda rng: "pa" + f"t{some(rng, 14)}.{some(rng, 64, HEX)}"],
    "groq-key": [part("gs" + "k_", 52)],
    "replicate-token": [part("r8" + "_", 37)],
    "openrouter-key": [part("sk-" + "or-v1-", 64, HEX)],
    "langsmith-key": [lambda rng: "lsv2" + f"_pt_{some(rng, 32, HEX)}_{some(rng, 10, HEX)}"],
    "tailscale-key": [lambda rng: "tskey" + f"-auth-{some(rng, 12)}CNTRL-{some(rng, 32)}"],
    "fly-token": [part("Fly" + "V1 fm2_", 80, ALNUM + "+/")],
    "firebase-key": [lambda rng: "AAAA" + f"{some(rng, 7)}:APA" + f"91b{some(rng, 134, URL)}"],
    "twitter-token": [part("A" * 22, 90, ALNUM + "%")],
    "assigned-secret": [
        lambda rng: f'password = "{some(rng, 12)}7a"',
        lambda rng: f"api_key: {some(rng, 30)}4b",
        lambda rng: f"export SERVICE_TOKEN={some(rng, 24)}0z",
        lambda rng: f'"client_secret": "{some(rng, 20)}!3q"',
    ],
    "authorization-header": [lambda rng: f"Authorization: Bearer {some(rng, 40)}1x"],
}


def password(rng: random.Random) -> str:
    """A password as people make them: a word or two, digits, a sign."""
    words = "Harbour winter Copper falcon Marble orchid Saturn velvet thunder Willow".split()  # noqa: SIM905
    return rng.choice(words) + rng.choice("!#*%") + str(rng.randrange(100, 9999)) + some(rng, 3)


PLACED: dict[str, Make] = {
    "netrc": lambda rng: f"machine api.internal login deploy password {password(rng)}",
    "netrc, lines": lambda rng: f"machine api.internal\n  login deploy\n  password {some(rng, 14)}",
    "curl -u": lambda rng: f"curl -u admin:{password(rng)} https://build.internal/job",
    "curl --user": lambda rng: f"curl -s --user 'ci:{some(rng, 16)}' https://build.internal/job",
    "mysql -p": lambda rng: f"mysql -h db.internal -u app -p{password(rng)} shop",
    "mysqldump -p": lambda rng: f"mysqldump -uapp -p{some(rng, 12)}9 shop > dump.sql",
    "--password VALUE": lambda rng: f"deploy --env prod --password {password(rng)}",
    "--token VALUE": lambda rng: f"helm login --token {some(rng, 24)}",
    "pgpass": lambda rng: f"db.internal:5432:shop:app:{password(rng)}",
    "docker config": lambda rng: f'"ghcr.io": {{"auth": "{some(rng, 38)}=="}}',
    "cookie": lambda rng: f"Cookie: theme=dark; sessionid={some(rng, 32)}",
    "set-cookie": lambda rng: f"Set-Cookie: connect.sid={some(rng, 40)}; Path=/",
    "secret access key is": lambda rng: f"the secret access key is {some(rng, 40)}",
    "password is": lambda rng: f"The password is `{password(rng)}` until Friday.",
    "token for x is": lambda rng: f"our token for staging is {some(rng, 28)}",
    "table": lambda rng: f"| user | password |\n|---|---|\n| API key | {some(rng, 24)} |",
    "table, quoted": lambda rng: f"| Password | `{password(rng)}` |",
    "first password": lambda rng: f"root / {password(rng)}",  # nothing says what it is: not found
    "handed over": lambda rng: f"log in as admin with {password(rng)}",  # not found
    "pin": lambda rng: f"PIN {rng.randrange(1000, 9999)}",  # not found
}


@pytest.mark.parametrize(
    "hide",
    [
        lambda t: t[:9] + "\u200b" + t[9:],
        lambda t: t[:12] + "\n" + t[12:],
        lambda t: t[:12] + "\r\n    " + t[12:],
    ],
    ids=["zero-width", "line break", "indented"],
)
def test_a_token_is_found_though_something_stands_inside(hide: Callable[[str], str]) -> None:
    rng = random.Random(23)
    tokens = [
        part("gh" + "p_", 36)(rng),
        part("sk-" + "ant-api03-", 95, URL)(rng),
        part("gl" + "pat-", 20, URL)(rng),
    ]
    assert all(find_secrets(f"one\nsee {hide(token)}\n")[0].line == 2 for token in tokens)


def test_most_secrets_that_only_their_place_shows_are_found() -> None:
    rng = random.Random(29)
    found = {
        name: sum(bool(find_secrets(f"Notes\n{make(rng)}\n")) for _ in range(20))
        for name, make in PLACED.items()
    }
    assert sum(found.values()) >= 0.6 * 20 * len(PLACED), found
    assert sum(found.values()) >= 0.8 * 20 * len(PLACED), (
        found
    )  # what we hold; the line above is the promise


def surrounded(rng: random.Random, token: str) -> tuple[str, int]:
    """Put a token where people leave them; return the text and the line of the token."""
    before, after = rng.choice(
        [("", ""), ("- use `", "` for now"), ("url=", ""), ('x("', '")'), ("see ", ", please")]
    )
    lines = rng.randrange(4)
    return "note\n" * lines + before + token + after + "\nend\n", lines + 1


def test_thirty_kinds_and_more_are_found() -> None:
    rng = random.Random(7)
    assert len(KINDS) >= 30
    missed: list[str] = []
    total = 0
    for kind, makers in KINDS.items():
        for number in range(20):
            text, line = surrounded(rng, makers[number % len(makers)](rng))
            found = find_secrets(text)
            total += 1
            if not any(secret.line == line for secret in found):
                missed.append(kind)
    assert len(missed) <= total * 0.05, missed
    assert len(missed) <= total * 0.01, missed  # what we hold; the line above is the promise


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_kind_is_called_by_its_name(kind: str) -> None:
    rng = random.Random(kind)
    named = [
        kind in {secret.kind for secret in find_secrets(make(rng) + "\n")}
        for make in KINDS[kind]
        for _ in range(5)
    ]
    assert sum(named) >= 0.8 * len(named)


NOUNS = "cache token password index secret worker session replica lock schema key credential queue broker".split()  # noqa: SIM905
VERBS = "rotate store hash expire verify drop split shard fetch retry sign refresh".split()  # noqa: SIM905
HARMLESS = [
    *(
        'password = "changeme"',
        "password: <password>",
        "token: ${TOKEN}",
        'api_key = os.environ["API_KEY"]',
    ),
    *(
        "api_key: process.env.API_KEY_V2",
        "DATABASE_URL=postgres://user:password@localhost:5432/app",
    ),
    *("postgres://${DB_USER}:${DB_PASS}@db/app", "secret: kubernetes.io/service-account-token"),
    *(
        'token = "your-token-here-123"',
        "password: required, at least 12 characters",
        "max_tokens: 4096",
    ),
    *(
        "token=xxxxxxxxxxxxxxxxxxxx",
        "Authorization: Bearer <token>",
        "Authorization: Bearer $TOKEN",
    ),
    *("secret_name: projects/acme/secrets/db-pass/versions/3", 'password = getpass("Password: ")'),
    *("token = self.tokenizer.encode(text1)", "password: str | None = None"),
    *(
        "the key starts with sk- and has 48 characters",
        "headers such as -----BEGIN PRIVATE KEY----- are refused",
    ),
    *(
        "see https://hooks.slack.com/services/ for the webhook",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ),
    *("AKIA" + "IOSFODNN7EXAMPLE", "scikit sk-learn-contrib-hdbscan-wrappers"),
    *('"#secret": instance.#secret', "secret = this.#innerToken2", "apiKey: cfg?.api_key_v2!,"),
    *("password: &self.password_v2;", "token => $config.auth_token2"),
    *("token: the_refresh_token_from_step_2", "secret: see-1password-vault-item-42"),
]


ALIKE = [
    *("machine learning login page, password field", "the password is hashed with argon2id"),
    *(
        "the token is refreshed every 15 minutes",
        "token is base64url-encoded",
        "the secret is rotated by Vault",
    ),
    *(
        "the api key was revoked on 2025-11-20",
        "| password | required, 12 characters |",
        "| token | string |",
    ),
    *(
        "| API key | see 1password |",
        "| secret | `SESSION_SECRET` |",
        "curl -u $USER:$TOKEN https://api.example.org",
    ),
    *("curl --user name:password https://example.org", "docker run -u 1000:1000 image"),
    *("rsync -u host:/var/lib/data-2025 .", "mysql -u root -p shop", "mysql --protocol=tcp -P3306"),
    *("ssh -p 2222 host.internal", "pytest -p no:cacheprovider", "--token-file /run/secrets/token"),
    *("deploy --password-stdin", "localhost:5432:db:user:password", "src/app.py:120:14:error:F401"),
    *(
        "12:30:45:100:frames",
        '"auth": "oauth2"',
        '"auth": {"type": "bearer"}',
        "Cookie: theme=dark; lang=en",
    ),
    *(
        "set-cookie: the session id, HttpOnly",
        "cookie: sessionid is required",
        "the private key is in the keychain",
    ),
    *(
        "the secret key was moved to AWS-KMS",
        "sk-learn and ts-node and tskey",
        "FlyV1 is the prefix of Fly's tokens",
    ),
    *("tskey-auth keys expire after 90 days"),
    *(
        "task-\nforce and risk-\nmanagement decisions",
        "the passphrase is: correct horse battery staple",
    ),
]


@pytest.mark.parametrize("text", ALIKE)
def test_what_looks_like_a_place_is_harmless(text: str) -> None:
    assert find_secrets(f"Notes\n{text}\n") == ()


def clean_text(rng: random.Random) -> str:
    digest = hashlib.sha256(rng.randbytes(8)).hexdigest()
    made = [
        f"commit {digest[:40]}",
        f"blob {digest[:7]} moved",
        f"sha256:{digest}",
        f"id {uuid.UUID(int=rng.getrandbits(128))}",
        f"integrity sha512-{base64.b64encode(rng.randbytes(64)).decode()}",
        f"data:image/png;base64,{base64.b64encode(rng.randbytes(60)).decode()}",
        f"see https://example.org/{digest[:12]}/docs?page={rng.randrange(99)}",
        f"decision_{rng.choice(NOUNS)}_{rng.randrange(10**12, 10**13)}_{digest[:8]}",
        f"src/{rng.choice(NOUNS)}/{rng.choice(VERBS)}_{rng.choice(NOUNS)}.py:{rng.randrange(900)}",
        f"at {rng.randrange(10**9)} ns, {rng.random():.6f} s",
        rng.choice(HARMLESS),
        rng.choice(ALIKE),
    ]
    prose = " ".join(
        f"{rng.choice(VERBS)} the {rng.choice(NOUNS)}" for _ in range(rng.randrange(3, 12))
    )
    first, second = rng.choice(made), rng.choice(made)
    return (
        f"# {prose.title()}\n\nWe {prose}: {first}.\n\n- {second}\n- {rng.choice(NOUNS)}: {prose}\n"
    )


def test_clean_texts_raise_no_alarm() -> None:
    rng = random.Random(11)
    alarms = [text for text in (clean_text(rng) for _ in range(1000)) if find_secrets(text)]
    assert len(alarms) < 10, alarms[:3]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_documentation_says_is_harmless(text: str) -> None:
    assert find_secrets(text) == ()


def test_lines_and_order_and_nothing_of_the_secret() -> None:
    rng = random.Random(3)
    token, other = part("gh" + "p_", 36)(rng), private_key("RSA ")(rng)
    found = find_secrets(f"one\ntwo {token}\n\n{other}\n")
    assert [(secret.line, secret.kind) for secret in found] == [
        (2, "github-token"),
        (4, "private-key"),
    ]
    assert token[4:10] not in repr(found)


def test_a_known_shape_is_not_reported_again_as_a_password() -> None:
    token = part("gl" + "pat-", 20)(random.Random(5))
    assert [secret.kind for secret in find_secrets(f'token = "{token}"')] == ["gitlab-token"]


HOSTILE = [
    *(
        "eyJ",
        "eyJaaaaaaaaaaaa.",
        "token=",
        'password="',
        "http://a:",
        "-----BEGIN RSA PRIVATE KEY-----\n",
    ),
    *(
        "gl" + "pat-",
        "aws_secret_key=",
        "M.",
        "Maaaaaaaaaaaaaaaaaaaaaaa.",
        "sk-" + "ant-",
        "bearer ",
    ),
    *(
        "authorization:",
        "a",
        ":AA",
        "Q~",
        "0",
        "heroku ",
        "xox" + "b-",
        "\n",
        "secret: a1",
        "mysql a ",
        "cookie: a",
    ),
    *(
        "| password ",
        "login a password ",
        "a:1:b:c:",
        "token is ",
        "--token ",
        "curl -u a:",
        "AAAAAAAA",
        "tskey-a",
    ),
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_time_is_linear_on_hostile_text(unit: str) -> None:
    def cost(size: int) -> float:
        text = (unit * (size // len(unit) + 1))[:size]
        started = time.process_time()
        find_secrets(text)
        return time.process_time() - started

    small, large = min(cost(30_000) for _ in range(2)), cost(300_000)
    assert large < 1
    assert large < 30 * max(small, 0.005)
