"""Ids, topics, slugs and paths: what is stable, portable and short."""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filemem.record import (
    Record,
    build_id,
    build_record_path,
    build_topic_key,
    compute_number,
    derive_id,
    parse_record,
    render_record,
    shorten_id,
    slugify,
)

MS = 1763650000123
ENTROPY = bytes.fromhex("98de9e1548ff")


def test_ids_have_the_form_of_the_format_page() -> None:
    id_ = build_id("decision", MS, ENTROPY, "Caching")
    assert re.fullmatch(r"decision_caching_1763650000123_[0-9a-hjkmnp-tv-z]{8}", id_)
    assert id_.endswith(shorten_id(id_))
    assert re.fullmatch(r"checkpoint_1763650000123_.{8}", build_id("checkpoint", MS, ENTROPY))
    assert re.fullmatch(
        r"observation_1763650000123_.{8}", build_id("observation", MS, ENTROPY, "unused")
    )
    assert build_id("decision", MS, ENTROPY, "a") != build_id("decision", MS, bytes(5), "a")


@pytest.mark.parametrize(
    ("topic", "part"),
    [
        ("Auth Strategy", "auth_strategy"),
        ("café crème", "cafe_creme"),
        ("캐시 v2", "v2"),
        ("x" * 80, "x" * 50),
        ("C++/CLI", "c_cli"),
    ],
)
def test_topics_in_ids(topic: str, part: str) -> None:
    assert build_id("decision", 1, bytes(5), topic) == f"decision_{part}_1_00000000"


def test_a_topic_without_ascii_gets_a_hash() -> None:
    korean, chinese = (build_id("decision", 1, bytes(5), topic) for topic in ("캐시", "缓存"))
    assert korean != chinese
    assert re.fullmatch(r"decision_[0-9a-z]{8}_1_00000000", korean)


@pytest.mark.parametrize(
    ("id_", "short"),
    [
        ("decision_caching_1763650000123_k3f9w2ma", "k3f9w2ma"),
        ("file_0123456789abcdef", "89abcdef"),
        ("decision_auth_1700000000_a1b2", "a1b2"),
        ("ADR-12", "ADR-12"),
    ],
)
def test_short_ids(id_: str, short: str) -> None:
    assert shorten_id(id_) == short


def test_derived_ids_are_stable() -> None:
    path = "decisions/a.md"
    digest = base64.b32encode(hashlib.sha256(path.encode()).digest()[:10]).decode()
    crockford = str.maketrans(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "0123456789abcdefghjkmnpqrstvwxyz"
    )
    assert derive_id(path) == f"file_{digest.translate(crockford)}" == "file_y2gh7ssydw56pn60"
    assert derive_id("caf\u00e9.md") == derive_id("cafe\u0301.md")
    assert re.fullmatch(r"file_[0-9a-hjkmnp-tv-z]{16}", derive_id("\ud800"))


def test_numbers_are_stable_and_exact_everywhere() -> None:
    seen = {compute_number(f"checkpoint_{n}_aaaaaaaa") for n in range(2000)}
    assert len(seen) == 2000
    assert all(0 < n < 2**53 and int(float(n)) == n for n in seen)


@pytest.mark.parametrize(
    ("topic", "key", "name"),
    [
        ("Auth Strategy", "auth_strategy", "auth-strategy"),
        ("auth-strategy", "auth_strategy", "auth-strategy"),
        ("auth_strategy_v2", "auth_strategy_v2", "auth-strategy-v2"),
        ("AUTH/strategy", "auth_strategy", "auth-strategy"),
        ("auth : - strategy.", "auth_strategy", "auth-strategy"),
        ("auth", "auth", "auth"),
        ("Straße", "strasse", "strasse"),
        ("캐시 정책", "캐시_정책", "캐시-정책"),
        ("e\u0301tat", "état", "état"),
        ("con/aux", "con_aux", "con-aux"),
        ("../../etc/passwd", "etc_passwd", "etc-passwd"),
        ("///", "", "untitled"),
        ("c++", "c++", "c"),
    ],
)
def test_topics(topic: str, key: str, name: str) -> None:
    record = Record(id="x_1_k3f9w2ma", type="decision", title="Use it", topic=topic, created=MS)
    assert (build_topic_key(topic), build_record_path(record)) == (
        key,
        f"decisions/2025/11/{name}--20251120-use-it-k3f9w2ma.md",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Switch to a local LRU cache", "switch-to-a-local-lru-cache"),
        ("naïve café", "naïve-café"),
        ("हिन्दी में", "हिन्दी-में"),
        ("한국어 제목", "한국어-제목"),
        ("NUL", "nul_"),
        ("com1", "com1_"),
        ("..hidden", "hidden"),
        ("a\u200db\u202ec", "abc"),
        ("a\nb\tc", "a-b-c"),
        ("🙂", "untitled"),
        ("Show ❤️ and 👍🏽", "show-and"),
        ("", "untitled"),
        ('a<b>:"c|d?*e\\f/g', "a-b-c-d-e-f-g"),
    ],
)
def test_slugs(text: str, expected: str) -> None:
    assert slugify(text) == expected


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.text(max_size=200), st.integers(8, 80))
def test_slugs_are_portable(text: str, limit: int) -> None:
    name = slugify(text, limit)
    assert 0 < len(name.encode()) <= limit + 1
    assert not set(name) & set('<>:"/\\|?*. \t\n')
    assert all(unicodedata.category(c)[0] != "C" for c in name)
    assert not name.startswith(("-", ".")) and not name.endswith("-")  # noqa: PT018
    assert unicodedata.is_normalized("NFC", name)
    assert slugify(name, limit) in (name, f"{name}_", name.removesuffix("_"))


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.text(max_size=60))
def test_topic_identity_is_stable(topic: str) -> None:
    key = build_topic_key(topic)
    assert build_topic_key(key) == key
    assert build_topic_key(f"  {topic}--") == key


def test_a_long_slug_is_cut_between_words() -> None:
    cut = slugify("one two three four five six seven eight nine ten eleven twelve thirteen")
    assert cut == "one-two-three-four-five-six-seven-eight-nine-ten-eleven"
    assert len(slugify("가" * 100).encode()) == 60


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        (("decision", "cache", ""), "decisions/2025/11/cache--20251120-use-it-k3f9w2ma.md"),
        (
            ("decision", "Auth: strategy/JWT", ""),
            "decisions/2025/11/auth-strategy-jwt--20251120-use-it-k3f9w2ma.md",
        ),
        (("decision", "\u202e", ""), "decisions/2025/11/untitled--20251120-use-it-k3f9w2ma.md"),
        (("checkpoint", "", ""), "checkpoints/2025/11/20251120-use-it-k3f9w2ma.md"),
        (("observation", "", "project"), "observations/2025/11/20/20251120-use-it-k3f9w2ma.md"),
        (
            ("observation", "", "private"),
            "private/observations/2025/11/20/20251120-use-it-k3f9w2ma.md",
        ),
    ],
)
def test_paths(changes: tuple[str, str, str], path: str) -> None:
    type_, topic, visibility = changes
    record = Record(
        id="x_1_k3f9w2ma",
        type=type_,
        title="Use it",
        topic=topic,
        visibility=visibility,
        created=MS,
    )
    assert build_record_path(record) == path
    assert parse_record(render_record(record), path).record.type == type_  # type: ignore[union-attr]
