"""Manifests of eight kinds: each name with its line; what cannot be read names nothing, in no time."""

from __future__ import annotations

import time

import pytest

from filemem.record.manifest import is_same_dependency, parse_dependencies

FORMS = {
    "package.json": (
        '{\n "name": "redis",\n "dependencies": {\n  "redis": "^4",\n  "@acme/ui": "1"\n },\n'
        ' "devDependencies": {\n  "jest": "29"\n }\n}\n',
        [("redis", 4), ("@acme/ui", 5), ("jest", 8)],
    ),
    "pyproject.toml": (
        '[build-system]\nrequires = ["hatchling>=1"]\n[project]\nname = "redis-tool"\ndependencies = [\n'
        '  "Redis[hiredis]>=5 ; python_version > \'3\'",\n  "click",\n]\n'
        '[project.optional-dependencies]\ndb = ["psycopg2"]\n'
        '[dependency-groups]\ndev = ["pytest", {include-group = "x"}]\n'
        '[tool.poetry.dependencies]\npython = "^3"\nrequests = "^2"\n',
        [
            ("hatchling", 2),
            ("Redis", 6),
            ("click", 7),
            ("psycopg2", 10),
            ("pytest", 12),
            ("requests", 15),
        ],
    ),
    "requirements-dev.txt": (
        "# redis\n-r base.txt\nredis==5.0  # cache\nfoo @ https://host/foo.whl\n"
        "git+https://host/x.git#egg=bar\nhttps://host/y.whl\n",
        [("redis", 3), ("foo", 4), ("bar", 5)],
    ),
    "go.mod": (
        "module example.com/app\n\ngo 1.22\n\nrequire github.com/redis/go-redis/v9 v9.5.1\n"
        "require (\n\tgolang.org/x/sync v0.7.0 // indirect\n\t// a.b/c v1.0.0\n)\n",
        [("github.com/redis/go-redis/v9", 5), ("golang.org/x/sync", 7)],
    ),
    "Cargo.toml": (
        '[package]\nname = "redis"\n[dependencies]\nredis = "0.25"\nlog = { version = "1", package = "slog" }\n'
        '[dev-dependencies.tokio]\nversion = "1"\n',
        [("redis", 4), ("slog", 5), ("tokio", 6)],
    ),
    "Gemfile": (
        'source "https://rubygems.org"\n# gem "no"\ngem "redis", "~> 5"\n  gem \'pg\'\n',
        [("redis", 3), ("pg", 4)],
    ),
    "pom.xml": (
        "<project>\n<artifactId>redis</artifactId>\n<!-- <dependency>\n<artifactId>no</artifactId>"
        "</dependency> -->\n<dependencies>\n<dependency>\n<groupId>redis.clients</groupId>\n"
        "<artifactId>jedis</artifactId>\n</dependency>\n</dependencies></project>\n",
        [("redis.clients:jedis", 8)],
    ),
    "build.gradle": (
        "plugins { id 'java' }\ndependencies {\n  implementation 'redis.clients:jedis:5.1'\n"
        "  // implementation 'a:b:1'\n  testImplementation(\"junit:junit:4\")\n"
        "  api group: 'org.x', name: 'y', version: '1'\n}\n",
        [("redis.clients:jedis", 3), ("junit:junit", 5), ("org.x:y", 6)],
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_each_kind_names_its_dependencies_with_lines(name: str) -> None:
    text, wanted = FORMS[name]
    assert [tuple(one) for one in parse_dependencies(f"services/app/{name}", text)] == wanted
    assert parse_dependencies(f"services/app/{name}", text[: len(text) // 2] + '"{[') is not None


def test_other_files_name_none() -> None:
    for name in ("package-lock.json", "src/requirements.py", "README.md", "requirements.md"):
        assert parse_dependencies(name, '{"dependencies": {"redis": "1"}}') == ()


@pytest.mark.parametrize(
    ("wanted", "name", "equal"),
    [
        ("redis", "Redis", True),
        ("typing_extensions", "typing-extensions", True),
        ("redis", "redis-py", False),
        ("jedis", "redis.clients:jedis", True),
        ("redis.clients", "redis.clients:jedis", True),
        ("redis.clients:jedis", "redis.clients:jedis", True),
        ("github.com/redis/go-redis", "github.com/redis/go-redis/v9", True),
        ("ui", "@acme/ui", False),
    ],
)
def test_names_are_equal_as_their_registries_say(wanted: str, name: str, equal: bool) -> None:
    assert is_same_dependency(wanted, name) is equal


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pom.xml", "<dependency>" * 80_000),
        ("pom.xml", "<!--" * 250_000),
        ("package.json", "[" * 500_000),
        ("package.json", '{"dependencies": {' + '"a": "1",' * 100_000 + '"b": "1"}}'),
        ("package.json", '"' * 1_000_000),
        ("Cargo.toml", "[" * 500_000),
        ("Cargo.toml", "[dependencies]\n" + "".join(f"a{n} = '1'\n" for n in range(20_000))),
        ("pyproject.toml", "a." * 1_000 + "b = 1"),
        ("build.gradle", "a" * 1_000_000),
        ("build.gradle", " " * 1_000_000),
        ("go.mod", "require " * 120_000),
        ("requirements.txt", "a" * 1_000_000),
        ("Gemfile", "gem " * 250_000),
    ],
)
def test_hostile_manifests_cost_little(name: str, text: str) -> None:
    began = time.process_time()
    parse_dependencies(name, text)
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("package.json", '{"dependencies":{"x":"' + '\\"' * 300_000 + '"}}'),
        ("pyproject.toml", "a." * 300_000 + "b=1"),
        ("Cargo.toml", "[" + "'a' . " * 100_000 + "b]"),
    ],
)
def test_a_manifest_made_to_be_slow_is_read_at_once(path: str, text: str) -> None:
    """The test's own time limit shows it: each took minutes."""
    assert [item.name for item in parse_dependencies(path, text)] in ([], ["x"])
