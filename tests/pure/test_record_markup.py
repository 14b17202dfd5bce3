"""Decision records in AsciiDoc and reStructuredText: what they state, in the forms of templates."""

from __future__ import annotations

import time

import pytest

from filemem.errors import BadInput
from filemem.record import (
    Record,
    amend_record,
    build_reference_index,
    format_time,
    parse_record,
    resolve_reference,
)
from filemem.record.markup import to_markdown


def read(text: str, path: str = "0002-use-nats.adoc") -> Record:
    record = parse_record(text.encode(), path).record
    assert record is not None
    return record


def day(record: Record) -> str:
    return "" if record.created is None else format_time(record.created)[:10]


# Each states the title, the status `rejected` and the day 2024-05-06.
ASCIIDOC = {
    "attributes": (
        "= ADR-2: Use NATS\n:status: Rejected\n:date: 2024-05-06\n:toc: left\n\n"
        "== Context\n\nServices talk.\n"
    ),
    "attributes-first": (
        ":showtitle:\n:state: abandoned\n:revdate: 2024-05-06\n\n= ADR-2: Use NATS\n\nText.\n"
    ),
    "sections": (
        "= ADR-2: Use NATS\n\n== Date\n\n2024-05-06\n\n== Status\n\nRejected\n\n== Context\n\nx\n"
    ),
    "list": (
        "= ADR-2: Use NATS\n\n* *Status:* rejected\n* *Date:* 2024-05-06\n* Deciders: Ada\n\n== Context\n"
    ),
    "terms": "= ADR-2: Use NATS\n\nStatus:: rejected\nDate:: 2024-05-06\n\n== Context\n\nx\n",
    "terms-below": (
        "= ADR-2: Use NATS\n\nStatus::\n  rejected\nDate::\n  2024-05-06\n\n== Context\n\nx\n"
    ),
    "table": (
        '= ADR-2: Use NATS\n\n[cols="1,3"]\n|===\n|Status |Rejected\n|Date |2024-05-06\n'
        "|Deciders |Ada\n|===\n\n== Context\n\nx\n"
    ),
    "cells-below": (
        "= ADR-2: Use NATS\n\n|===\n\n|Status\na|Rejected\n\n|Date\n|2024-05-06\n\n|===\n\n== Context\n"
    ),
    "table-across": (
        "= ADR-2: Use NATS\n\n|===\n|Status |Date |Author\n\n|Rejected |2024-05-06 |Ada\n|===\n"
    ),
    "revision": (
        "= ADR-2: Use NATS\nAda Example <ada@example.org>\nv1.1, 2024-05-06\n\n"
        "== Status\n\n// Proposed, Accepted\nRejected\n\n== Context\n"
    ),
    "comment-block": (
        "////\nStatus: accepted\n////\n= ADR-2: Use NATS\n:date: 2024-05-06\n\n== Status\n\n"
        "////\nAccepted\n////\n\nRejected\n"
    ),
    "low": "== ADR-2: Use NATS\n\n=== Status\n\nRejected\n\n=== Date\n\n6. Mai 2024\n\n=== Kontext\n",
    "front-matter": (
        "---\nstatus: rejected\ndate: 2024-05-06\n---\n= ADR-2: Use NATS\n\n== Context\n\nx\n"
    ),
}
RST = {
    "fields": (
        "================\nADR-2: Use NATS\n================\n\n:Status: Rejected\n"
        ":Date: 2024-05-06\n:Author: Ada\n\nContext\n=======\n\nServices talk.\n"
    ),
    "sections": (
        "ADR-2: Use NATS\n===============\n\nDate\n----\n\n2024-05-06\n\nStatus\n------\n\nRejected\n\n"
        "Context\n-------\n\nx\n"
    ),
    "dashes": (
        "---------------\nADR-2: Use NATS\n---------------\n\nStatus\n======\n\nRejected\n\n"
        "Date\n====\n\n2024-05-06\n"
    ),
    "list": (
        "ADR-2: Use NATS\n***************\n\n* Status: rejected\n* Date: 2024-05-06\n\nContext\n=======\n"
    ),
    "labels": (
        "ADR-2: Use NATS\n###############\n\n**Status:** rejected\n\n**Date:** 2024-05-06\n\n"
        "Context\n*******\n"
    ),
    "fields-below": (
        "ADR-2: Use NATS\n===============\n\n:Status:\n   Rejected\n:Date: 2024-05-06\n\nContext\n----\n"
    ),
    "comment": (
        ".. _adr-0002:\n\n..\n   Status: accepted\n   Date: 2020-01-01\n\nADR-2: Use NATS\n"
        "===============\n\nStatus\n------\n.. Proposed | Accepted | Rejected\n\nRejected\n\n"
        "Date\n----\n2024-05-06\n"
    ),
    "grid": (
        "ADR-2: Use NATS\n===============\n\n+----------+------------+\n| Status   | Rejected   |\n"
        "+----------+------------+\n| Date     | 2024-05-06 |\n+----------+------------+\n\nWhy\n---\n"
    ),
    "directives": (
        ".. contents::\n   :depth: 2\n\nADR-2: Use NATS\n===============\n\n.. note:: Read this first.\n\n"
        ":status: rejected\n:date: 2024-05-06\n\nContext\n-------\n"
    ),
}


@pytest.mark.parametrize("form", ASCIIDOC)
def test_an_asciidoc_record_states_title_status_and_date(form: str) -> None:
    record = read(ASCIIDOC[form])
    assert (record.title, record.status, day(record)) == (
        "ADR-2: Use NATS",
        "rejected",
        "2024-05-06",
    )
    assert record.topic == "Use NATS"


@pytest.mark.parametrize("form", RST)
def test_an_rst_record_states_title_status_and_date(form: str) -> None:
    record = read(RST[form], "0002-use-nats.rst")
    assert (record.title, record.status, day(record)) == (
        "ADR-2: Use NATS",
        "rejected",
        "2024-05-06",
    )


@pytest.mark.parametrize(
    ("path", "text"),
    [
        *(
            ("0002-b.adoc", f"= B\n\n== Status\n\n{said}\n\n== Context\n\nx\n")
            for said in (
                "Superseded by xref:0003-c.adoc[ADR 3]",
                "Superseded by xref:adr:ROOT:0003-c.adoc[]",
                "Superseded by link:0003-c.adoc[Use C]",
                "Superseded by link:./0003-c.adoc#status[Use C]",
                "Superseded by <<0003-c.adoc#,ADR 3>>",
                "Superseded by <<adr-0003>>",
                "Superseded by\nxref:0003-c.adoc[ADR 3]",
                "Superseded by https://example.org/docs/0003-c.adoc[the third]",
                "Superseded by 0003-c.adoc",
                "Superseded by ADR-0003",
            )
        ),
        ("0002-b.adoc", "= B\n:status: accepted\n:superseded-by: xref:0003-c.adoc[C]\n\nText.\n"),
        ("0002-b.adoc", "= B\n\nSuperseded by:: xref:0003-c.adoc[C]\n\n== Context\n"),
        *(
            (
                "0002-b.rst",
                f"B\n=\n\nTwo\n===\n\nStatus\n------\n\n{said}\n\nContext\n-------\n\nx\n",
            )
            for said in (
                "Superseded by :doc:`0003-c`",
                "Superseded by :doc:`Use C <0003-c>`",
                "Superseded by :doc:`/decisions/0003-c`",
                "Superseded by :ref:`adr-0003`",
                "Superseded by :ref:`the third <adr-0003>`.",
                "Superseded by `ADR 3 <0003-c.rst>`_.",
                "Superseded by `ADR 3 <0003-c.rst>`__",
                "Superseded by `the third`_\n\n.. _the third: 0003-c.rst",
                "Superseded by\n`ADR 3 <0003-c.rst>`_.",
                "Superseded by ADR-0003",
            )
        ),
        ("0002-b.rst", "B\n====\n\n:Status: Superseded\n:Superseded by: :doc:`0003-c`\n\nx\n"),
    ],
)
def test_links_lead_to_the_other_record(path: str, text: str) -> None:
    suffix = path.rpartition(".")[2]
    other = read("= C\n" if suffix == "adoc" else "C\n=\n", f"0003-c.{suffix}")
    record = read(text, path)
    index = build_reference_index([record, other])
    assert [resolve_reference(one, index) for one in record.superseded_by] == [other.id]


@pytest.mark.parametrize(
    "said", ["The rest is superseded by xref:0003-c.adoc[C] one day.", "See <<0003-c.adoc#,C>>."]
)
def test_prose_names_no_successor(said: str) -> None:
    text = f"= B\n\n== Status\n\nAccepted\n\n{said}\n\n== Context\n\n{said}\n"
    assert (read(text).status, read(text).superseded_by) == ("accepted", ())


def test_code_is_left_as_it_is_and_every_line_keeps_its_number() -> None:
    text = (
        "= A\n\n[source,ruby]\n----\n== not a title\n* xref:a[b]\n# nor this\n----\n\n"
        "** below\n.. second\n. first\n* [x] done\n\nC++ and std::vector:: x\n"
    )
    rows = to_markdown(text, "a.adoc").split("\n")
    assert len(rows) == len(text.split("\n"))
    assert rows[3:8] == ["```", "== not a title", "* xref:a[b]", "# nor this", "```"]
    assert rows[9:13] == ["  - below", "1. second", "1. first", "* [x] done"]
    rst = "One\n===\n\nTwo\n---\n\n.. code-block:: py\n\n   # no title\n\n#. one\n\n.. [1] Kept.\n"
    assert to_markdown(rst, "a.rst").split("\n")[:5] == ["# One", "", "", "## Two", ""]
    assert "1. one" in to_markdown(rst, "a.rst")
    assert ".. [1] Kept." in to_markdown(rst, "a.rst")


def test_markdown_stays_as_it_is() -> None:
    record = parse_record(b"# A\n\n= B\n:status: x\n", "a.md").record
    assert record is not None
    assert (record.title, record.text) == ("A", "= B\n:status: x")


@pytest.mark.parametrize("path", ["0002-b.adoc", "0002-b.asciidoc", "0002-b.RST"])
def test_such_a_record_is_never_changed(path: str) -> None:
    with pytest.raises(BadInput, match="read, never changed"):
        amend_record(b"= B\n", path, keys={"status": "rejected"})


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        ("0001-a.adoc", "= A\n\n== Status\n\nOn ice\n", 5),
        ("0001-a.rst", "One\n===\n\n:Status: on ice\n", 4),
        ("0001-a.md", "# A\n\n\n\n- Status: on ice\n", 5),
    ],
)
def test_a_status_that_is_not_understood_is_named_with_its_line(
    path: str, text: str, line: int
) -> None:
    problems = parse_record(text.encode(), path).problems
    wrong = [(one.line, one.code) for one in problems if one.level == "warning"]
    assert wrong == [(line, "unknown-status")]
    advised = any("filemem adopt" in one.message for one in problems)
    assert advised == path.endswith(".md")


@pytest.mark.parametrize(
    "unit",
    [
        "xref:",
        "<<a",
        "`a ",
        ":a",
        "`a <b",
        "https://a",
        "|",
        "a|",
        "{a",
        "_a`",
        ".. _a",
        "=",
        "a::",
    ],
)
@pytest.mark.parametrize("suffix", ["adoc", "rst"])
def test_hostile_markup_takes_no_time(unit: str, suffix: str) -> None:
    start = time.process_time()
    to_markdown(unit * 10_000, f"a.{suffix}")
    to_markdown(f"{unit}\n" * 10_000, f"a.{suffix}")
    assert time.process_time() - start < 2
