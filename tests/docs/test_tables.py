"""The tables of the pages are what docstrings, fields and options say."""

from docs import tables


def test_no_page_is_stale() -> None:
    stale = [str(page) for page, _ in tables.stale()]
    assert not stale, f"run `python docs/tables.py`: {stale}"


def test_each_table_is_on_a_page() -> None:
    pages = "".join(page.read_text() for page in tables.DOCS.rglob("*.md"))
    assert sorted(found[1] for found in tables.PLACE.finditer(pages)) == sorted(tables.TABLES)


def test_whatever_has_a_row_says_what_it_is() -> None:
    for make in (tables.policies, tables.segment_rules, tables.stop_rules, tables.networks, tables.run_directory):
        rows = [line.strip("| ").split(" | ") for line in make().splitlines()[2:]]
        assert rows
        assert [row[0] for row in rows if len(row) < 2 or not row[1]] == []
