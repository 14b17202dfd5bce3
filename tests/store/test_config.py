"""Where the user's own files are looked for."""

from pathlib import Path

import pytest

from filemem.config import get_user_folder, load
from filemem.errors import BadInput


@pytest.mark.parametrize("stated", ["", "/somewhere/else", "relative", " "])
def test_user_folders_are_those_of_xdg(
    stated: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    environment = {"XDG_CONFIG_HOME": stated, "XDG_CACHE_HOME": stated}
    own = Path(stated) if stated.startswith("/") else None
    assert get_user_folder("config", environment) == (own or tmp_path / ".config") / "filemem"
    assert get_user_folder("cache", environment) == (own or tmp_path / ".cache") / "filemem"


@pytest.mark.parametrize("own", [False, True], ids=["repository", "user"])
def test_unknown_settings_are_passed_over_and_named_and_the_others_count(
    own: bool, tmp_path: Path
) -> None:
    file = tmp_path / ("filemem/config.toml" if own else ".filemem.toml")
    file.parent.mkdir(exist_ok=True)
    file.write_text("stroe = 'x'\nstore = 'notes'\nfuture = 1\n")
    config = load(tmp_path, {"XDG_CONFIG_HOME": str(tmp_path)})
    assert config.store == "notes"
    assert [
        one.partition(", passed over; known here: store, branch")[0]
        for one in config.unknown_settings
    ] == [f"{file if own else file.name}: unknown setting {name!r}" for name in ("stroe", "future")]
    config.refuse_unread()


def test_a_file_that_is_not_toml_does_not_count_and_only_writing_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".filemem.toml").write_text("store = \n")
    config = load(tmp_path, {})
    assert config.store == "memory"
    assert config.read_error.startswith(".filemem.toml is not TOML")
    with pytest.raises(BadInput, match="not TOML"):
        config.refuse_unread()


def test_a_store_that_no_store_can_be_stops_everything(tmp_path: Path) -> None:
    (tmp_path / ".filemem.toml").write_text('store = "../elsewhere"\n')
    with pytest.raises(BadInput, match="inside the work tree"):
        load(tmp_path, {})


def test_the_commit_policy_is_commit_or_leave(tmp_path: Path) -> None:
    assert set(load(tmp_path, {}).policy.values()) == {"commit"}
    stated = tmp_path / ".filemem.toml"
    stated.write_text('[commit]\ncheckpoint = "leave"\n', encoding="utf-8")
    assert load(tmp_path, {}).policy == {
        "decision": "commit",
        "checkpoint": "leave",
        "observation": "commit",
    }
    stated.write_text('[commit]\nobservation = "later"\n', encoding="utf-8")
    with pytest.raises(BadInput, match="commit, leave, not 'later'"):
        load(tmp_path, {})
