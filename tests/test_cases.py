"""Every line of every case file of a known kind is a test of its own."""

from pathlib import Path

import pytest

from tests.support.cases.case import Case
from tests.support.cases.registry import KINDS
from tests.support.cases.runner import attempt, load

_FOLDER = Path(__file__).parent / "cases"
_CASES = [
    pytest.param(case, id=f"{kind}-{case.line}-{case.name}")
    for kind in sorted(KINDS)
    for case in load(_FOLDER / f"{kind}.jsonl")
]


@pytest.mark.parametrize("case", _CASES)
def test_case(case: Case) -> None:
    """The case gives the value that is recorded for it."""
    as_expected, actual = attempt(case)
    assert as_expected, f"expected {case.expected!r}, got {actual!r}"
