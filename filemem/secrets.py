"""Find secrets in a text by two tables of patterns; report only line and kind.

Rule: no message, value or exception made here contains any part of a secret. One table lists
secrets with a distinct prefix or form; the other finds secrets by their place
(`password = "..."`), if they look random enough and are no placeholder. Each pattern either ends
in its only unbounded part or cannot begin again inside what it reads, so the time is linear in the
text, whatever the text is.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple


class Secret(NamedTuple):
    """The line (from 1) and kind of what looks like a secret; never the secret."""

    line: int
    kind: str


# Each row: kind, needles, pattern. A pattern is compiled and tried only for texts with a needle.
# An indented line continues the one above. A pattern without a lookbehind must not follow a letter
# or digit. Sorted by maker: clouds, code hosts, payment, messages, models, others.
_FORM_TABLE = r"""
aws-access-key AKIA,ASIA,ABIA,ACCA (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![^\W_])
aws-secret-key aws,AWS,Aws (?i:aws_?secret_?(?:access_?)?key)["']?\s{0,5}[:=]\s{0,5}["']?
  [\w+/]{40}(?![\w+/])
azure-client-secret Q~ (?<![\w~.-])[^\W_][\w~.-]{2}[78]Q~[\w~.-]{31,34}(?![\w~.-])
azure-storage-key AccountKey= AccountKey=[\w+/]{86}==
azure-sas sig= sig=[\w%/+]{43,60}(?:%3D|=)
digitalocean-token do do[opr]_v1_[a-f0-9]{64}
google-api-key AIza AIza[\w-]{35}(?![\w-])
google-oauth-secret GOCSPX- GOCSPX-[\w-]{28}
google-oauth-token ya29. ya29\.[\w-]{30,}
heroku-key HRKU- HRKU-[\w-]{36,}
heroku-key heroku,HEROKU,Heroku (?i:heroku[a-z_ -]{0,20}key)["']?\s{0,5}[:=]\s{0,5}["']?
  [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
alibaba-key LTAI LTAI[^\W_]{16,26}(?![^\W_])
cloudflare-origin-key v1.0- v1\.0-[0-9a-f]{24}-[0-9a-f]{146}
databricks-token dapi dapi[0-9a-f]{32}
docker-token dckr_ dckr_(?:pat|oat)_[\w-]{27,}
terraform-token .atlasv1. [^\W_]{14}\.atlasv1\.[\w-]{60,}
vault-token hvs.,hvb. hv[sb]\.[\w-]{24,}
planetscale-token pscale_ pscale_(?:pw|tkn|oauth)_[\w.-]{32,}
tailscale-key tskey- tskey-(?:[a-z]{2,12}-)?[^\W_]{6,}-[^\W_]{16,}
fly-token FlyV1,fo1_ (?:FlyV1\s{1,2}fm[0-9][a-z]?_[\w+/=,-]{40,}|fo1_[\w-]{40,})
firebase-key :APA91b AAAA[\w-]{7}:APA91b[\w-]{100,}
supabase-token sbp_ sbp_[0-9a-f]{40}
doppler-token dp. dp\.(?:pt|st|ct|sa)\.[\w.]{40,}
github-token ghp_,gho_,ghu_,ghs_,ghr_ gh[pousr]_[^\W_]{36,}
github-fine-grained-token github_pat_ github_pat_\w{60,}
gitlab-token gl,GR1348941 (?:gl(?:pat|dt|rt|ptt|ft|soat|cbt|imt|agent)-|GR1348941)[\w-]{20,}
atlassian-token ATATT3 ATATT3[\w=-]{60,}
npm-token npm_ npm_[^\W_]{36}
pypi-token pypi- pypi-[\w-]{50,}
rubygems-token rubygems_ rubygems_[0-9a-f]{48}
linear-token lin_ lin_(?:api|oauth)_[^\W_]{40}
postman-key PMAK- PMAK-[0-9a-f]{24}-[0-9a-f]{34}
sentry-token sntry sntry[su]_[\w=+/-]{40,}
figma-token figd_ figd_[\w-]{40}
airtable-token pat pat[^\W_]{14}\.[0-9a-f]{64}
notion-token ntn_,secret_ (?:ntn_[^\W_]{40,}|secret_[^\W_]{43})(?![^\W_])
newrelic-key NRAK- NRAK-[A-Z0-9]{27}
grafana-token glsa_,glc_ (?:glsa_[^\W_]{32}_[0-9a-f]{8}|glc_[\w+/]{32,})
dropbox-token sl. sl\.[\w-]{130,}
stripe-key _live_,_test_ [sr]k_(?:live|test)_[^\W_]{16,}
stripe-webhook-secret whsec_ whsec_[\w+/]{24,}
shopify-token shp shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}
square-token sq0 sq0(?:atp|csp|idp)-[\w-]{22,}
discord-token . (?<![\w.-])[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,38}(?![\w-])
discord-webhook /api/webhooks/ discord(?:app)?\.com/api/webhooks/\d{15,21}/[\w-]{60,}
slack-token xox,xapp- (?:xox[abcdeoprs](?:\.xox[bp])?|xapp)-[A-Za-z0-9-]{20,}
slack-webhook hooks.slack.com hooks\.slack\.com/(?:services|workflows)/[\w+/]{40,}
telegram-token :AA [0-9]{8,10}:AA[\w-]{33}(?![\w-])
twitter-token AAAAAAAAAAAAAAAAAAAAA A{20,24}[A-Za-z0-9%]{60,}
twilio-key SK SK[0-9a-f]{32}(?![^\W_])
sendgrid-key SG. SG\.[\w-]{22}\.[\w-]{43}
mailchimp-key -us [0-9a-f]{32}-us[0-9]{1,2}(?![^\W_])
mailgun-key key- (?<![\w-])key-[0-9a-f]{32}(?![^\W_])
teams-webhook webhook.office.com webhook\.office\.com/webhookb2/[\w@/-]{80,}
anthropic-key sk-ant- sk-ant-[a-z0-9]{3,10}-[\w-]{24,}
openrouter-key sk-or- sk-or-v[0-9]-[0-9a-f]{48,}
openai-key sk- sk-(?:(?:proj|svcacct|admin|None)-[\w-]{32,}|[^\W_]{32,})
huggingface-token hf_,api_org_ (?:hf|api_org)_[^\W_]{30,}
groq-key gsk_ gsk_[^\W_]{48,}
perplexity-key pplx- pplx-[^\W_]{40,}
replicate-token r8_ r8_[^\W_]{37}
xai-key xai- xai-[^\W_]{60,}
langsmith-key lsv2_ lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}
age-key AGE-SECRET-KEY-1 AGE-SECRET-KEY-1[0-9A-Z]{58}
jwt eyJ (?<![\w-])eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{20,}
private-key PRIVATE -----BEGIN (?:[A-Z]{2,10} ){0,2}PRIVATE KEY(?: BLOCK)?-----
  (?:[\s"',+]|\\[nr]){1,12}
  (?:[A-Z][A-Za-z-]{2,20}: [^\n]{0,80}\s{1,4}){0,3}[\w+/]{16}
putty-key PuTTY-User-Key-File PuTTY-User-Key-File-[23]: [\w-]+\s+Encryption: none
"""

# Places of secrets: the group `value` decides whether it is one. Needles are lower case.
_PLACE_TABLE = r"""
password-in-url :// (?i:postgres(?:ql)?|mysql2?|mariadb|mongodb|rediss?|amqps?|mssql|sqlserver
  |clickhouse|cockroachdb|ldaps?|smtps?|ftps?|sftp|nats|https?)(?:\+[a-z0-9]{1,12})?
  ://[^\s:/@"'<>]{0,80}:(?P<value>[^\s@/"'<>]{3,200})@
authorization-header authorization,bearer (?i:authorization|bearer)(?:"?\s?[:=]\s?"?)?\s?
  (?i:basic|bearer|token)?\s(?P<value>[\w.~+/=-]{20,400})
assigned-secret pass,pwd,secret,token,credential,key (?<!\0)(?i:pass(?:word|wd|phrase)|pwd|secret
  |token|credentials?|(?:api|access|secret|private|account|auth|encryption|signing)[_-]?key)
  (?:[_-]?(?i:key|value|string|base|prod|dev|staging|[0-9]{1,2}))?["'`]?
  [ \t]{0,5}(?::=|=>|=|:)[ \t]{0,5}
  (?P<value>(["'`])[^\s"'`]{8,300}+\2|[^\s"'`,;(){}\[\]<>]{12,300}+(?=[\s,;]|\Z))
netrc-password login (?i:login)\s{1,5}\S{1,80}\s{1,5}(?i:password)\s{1,5}VALUE
password-in-command curl,wget,http (?<=\s)(?:-u|--user)[= ]?["']?[\w.@-]{1,80}:VALUE
password-in-command mysql,mariadb (?:mysql\w{0,8}|mariadb)(?:[ \t][^\s|]{1,80}){0,12}?[ \t]-pVALUE
password-in-command -- (?<!\0)--(?i:[a-z-]{0,20}(?:password|passwd|secret|token|key))
  [ \t]{1,3}["']?VALUE
pgpass-line : (?<![^\n])[\w.*-]{1,80}:(?:[0-9]{2,5}|\*):[\w*-]{1,63}:[\w*-]{1,63}:VALUE(?![^\n])
docker-auth auth "auth"\s{0,3}:\s{0,3}"(?P<value>[\w+/]{16,}={0,2})"
session-cookie cookie (?i:cookie)["']?:[^\n]{0,200}?
  (?i:sess(?:ion)?[_.]?(?:id|token)?|[a-z.]{0,9}sid|auth|token|jwt)=(?P<value>[^\s;"']{12,400})
said-secret pass,secret,token,key (?i:SAID)(?: (?:for|of|on|to) [\w.-]{1,40})?
  (?: (?:is|was|are|set to|:))[ \t]{1,3}["'`]?VALUE
table-secret | (?<!\0)(?i:SAID)[^|\n]{0,30}\|[ \t]{0,40}["'`]?(?P<value>[^\s|"'`]{8,200})
"""
_PLACE_TABLE = _PLACE_TABLE.replace("VALUE", r"(?P<value>[^\s\"'`]{8,200})").replace(
    "SAID",
    "pass(?:word|wd|phrase)|(?:secret|api|access|private)(?:[ _-](?:access[ _-])?key)|token|secret",
)
_SURE_KINDS = frozenset(
    {"netrc-password", "password-in-command", "pgpass-line", "docker-auth", "session-cookie"}
)


class _Pattern(NamedTuple):
    """A row of a table; `needle` is in every text that the pattern matches."""

    needle: str
    kind: str
    pattern: str


def _iter_patterns(table: str) -> Iterator[_Pattern]:
    """Yield the rows of a table, once for each needle."""
    for row in table.strip().replace("\n  ", "").split("\n"):
        kind, needles, pattern = row.split(" ", 2)
        if not pattern.startswith(("(?<", "-----")):
            pattern = rf"(?<![^\W_]){pattern}"
        for needle in needles.split(","):
            yield _Pattern(needle, kind, pattern)


_FORM_PATTERNS = tuple(_iter_patterns(_FORM_TABLE))
_PLACE_PATTERNS = tuple(_iter_patterns(_PLACE_TABLE))

# Values that are never secrets.
_PLACEHOLDER_PATTERN = (
    r"(?i)example|placeholder|change.?me|your|dummy|redacted|sample|insert|replace|todo|\bfake|mock"
    r"|x{4}|\*{3}|\.{3}|\$\{|\{\{|%\(|\$\(|<|>|^\$|^%|^@"
    r"|process\.env|environ|getenv|secrets?\.|config\.|settings\.|vault:|file:|ref:|env:"
    r"|^(?:https?|file|arn|urn|sha\d*|md5|uuid)[:-]"
    r"|^(?:test|foo|bar|pass|secret|token|admin|user|none|null|true|false)"
)
_WORD_OR_NUMBER = "(?:[0-9]{0,2}[A-Za-z]+[0-9]{0,2}[A-Za-z]{0,4}|[0-9]{1,4})"
_NAME_PATTERN = (
    r"(?i:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"  # a UUID
    r"|[A-Za-z_][\w-]*(?:[./:]+[\w-]+)+\(?\)?"  # a.b.c, a/b, a::b, f.g()
    rf"|{_WORD_OR_NUMBER}(?:[-_]{_WORD_OR_NUMBER})+"  # vault-item-42
    r"|\w{4,90}_[0-9]{10,15}_[0-9a-z]{8}"  # the id of a record
)
# An expression in code outside quotes: `this.#secret`, `cfg?.token!`, `&self.key`.
_EXPRESSION_PATTERN = r"[&*!]{0,2}[$@]?[A-Za-z_]\w*(?:(?:[.:]{1,2}|\?\.|!\.)[#$]?[A-Za-z_]\w*)+!?"
_INVISIBLE = "[\u00ad\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f]"
# A line break that may be in a token.
_LINE_BREAK = r"[0-9][\w+/=-]{3,40}\r?\n|\n[ \t]{0,40}[\w+/=-]{0,20}[0-9][\w+/=-]{8}"
_SYMBOLS = frozenset("!#%^*~+")  # usual in passwords; not those of names, paths and URLs
# Bits per character; eight different letters have 3.
_MIN_QUOTED_BITS = 2.75
_MIN_BARE_BITS = 3.2
_MIN_VARIETY = 6  # different characters after a prefix; fewer is `ghp_xxxxxxxx`


def find_secrets(text: str) -> tuple[Secret, ...]:
    """Find what looks like a secret, by line; at most one a line.

    Invisible characters are removed first, and secrets broken over two lines are found too.
    """
    if not text.isascii():
        text = _compile_pattern(_INVISIBLE).sub("", text)
    line_ends = [newline.start() for newline in re.finditer("\n", text)]
    by_line = _find_by_form(text, line_ends)
    lower_text = text.lower()
    tried = set()  # a pattern with several needles
    for needle, kind, pattern in _PLACE_PATTERNS:
        if needle not in lower_text or (kind, pattern) in tried:
            continue
        tried.add((kind, pattern))
        for match in _compile_pattern(pattern).finditer(text):
            line = bisect_left(line_ends, match.start()) + 1
            if line not in by_line and _is_secret(match["value"], kind):
                by_line[line] = Secret(line, kind)
    return tuple(by_line[line] for line in sorted(by_line))


def _find_by_form(text: str, line_ends: list[int]) -> dict[int, Secret]:
    """Find secrets with a distinct form, by line, also if a line break splits them."""
    lines = [line.strip() for line in text.split("\n")]
    joined_text = "".join(lines)
    # Most texts have no needle, so this line decides what a search costs.
    patterns = [row for row in _FORM_PATTERNS if row.needle in joined_text]
    by_line = _match_forms(text, line_ends, patterns)
    if not patterns or not _compile_pattern(_LINE_BREAK).search(text):
        return by_line
    found_kinds = {secret.kind for secret in by_line.values()}
    joined_ends = []
    joined_size = 0
    for line in lines:
        joined_size += len(line)
        joined_ends.append(joined_size - 1)
    for number, secret in _match_forms(joined_text, joined_ends, patterns).items():
        if secret.kind not in found_kinds:
            by_line.setdefault(number, secret)
    return by_line


def _match_forms(
    text: str, line_ends: list[int], patterns: Iterable[_Pattern]
) -> dict[int, Secret]:
    """Match patterns; return the alphabetically first kind for each line.

    `line_ends` are the positions at which lines end.
    """
    by_line: dict[int, Secret] = {}
    for row in patterns:
        for match in _compile_pattern(row.pattern).finditer(text):
            value = match.group()
            is_example = "EXAMPLE" in value.upper()
            if is_example or len(set(value[-24:])) < _MIN_VARIETY:
                continue
            line = bisect_left(line_ends, match.start()) + 1
            secret = Secret(line, row.kind)
            by_line[line] = min(by_line.get(line, secret), secret)
    return by_line


def _is_secret(value: str, kind: str) -> bool:
    """Return whether a value looks random: mixed, few repeats, no placeholder or name."""
    is_quoted = value[0] in "\"'`"
    bare_value = value[1:-1] if is_quoted else value.rstrip(".:!?")
    if _compile_pattern(_PLACEHOLDER_PATTERN).search(bare_value):
        return False
    if _compile_pattern(_NAME_PATTERN).fullmatch(bare_value):
        return False
    if kind == "assigned-secret" and _compile_pattern(_EXPRESSION_PATTERN).fullmatch(value):
        return False
    if kind == "password-in-url":
        return len(set(bare_value)) > 3  # prose has no URL with a password by accident
    min_bits = _MIN_BARE_BITS
    if is_quoted or kind in _SURE_KINDS:
        min_bits = _MIN_QUOTED_BITS
    return _is_mixed(bare_value) and _compute_entropy(bare_value) >= min_bits


def _is_mixed(text: str) -> bool:
    """Return whether a text has letters, and digits or symbols."""
    has_letters = any(char.isalpha() for char in text)
    return has_letters and any(char.isdigit() or char in _SYMBOLS for char in text)


def _compute_entropy(text: str) -> float:
    """Compute the entropy of a text in bits per character."""
    entropy = 0.0
    for count in Counter(text).values():
        share = count / len(text)
        entropy -= share * math.log2(share)
    return entropy


@cache
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern at its first use: all of them would cost 50 ms of CPU at every start."""
    return re.compile(pattern, re.ASCII)
