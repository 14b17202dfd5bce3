"""Records of other makers have the dates and chains that their authors stated: in names, lines, tables and logs."""

from __future__ import annotations

import time

import pytest

from filemem.record import (
    Record,
    amend_record,
    build_reference_index,
    format_time,
    parse_record,
    resolve_reference,
)

NEW_ID = "decision_x_1763650000123_k3f9w2ma"


def read(body: str, path: str = "decisions/use-x.md") -> Record:
    record = parse_record(body.encode(), path).record
    assert record is not None
    return record


@pytest.mark.parametrize(
    ("path", "body", "day"),
    [
        ("20210314-use-x.md", "# Use X\n", "2021-03-14"),
        ("adr/2021-03-14_use-x.md", "# Use X\n", "2021-03-14"),
        ("2021-03-14-007-use-x.md", "# Use X\n", "2021-03-14"),
        ("caching--20210314-use-x.md", "# Use X\n", "2021-03-14"),
        ("2021-13-14-use-x.md", "# Use X\n", None),
        ("20210314-use-x.md", "---\ndate: 2020-01-02\n---\n# Use X\n", "2020-01-02"),
        ("20210314-use-x.md", "# Use X\n\nDate: 2022-01-02\n", "2021-03-14"),
        ("x.md", "# Use X\n\nDate: 2022-01-02\n", "2022-01-02"),
        ("x.md", "# Use X\n\n- **Date:** 2022-01-02 (amended in May)\n", "2022-01-02"),
        ("x.md", "# Use X\n\nDate: 2022-01-02 · Status: accepted\n", "2022-01-02"),
        ("x.md", "# Use X\n\n**Status:** Accepted | **Date:** 2022-01-02\n", "2022-01-02"),
        ("x.md", "# Use X\n\n> Date: 2 January 2022\n", "2022-01-02"),
        ("x.md", "# Use X\n\n| Field | Value |\n|---|---|\n| **Date** | 2022-01-02 |\n", "2022-01-02"),
        ("x.md", "# Use X\n\n## Status\n\nAccepted\n\n| Date | 2022-01-02 |\n", "2022-01-02"),
        ("x.md", "# Use X\n\n| Date | Who | What |\n|---|---|---|\n| 2022-01-02 | Ada | all |\n", None),
        ("x.md", "# Use X\n\n## Date\n\n2022-01-02\n", "2022-01-02"),
        ("x.md", "# Use X\n\n## Changelog\n\n- 2021-10-05: second\n- 2020-12-24: first\n", "2020-12-24"),
        ("x.md", "# Use X\n\n## Changelog\n\n* 20.08.2021: Initial draft.\n", "2021-08-20"),
        ("x.md", "# Use X\n\n## Changelog\n\n* 13-05-2019: Initial draft.\n", "2019-05-13"),
        ("x.md", "# Use X\n\n## Changelog\n\n- 2020 Feb 15: draft\n- 2020 Feb 24: more\n", "2020-02-15"),
        ("x.md", "# Use X\n\n## Changelog\n\n* Nov 30, 2019 (ada): draft\n", "2019-11-30"),
        ("x.md", "# Use X\n\n## Revision history\n\n| Version | Date |\n|-|-|\n| 1 | 2020-03-04 |\n", "2020-03-04"),
        ("x.md", "# Use X\n\n## Changelog\n\n- {date}: {what}\n", None),
        ("x.md", "# Use X\n\nDate: 2022-01-02\n\n## Changelog\n\n- 2021-10-05: x\n", "2022-01-02"),
        ("x.md", "# Use X\n\nIn 2019-01-01 we met.\n\n## Context\n\nDate: 2020-01-01\n", None),
    ],
)  # fmt: skip
def test_dates(path: str, body: str, day: str | None) -> None:
    created = read(body, path).created
    assert (None if created is None else format_time(created)[:10]) == day


def store(*files: tuple[str, str]) -> dict[str, tuple[set[str], set[str]]]:
    """Return, for each file, the files that it says replaced it, and those that it says it replaces."""
    records = [read(body, path) for path, body in files]
    index, paths = build_reference_index(records), {record.id: record.path for record in records}

    def meant(record: Record, references: tuple[str, ...]) -> set[str]:
        folder = record.path.rpartition("/")[0]
        found = (resolve_reference(reference, index, folder) for reference in references)
        return {paths.get(id_ or "", "?") for id_ in found}

    return {
        one.path: (meant(one, one.superseded_by), meant(one, one.supersedes or ()))
        for one in records
    }


NEW = ("adr/0032-use-y.md", "# 32. Use Y\n\n## Status\n\nAccepted\n")


@pytest.mark.parametrize(
    "said",
    [
        "Superseded by ADR 32",
        "Superseded by ADR-0032",
        "Superseded by ADR032",
        "Superseded by 32",
        "Superseded by #32 in 2021",
        "Superseded by [ADR 32](/adr/32)",
        "Superseded by [ADR-32](/adr/32/)",
        "Superseded by [ADR 32](https://example.org/adr/32)",
        "Superseded by [the new one](https://example.org/blob/main/adr/0032-use-y.md)",
        "Superseded by [ADR 32](#)",
        "Superseded by [[0032-use-y]]",
        "Superseded by [[0032-use-y|Use Y]].",
        "Superseded by [32. Use Y](0032-use-y.md)",
        "Superseded by [32. Use Y](./0032-use-y.md#decision) on 2021-05-06",
        "Superseded by [32. Use Y](../adr/0032-use-y.md)",
        "⚠️ Superceded by 0032-use-y.md",
        "Replaced by adr/0032-use-y.md",
        "Accepted. Superseded by [ADR-0032](0032-use-y.md): see there, and 5 more",
    ],
)
def test_the_old_side_names_its_successor(said: str) -> None:
    places = (
        f"## Status\n\n{said}\n",
        f"- **Status:** {said}\n",
        f"| Status | {said.replace('|Use Y', '')} |\n",
        f"> {said.removeprefix('Accepted. ')}\n",
    )
    for place in places:
        old = "adr/0007-use-x.md", f"# 7. Use X\n\n{place}\n## Context\n\nSuperseded by ADR 1.\n"
        assert store(NEW, old)[old[0]][0] == {NEW[0]}, place
    header = "adr/0007-use-x.md", f'---\nstatus: "{said}"\n---\n# Use X\n'
    assert store(NEW, header)[header[0]][0] == {NEW[0]}


@pytest.mark.parametrize(
    "said",
    [
        *(
            "Supersedes ADR 32",
            "Supersedes: 32",
            "- Supersedes: [ADR-32](/adr/32)",
            "**Supersedes** [[0032-use-y]]",
        ),
        *(
            "This decision supersedes [ADR-0032](0032-use-y.md) as a whole",
            "| Supersedes | ADR-0032 |",
        ),
        *(
            "## Supersedes\n\n- [32. Use Y](0032-use-y.md)",
            "## Status\n\nAccepted, replaces ADR 32",
        ),
    ],
)
def test_the_new_side_names_what_it_replaces(said: str) -> None:
    new = "adr/0040-use-z.md", f"# 40. Use Z\n\n{said}\n\n## Context\n\nReplaces ADR 1.\n"
    assert store(NEW, new)[new[0]] == (set(), {NEW[0]})


@pytest.mark.parametrize(
    "said",
    [
        "Partially superseded by [ADR 32](0032-use-y.md)",
        "Superseded by [#32](https://example.org/pull/32)",
        "Superseded in 2021",
        "Accepted; see also ADR 32",
    ],
)
def test_what_names_no_successor(said: str) -> None:
    old = "adr/0007-use-x.md", f"# 7. Use X\n\n## Status\n\n{said}\n"
    assert store(NEW, old)[old[0]] == (set(), set())


def test_amendments_are_edges_on_both_sides() -> None:
    new = read(
        "# 8. Use Y\n\n## Status\n\nAccepted\n\nAmends [3. Use X](0003-use-x.md)\n", "0008-use-y.md"
    )
    old = read(
        "# 3. Use X\n\n* Status: accepted\n* Amended by ADR-8, which says more\n", "0003-use-x.md"
    )
    assert [(edge.kind, edge.target) for edge in new.edges] == [("builds_on", "0003-use-x.md")]
    assert [(edge.kind, edge.target) for edge in old.edges] == [("built_on_by", "ADR-8")]
    assert (new.status, old.status) == ("accepted", "accepted")


def test_names_by_slug_number_and_date() -> None:
    files = (
        ("adr/2021-03-14_006-use-x.md", "---\nslug: 6\ntitle: |\n  6. Use X\n---\nSuperseded by [ADR 9](/adr/9)\n"),
        ("adr/2022-05-06_009-use-y.md", "---\nslug: 9\ntitle: |\n  9. Use Y\n---\n## Status\n\nAccepted\n"),
        ("adr/use-z.md", "---\nslug: /decisions/zed\n---\n# Use Z\n\nSupersedes [Use Y](/decisions/zed-old)\n"),
        ("adr/old.md", "---\nslug: /decisions/zed-old\n---\n# Use an old Z\n"),
    )  # fmt: skip
    told = store(*files)
    assert told[files[0][0]][0] == {files[1][0]}
    assert told[files[2][0]][1] == {files[3][0]}
    assert read(files[0][1], files[0][0]).title == "6. Use X"


@pytest.mark.parametrize(
    "name", ["/keps/net/0031-cache", "../0031-cache", "KEP-31", "/keps/net/0031-cache/README.md"]
)
def test_a_record_that_is_the_page_of_its_folder_has_the_name_of_the_folder(name: str) -> None:
    told = store(
        ("net/0031-cache/README.md", "# KEP-0031: Cache on a server\n"),
        ("net/0058-hash/README.md", f"---\nreplaces:\n- {name}\n---\n# Cache by hash\n"),
    )
    assert told["net/0058-hash/README.md"][1] == {"net/0031-cache/README.md"}


def test_a_name_with_parted_marks_is_found_as_it_is_typed() -> None:
    told = store(
        ("adr/cafe\u0301.md", "# The old way\n"),
        ("adr/new.md", "# The new way\n\nSupersedes [x](caf\u00e9.md)\n"),
    )
    assert told["adr/new.md"][1] == {"adr/cafe\u0301.md"}


def test_a_relative_link_starts_in_the_folder_of_its_file() -> None:
    told = store(
        ("api/0001-use-x.md", "# Use X\n\nSuperseded by [1](../web/0001-use-x.md)\n"),
        ("web/0001-use-x.md", "# Use X\n"),
        ("web/0002-use-y.md", "# Use Y\n\nSupersedes [1](0001-use-x.md)\n"),
    )
    assert told["api/0001-use-x.md"][0] == {"web/0001-use-x.md"}
    assert told["web/0002-use-y.md"][1] == {"web/0001-use-x.md"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "adr/0007-use-x.md",
            "# 7. Use X\n\nDate: 2021-03-14\n\n## Status\n\nSuperseded by [ADR 32](/adr/32)\n",
        ),
        ("adr/2021-03-14_007-use-x.md", "# Use X\n\n* Status: rejected\n* Supersedes: 32\n"),
        ("adr/007-use-x.md", "---\nstatus: Final\nsuperseded-by: ADR-32\n---\n# Use X\n"),
    ],
)
def test_an_id_that_is_written_into_a_file_changes_nothing_else(path: str, body: str) -> None:
    before = read(body, path)
    adopted = amend_record(body.encode(), path, keys={"id": NEW_ID})
    after = parse_record(adopted, path).record
    assert after is not None
    assert after._replace(id=before.id, id_stated=False) == before
    assert resolve_reference("ADR-7", build_reference_index([after])) == NEW_ID


HOSTILE = (
    "* " * 300_000,
    " " * 600_000 + "x",
    "Superseded by " + "1 " * 250_000,
    "[" * 600_000,
    "|" * 600_000,
)


@pytest.mark.parametrize("line", HOSTILE, ids=("stars", "blanks", "numbers", "brackets", "bars"))
def test_hostile_lines_take_no_time(line: str) -> None:
    for body in (
        f"# T\n\n{line}\n",
        f"# T\n\nStatus: {line}\n",
        f"# T\n\n## Changelog\n\n- {line}\n",
    ):
        started = time.process_time()
        read(body)
        assert time.process_time() - started < 3
