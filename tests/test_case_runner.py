"""``scripts/cases``: what it prints and with which code it ends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cases.case import expand, matches
from tests.support.cases.registry import KINDS

_ROOT = Path(__file__).parent.parent


def _run(folder: Path, *files: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [str(_ROOT / "scripts" / "cases"), *files],
        cwd=folder,
        env={**os.environ, "AGENTCONNECT_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


def _line(expected: object) -> str:
    return json.dumps({"name": "mine", "input": {"op": "parse", "body": "x"}, "expected": expected})


def test_good_files_pass_from_any_folder(tmp_path: Path) -> None:
    """The kind is the file's name, wherever it lies; the closing line counts all files."""
    (tmp_path / "markers.jsonl").write_text(_line({"body": "x", "actions": []}) + "\n\n")
    (tmp_path / "tests").mkdir()  # not to be taken for ours
    (tmp_path / "tests" / "__init__.py").write_text("raise RuntimeError")
    shared = _ROOT / "tests" / "cases" / "media_markers.jsonl"
    code, out, _ = _run(tmp_path, "markers.jsonl", str(shared))
    assert (code, out) == (0, "49 passed, 0 failed\n")


def test_a_failure_shows_its_name_input_and_both_values(tmp_path: Path) -> None:
    """And the code is 1."""
    (tmp_path / "markers.jsonl").write_text(_line({"body": "y", "actions": []}))
    code, out, _ = _run(tmp_path, "markers.jsonl")
    assert code == 1
    assert out.splitlines()[-1] == "0 passed, 1 failed"
    for shown in ("mine", '"op": "parse"', '"body": "y"', '"body": "x"'):
        assert shown in out


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("no-such-kind.jsonl", "", "no-such-kind"),
        ("markers.jsonl", None, "cannot be read"),
        ("markers.jsonl", "{}\n", "line 1"),
        ("markers.jsonl", "\n[]\n", "line 2"),
        ("markers.jsonl", '\n\n{"name', "line 3"),
        ("markers.jsonl", '{"input":{"op":"zz"},"expected":1}', "line 1 has the unknown op"),
        ("markers.jsonl", '{"input":{"op":"parse"},"expected":1}', "line 1 lacks"),
        ("markers.jsonl", '{"input":{"op":"parse","body":{"$cat":5}},"expected":1}', "line 1"),
    ],
)
def test_what_cannot_be_run_is_said_in_a_sentence(
    tmp_path: Path, name: str, text: str | None, told: str
) -> None:
    """Code 2 and no traceback."""
    if text is not None:
        (tmp_path / name).write_text(text)
    code, _, err = _run(tmp_path, name)
    assert code == 2
    assert told in err
    assert "Traceback" not in err


def test_every_kind_has_a_file() -> None:
    """A kind without cases would pass unseen."""
    for kind in KINDS:
        assert (_ROOT / "tests" / "cases" / f"{kind}.jsonl").is_file()


def test_values_are_compared_strictly_enough() -> None:
    """True is not 1, a missing member is a difference, a digest stands for its string."""
    assert matches([1.0, "a"], (1, "a"))
    assert not matches(True, 1)
    assert not matches({"a": 1}, {"a": 1, "b": 2})
    assert expand({"x": {"$cat": [["ab", 2], ["c", 1]]}}) == {"x": "ababc"}
    digest = "3608bca1e44ea6c4d268eb6db02260269892c0b42b86bbf1e77a6fa16c3c9282"
    assert matches({"$len": 3, "$sha256": digest}, "xyz")
