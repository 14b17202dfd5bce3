"""What holds in the folders of six teams, each in its own words, is what their files say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from filemem.memory import Memory
from filemem.query.hit import Hit
from filemem.record import format_time
from tests.teams import TEAMS, Expected, Team, make_team

NAMES = sorted(path.stem for path in TEAMS.glob("*.txt"))
SAID_ONLY = {"superseded-by-missing", "supersedes-missing", "unknown-status"}


class Opened:
    """A team's folder and what filemem says of it."""

    def __init__(self, made: Team, memory: Memory) -> None:
        self.made = made
        self.memory = memory

    def hit(self, expected: Expected) -> Hit:
        (hit,) = self.memory.get(f"{self.made.store}/{expected.path}")
        return hit

    def successors(self, hit: Hit) -> list[str]:
        return (
            [one.path for one in self.memory.get(*hit.superseded_by)] if hit.superseded_by else []
        )


@pytest.fixture(scope="module", params=NAMES)
def team(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    folder: Path = tmp_path_factory.mktemp("teams") / request.param
    made = make_team(request.param, folder)
    with Memory.open(folder, store=made.store) as memory:
        yield Opened(made, memory)


def test_a_record_holds_if_its_files_say_so(team: Opened) -> None:
    said = {one.path: team.hit(one).id in team.hit(one).heads for one in team.made.records}
    assert said == {one.path: one.holds for one in team.made.records}


def test_a_status_is_one_of_our_words_or_not_understood(team: Opened) -> None:
    stated = [one for one in team.made.records if one.status != "-" and not one.replaced_by]
    said = {one.path: team.hit(one).record.status.replace("unknown", "?") for one in stated}
    assert said == {one.path: one.status for one in stated}


def test_what_replaced_a_record_is_found_from_either_side(team: Opened) -> None:
    for one in team.made.records:
        paths = team.successors(team.hit(one))
        assert len(paths) == bool(one.replaced_by), (one.path, paths)
        assert one.replaced_by in "".join(paths), (one.path, paths)


def test_the_day_is_the_stated_one_or_that_of_the_first_commit(team: Opened) -> None:
    said = {one.path: format_time(team.hit(one).created)[:10] for one in team.made.records}
    assert said == {one.path: one.date for one in team.made.records}


def test_who_decided_is_who_wrote_the_file_first(team: Opened) -> None:
    said = {one.path: team.hit(one).provenance.author for one in team.made.records}
    assert said == {one.path: one.author for one in team.made.records}


def test_search_puts_what_holds_above_what_it_replaced(team: Opened) -> None:
    for one in team.made.records:
        if one.replaced_by:
            found = [hit.path for hit in team.memory.search(team.hit(one).title)]
            place = next(at for at, path in enumerate(found) if one.replaced_by in path)
            assert place < found.index(team.hit(one).path), (one.path, found)


def test_check_names_each_unknown_word_and_no_link_that_is_none(team: Opened) -> None:
    _, problems = team.memory.check()
    said = {(one.path, one.code) for one in problems if one.code in SAID_ONLY}
    unknown = {one.path for one in team.made.records if one.status == "?"}
    assert said == {(f"{team.made.store}/{path}", "unknown-status") for path in unknown}


def test_templates_and_pages_are_no_records(team: Opened) -> None:
    paths = {record.path for record in team.memory.records()}
    assert paths == {f"{team.made.store}/{one.path}" for one in team.made.records}
