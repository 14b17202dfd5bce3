"""Is there a secret in this text? One table of shapes, read line by line by nobody: only line and kind come out.

Rule: no message, value or exception made here ever holds any part of what was found. A shape is listed where its
maker gave it a prefix or form of its own; everything else is caught by where it stands (`password = "..."`), if it
looks random enough and is no placeholder. Each pattern either ends in its only unbounded part or cannot begin again
inside what it reads, so the time is linear in the text, whatever the text is.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from typing import NamedTuple


class Secret(NamedTuple):
    """Where something secret-shaped stands (1-based line) and what kind it is; never what it is."""

    line: int
    kind: str


class _Shape(NamedTuple):
    kind: str
    needles: tuple[str, ...]  # one of them must be in the text before the pattern is tried, or even compiled
    pattern: str


def _shape(kind: str, needles: str, body: str, before: str = r"[A-Za-z0-9]") -> _Shape:
    """Describe a shape; `before` is what may not stand in front of it, else it is the middle of something longer."""
    return _Shape(kind, tuple(needles.split()), f"(?<!{before}){body}" if before else body)


_B64 = "[A-Za-z0-9+/]"
_URL = "[A-Za-z0-9_-]"
_NUM = "[A-Za-z0-9]"
_HEX = "[0-9a-f]"

# kind, what must be there, the form. Sorted by kind of maker: clouds, code hosts, payment, messages, models, others.
SHAPES: tuple[_Shape, ...] = (
    _shape("aws-access-key", "AKIA ASIA ABIA ACCA", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _shape(
        "aws-secret-key",
        "aws AWS Aws",
        rf"(?i:aws_?secret_?(?:access_?)?key)[\"']?\s{{0,5}}[:=]\s{{0,5}}[\"']?{_B64}{{40}}(?!{_B64})",
    ),
    _shape("azure-client-secret", "Q~", rf"{_NUM}[\w~.-]{{2}}[78]Q~[\w~.-]{{31,34}}(?![\w~.-])", r"[\w~.-]"),
    _shape("azure-storage-key", "AccountKey=", rf"AccountKey={_B64}{{86}}=="),
    _shape("azure-sas", "sig=", r"sig=[A-Za-z0-9%/+]{43,60}(?:%3D|=)"),
    _shape("digitalocean-token", "do", r"do[opr]_v1_[a-f0-9]{64}"),
    _shape("google-api-key", "AIza", rf"AIza{_URL}{{35}}(?!{_URL})"),
    _shape("google-oauth-secret", "GOCSPX-", rf"GOCSPX-{_URL}{{28}}"),
    _shape("google-oauth-token", "ya29.", rf"ya29\.{_URL}{{30,}}"),
    _shape("heroku-key", "HRKU-", rf"HRKU-{_URL}{{36,}}"),
    _shape(
        "heroku-key",
        "heroku HEROKU Heroku",
        r"(?i:heroku[a-z_ -]{0,20}key)[\"']?\s{0,5}[:=]\s{0,5}[\"']?"
        rf"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}",
    ),
    _shape("alibaba-key", "LTAI", rf"LTAI{_NUM}{{16,26}}(?!{_NUM})"),
    _shape("cloudflare-origin-key", "v1.0-", rf"v1\.0-{_HEX}{{24}}-{_HEX}{{146}}"),
    _shape("databricks-token", "dapi", rf"dapi{_HEX}{{32}}"),
    _shape("docker-token", "dckr_", rf"dckr_(?:pat|oat)_{_URL}{{27,}}"),
    _shape("terraform-token", ".atlasv1.", rf"{_NUM}{{14}}\.atlasv1\.{_URL}{{60,}}"),
    _shape("vault-token", "hvs. hvb.", rf"hv[sb]\.{_URL}{{24,}}"),
    _shape("planetscale-token", "pscale_", r"pscale_(?:pw|tkn|oauth)_[\w.-]{32,}"),
    _shape("tailscale-key", "tskey-", rf"tskey-(?:[a-z]{{2,12}}-)?{_NUM}{{6,}}-{_NUM}{{16,}}"),
    _shape("fly-token", "FlyV1 fo1_", rf"(?:FlyV1\s{{1,2}}fm[0-9][a-z]?_[\w+/=,-]{{40,}}|fo1_{_URL}{{40,}})"),
    _shape("firebase-key", ":APA91b", rf"AAAA{_URL}{{7}}:APA91b{_URL}{{100,}}"),
    _shape("supabase-token", "sbp_", rf"sbp_{_HEX}{{40}}"),
    _shape("doppler-token", "dp.", r"dp\.(?:pt|st|ct|sa)\.[\w.]{40,}"),
    _shape("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", rf"gh[pousr]_{_NUM}{{36,}}"),
    _shape("github-fine-grained-token", "github_pat_", r"github_pat_\w{60,}"),
    _shape("gitlab-token", "gl", rf"gl(?:pat|dt|rt|ptt|ft|soat|cbt|imt|agent)-{_URL}{{20,}}"),
    _shape("gitlab-token", "GR1348941", rf"GR1348941{_URL}{{20,}}"),
    _shape("atlassian-token", "ATATT3", r"ATATT3[\w=-]{60,}"),
    _shape("npm-token", "npm_", rf"npm_{_NUM}{{36}}"),
    _shape("pypi-token", "pypi-", rf"pypi-{_URL}{{50,}}"),
    _shape("rubygems-token", "rubygems_", rf"rubygems_{_HEX}{{48}}"),
    _shape("linear-token", "lin_", rf"lin_(?:api|oauth)_{_NUM}{{40}}"),
    _shape("postman-key", "PMAK-", rf"PMAK-{_HEX}{{24}}-{_HEX}{{34}}"),
    _shape("sentry-token", "sntry", r"sntry[su]_[A-Za-z0-9_=+/-]{40,}"),
    _shape("figma-token", "figd_", rf"figd_{_URL}{{40}}"),
    _shape("airtable-token", "pat", rf"pat{_NUM}{{14}}\.{_HEX}{{64}}"),
    _shape("notion-token", "ntn_ secret_", rf"(?:ntn_{_NUM}{{40,}}|secret_{_NUM}{{43}})(?!{_NUM})"),
    _shape("newrelic-key", "NRAK-", r"NRAK-[A-Z0-9]{27}"),
    _shape("grafana-token", "glsa_ glc_", rf"(?:glsa_{_NUM}{{32}}_{_HEX}{{8}}|glc_{_B64}{{32,}})"),
    _shape("dropbox-token", "sl.", rf"sl\.{_URL}{{130,}}"),
    _shape("stripe-key", "_live_ _test_", rf"[sr]k_(?:live|test)_{_NUM}{{16,}}"),
    _shape("stripe-webhook-secret", "whsec_", rf"whsec_{_B64}{{24,}}"),
    _shape("shopify-token", "shp", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    _shape("square-token", "sq0", rf"sq0(?:atp|csp|idp)-{_URL}{{22,}}"),
    _shape("discord-token", ".", rf"[MNO]{_URL}{{23,27}}\.{_URL}{{6}}\.{_URL}{{27,38}}(?!{_URL})", r"[\w.-]"),
    _shape("discord-webhook", "/api/webhooks/", r"discord(?:app)?\.com/api/webhooks/\d{15,21}/[\w-]{60,}", r"[\w-]"),
    _shape("slack-token", "xox xapp-", r"(?:xox[abcdeoprs](?:\.xox[bp])?|xapp)-[A-Za-z0-9-]{20,}"),
    _shape("slack-webhook", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9+/]{40,}"),
    _shape("telegram-token", ":AA", rf"[0-9]{{8,10}}:AA{_URL}{{33}}(?!{_URL})"),
    _shape("twitter-token", "AAAAAAAAAAAAAAAAAAAAA", r"A{20,24}[A-Za-z0-9%]{60,}"),
    _shape("twilio-key", "SK", rf"SK{_HEX}{{32}}(?!{_NUM})"),
    _shape("sendgrid-key", "SG.", rf"SG\.{_URL}{{22}}\.{_URL}{{43}}"),
    _shape("mailchimp-key", "-us", rf"{_HEX}{{32}}-us[0-9]{{1,2}}(?!{_NUM})"),
    _shape("mailgun-key", "key-", r"key-[0-9a-f]{32}(?![A-Za-z0-9])", r"[\w-]"),
    _shape("teams-webhook", "webhook.office.com", r"webhook\.office\.com/webhookb2/[\w@/-]{80,}", r"[\w-]"),
    _shape("anthropic-key", "sk-ant-", rf"sk-ant-[a-z0-9]{{3,10}}-{_URL}{{24,}}"),
    _shape("openrouter-key", "sk-or-", rf"sk-or-v[0-9]-{_HEX}{{48,}}"),
    _shape("openai-key", "sk-", rf"sk-(?:(?:proj|svcacct|admin|None)-{_URL}{{32,}}|{_NUM}{{32,}})"),
    _shape("huggingface-token", "hf_ api_org_", rf"(?:hf_{_NUM}{{30,}}|api_org_{_NUM}{{30,}})"),
    _shape("groq-key", "gsk_", rf"gsk_{_NUM}{{48,}}"),
    _shape("perplexity-key", "pplx-", rf"pplx-{_NUM}{{40,}}"),
    _shape("replicate-token", "r8_", rf"r8_{_NUM}{{37}}"),
    _shape("xai-key", "xai-", rf"xai-{_NUM}{{60,}}"),
    _shape("langsmith-key", "lsv2_", rf"lsv2_(?:pt|sk)_{_HEX}{{32}}_{_HEX}{{10}}"),
    _shape("age-key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    _shape("jwt", "eyJ", rf"eyJ{_URL}{{10,}}\.eyJ{_URL}{{10,}}\.{_URL}{{20,}}", r"[\w-]"),
    _shape(
        "private-key",
        "PRIVATE",
        r"-----BEGIN (?:[A-Z]{2,10} ){0,2}PRIVATE KEY(?: BLOCK)?-----(?:[\s\"',+]|\\[nr]){1,12}"
        rf"(?:[A-Z][A-Za-z-]{{2,20}}: [^\n]{{0,80}}\s{{1,4}}){{0,3}}{_B64}{{16}}",
        "x-",
    ),
    _shape("putty-key", "PuTTY-User-Key-File", r"PuTTY-User-Key-File-[23]: [\w-]+\s+Encryption: none"),
)

_BY_NEEDLE: dict[str, list[tuple[str, str]]] = {}
for _kind, _needles, _pattern in SHAPES:
    for _needle in _needles:
        _BY_NEEDLE.setdefault(_needle, []).append((_kind, _pattern))

_VALUE = r"(?P<value>[^\s\"'`]{8,200})"

# Where a secret stands: these are judged by their value, the only group of the pattern. Needles are lower case.
PLACES: tuple[_Shape, ...] = (
    _shape(
        "password-in-url",
        "://",
        r"(?i:postgres(?:ql)?|mysql2?|mariadb|mongodb|rediss?|amqps?|mssql|sqlserver|clickhouse|cockroachdb|ldaps?|smtps?"
        r"|ftps?|sftp|nats|https?)(?:\+[a-z0-9]{1,12})?://[^\s:/@\"'<>]{0,80}:(?P<value>[^\s@/\"'<>]{3,200})@",
    ),
    _shape(
        "authorization-header",
        "authorization bearer",
        r"(?i:authorization|bearer)(?:\"?\s?[:=]\s?\"?)?\s?(?i:basic|bearer|token)?\s(?P<value>[A-Za-z0-9._~+/=-]{20,400})",
    ),
    _shape(
        "assigned-secret",
        "pass pwd secret token credential key",
        r"(?i:pass(?:word|wd|phrase)|pwd|secret|token|credentials?"
        r"|(?:api|access|secret|private|account|auth|encryption|signing)[_-]?key)"
        r"(?:[_-]?(?i:key|value|string|base|prod|dev|staging|[0-9]{1,2}))?"
        r"[\"'`]?[ \t]{0,5}(?::=|=>|=|:)[ \t]{0,5}"
        r"(?P<value>([\"'`])[^\s\"'`]{8,300}+\2|[^\s\"'`,;(){}\[\]<>]{12,300}+(?=[\s,;]|\Z))",
        "",
    ),
)

_SAID = r"(?:pass(?:word|wd|phrase)|(?:secret|api|access|private)(?:[ _-](?:access[ _-])?key)|token|secret)"
# Told by place alone: what a value stands behind is ordinary text, so the value must look like nothing else.
PLACES += (
    _shape("netrc-password", "login", rf"(?i:login)\s{{1,5}}\S{{1,80}}\s{{1,5}}(?i:password)\s{{1,5}}{_VALUE}"),
    _shape("password-in-command", "curl wget http", rf"\s(?:-u|--user)[= ]?[\"']?[\w.@-]{{1,80}}:{_VALUE}", ""),
    _shape(
        "password-in-command",
        "mysql mariadb",
        rf"(?:mysql\w{{0,8}}|mariadb)(?:[ \t][^\s|]{{1,80}}){{0,12}}?[ \t]-p{_VALUE}",
    ),
    _shape(
        "password-in-command",
        "--",
        rf"--(?i:[a-z-]{{0,20}}(?:password|passwd|secret|token|key))[ \t]{{1,3}}[\"']?{_VALUE}",
        "",
    ),
    _shape(
        "pgpass-line", ":", rf"(?m:^[\w.*-]{{1,80}}:(?:[0-9]{{2,5}}|\*):[\w*-]{{1,63}}:[\w*-]{{1,63}}:{_VALUE}$)", ""
    ),
    _shape("docker-auth", "auth", rf"\"auth\"\s{{0,3}}:\s{{0,3}}\"(?P<value>{_B64}{{16,}}={{0,2}})\"", ""),
    _shape(
        "session-cookie",
        "cookie",
        r"(?i:cookie)[\"']?:[^\n]{0,200}?(?i:sess(?:ion)?[_.]?(?:id|token)?|[a-z.]{0,9}sid|auth|token|jwt)=(?P<value>[^\s;\"']{12,400})",
    ),
    _shape(
        "said-secret",
        "pass secret token key",
        rf"(?i:{_SAID})(?: (?:for|of|on|to) [\w.-]{{1,40}})?(?: (?:is|was|are|set to|:))[ \t]{{1,3}}[\"'`]?{_VALUE}",
    ),
    _shape("table-secret", "|", rf"(?i:{_SAID})[^|\n]{{0,30}}\|[ \t]{{0,40}}[\"'`]?(?P<value>[^\s|\"'`]{{8,200}})", ""),
)

_SURE = frozenset({"netrc-password", "password-in-command", "pgpass-line", "docker-auth", "session-cookie"})

# Values that are no secrets, whatever they stand behind.
_PLACEHOLDERS = (
    r"(?i)example|placeholder|change.?me|your|dummy|redacted|sample|insert|replace|todo|\bfake|mock|x{4}|\*{3}|\.{3}"
    r"|\$\{|\{\{|%\(|\$\(|<|>|^\$|^%|^@|process\.env|environ|getenv|secrets?\.|config\.|settings\.|vault:|file:|ref:|env:"
    r"|^(?:https?|file|arn|urn|sha\d*|md5|uuid)[:-]|^(?:test|foo|bar|pass|secret|token|admin|user|none|null|true|false)"
)
_WORD_OR_NUMBER = "(?:[0-9]{0,2}[A-Za-z]+[0-9]{0,2}[A-Za-z]{0,4}|[0-9]{1,4})"
_NAMES = (
    rf"(?i:{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}})"  # a UUID
    r"|[A-Za-z_][\w-]*(?:[./:]+[\w-]+)+\(?\)?"  # a.b.c, a/b, a::b, f.g()
    rf"|{_WORD_OR_NUMBER}(?:[-_]{_WORD_OR_NUMBER})+"  # vault-item-42
    r"|\w{4,90}_[0-9]{10,15}_[0-9a-z]{8}"  # the id of a record
)
_UNSEEN = "[\u00ad\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f]"
# A line break that may stand inside a token.
_BROKEN = r"[0-9][\w+/=-]{3,40}\r?\n|\n[ \t]{0,40}[\w+/=-]{0,20}[0-9][\w+/=-]{8}"
_SYMBOLS = frozenset("!#%^*~+")  # as people put into passwords; not those of names, paths and URLs
_QUOTED_BITS = 2.75  # bits per character; eight different letters have 3
_BARE_BITS = 3.2
_URL_VARIETY = 3  # different characters of a password in a URL, at least one more
_VARIETY = 6  # different characters in what stands behind a prefix; fewer is `ghp_xxxxxxxx`


def find(text: str) -> tuple[Secret, ...]:
    """Return where a text holds what looks like a secret, by line; where a shape is known, only its kind.

    Characters that nobody sees, and line breaks in the middle of a token, hide nothing.
    """
    if not text.isascii():
        text = _compiled(_UNSEEN).sub("", text)
    breaks = [at.start() for at in re.finditer("\n", text)]
    exact = {Secret(bisect_left(breaks, at) + 1, kind) for at, kind in _shaped(text)}
    if _compiled(_BROKEN).search(text):
        joined, ends = _joined(text)
        found = {Secret(bisect_right(ends, at) + 1, kind) for at, kind in _shaped(joined)}
        exact |= {one for one in found if one.kind not in {known.kind for known in exact}}
    loose = {Secret(bisect_left(breaks, at) + 1, kind) for at, kind in _placed(text)}
    taken = {secret.line for secret in exact}
    return tuple(sorted(exact | {secret for secret in loose if secret.line not in taken}))


def _joined(text: str) -> tuple[str, list[int]]:
    """The text without line breaks and indentation, and the places in it where its lines ended."""
    lines = [line.strip(" \t\r") for line in text.split("\n")]
    ends = list(accumulate(map(len, lines)))
    return "".join(lines), ends


def _shaped(text: str) -> Iterator[tuple[int, str]]:
    for needle, shapes in _BY_NEEDLE.items():  # most texts hold none, so this line is what a search costs
        if needle in text:
            for kind, pattern in shapes:
                for match in _compiled(pattern).finditer(text):
                    value = match.group()
                    if len(set(value[-24:])) >= _VARIETY and "EXAMPLE" not in value.upper():
                        yield match.start(), kind


def _placed(text: str) -> Iterator[tuple[int, str]]:
    lower = text.lower()
    for kind, needles, pattern in PLACES:
        if any(needle in lower for needle in needles):
            for match in _compiled(pattern).finditer(text):
                if _is_secret(match["value"], in_url=kind == "password-in-url", sure=kind in _SURE):
                    yield match.start(), kind


def _is_secret(value: str, *, in_url: bool = False, sure: bool = False) -> bool:
    """Say whether a value can be a secret: mixed characters, few repeats, no placeholder, no name.

    Args:
        in_url: it stands where a URL has a password.
        sure: it stands where nothing but a secret stands.
    """
    quoted = value[0] in "\"'`"
    bare = value[1:-1] if quoted else value.rstrip(".:!?")
    if _compiled(_PLACEHOLDERS).search(bare) or _compiled(_NAMES).fullmatch(bare):
        return False
    if in_url:
        return len(set(bare)) > _URL_VARIETY  # a URL with a password is no accident of prose
    mixed = any(char.isalpha() for char in bare) and any(char.isdigit() or char in _SYMBOLS for char in bare)
    return mixed and _entropy(bare) >= (_QUOTED_BITS if quoted or sure else _BARE_BITS)


def _entropy(value: str) -> float:
    """Return Shannon's entropy in bits per character."""
    size = len(value)
    return -sum(count / size * math.log2(count / size) for count in Counter(value).values())


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile at first need: all at once would cost 50 ms of CPU at every start."""
    return re.compile(pattern)
