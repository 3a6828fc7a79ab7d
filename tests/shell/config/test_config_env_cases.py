"""Every line of cases/config_env.jsonl."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.config_env import outcome

_FILE = Path(__file__).parents[2] / "cases" / "config_env.jsonl"
_CASES = [json.loads(line) for line in _FILE.read_text(encoding="utf-8").splitlines() if line]


def test_there_are_as_many_lines_as_we_were_given() -> None:
    """No line is skipped by accident."""
    assert 73 == len(_CASES)


@pytest.mark.parametrize("case", _CASES, ids=lambda case: f"{case['kind']}-{case['id']}")
def test_line(case: dict[str, Any]) -> None:
    """The config file is found, read, applied, exported and warned about as the line says."""
    expected, actual = dict(case["expect"]), outcome(case)
    for either in (expected, actual):  # order does not count there
        if "applied" in either:
            either["applied"] = sorted(either["applied"])
    assert expected == actual
