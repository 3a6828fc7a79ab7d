"""A quick selection of the crash matrix, and its table in the docs."""

from pathlib import Path

import pytest

from tests.e2e.deliveries_faults import matrix

QUICK = (
    ("before first-seen is recorded", "file and text"),
    ("the relay has applied it, before its response", "text"),
    ("after the response, before its record", "file"),
    ("between the parts", "file and text"),
    ("after the notice, before its response", "file and text"),
)


@pytest.mark.parametrize(("boundary", "kind"), QUICK)
async def test_a_killed_worker_delivers_at_most_once(
    tmp_path: Path, boundary: str, kind: str
) -> None:
    """Killed there and started again: what the page shows for this row is what happens."""
    (shown,) = [row for row in the_page() if row.cells[:2] == (boundary, kind)]
    assert shown == await matrix.run_row(tmp_path, boundary, kind)


def test_the_page_has_every_row() -> None:
    """Each boundary with each kind of delivery, once, every cell filled."""
    rows = the_page()
    assert matrix.plan() == [(row.cells[0], row.cells[1]) for row in rows]
    assert {len(matrix.COLUMNS)} == {len(row.cells) for row in rows}
    assert all(all(row.cells) for row in rows)


def the_page() -> list[matrix.Row]:
    """The rows in the docs."""
    return matrix.rows_of(matrix.PAGE.read_text())
