"""What doctor judges without looking, and how it says it."""

import json
import plistlib

import pytest

from agentconnect.core import doctor
from agentconnect.core.doctor import Level, Overlap, failure, ok, overlaps, report, warning


def test_the_worst_line_decides() -> None:
    """Warnings alone are no failure."""
    assert (Level.OK, 0) == (report([ok("a", "x")]).verdict, report([ok("a", "x")]).exit_code)
    warned = report([warning("a", "x"), ok("b", "x")])
    assert (Level.WARNING, 0) == (warned.verdict, warned.exit_code)
    failed = report([ok("a", "x"), failure("b", "x", "do"), warning("c", "x")])
    assert (Level.FAILURE, 1) == (failed.verdict, failed.exit_code)


def test_secrets_and_what_a_terminal_obeys_are_cut_out() -> None:
    """Any line may quote what somebody else wrote, the mend too."""
    said = "\x1b[2Jit sent Bearer abcdefghijkl and s3cret\nagain"
    found = report([failure("a", said, "not s3cret")], ["s3cret"]).findings[0]
    assert "?[2Jit sent Bearer <redacted> and <redacted> again" == found.text
    assert "not <redacted>" == found.mend


def test_the_json_is_what_the_docs_say() -> None:
    """Four members, and four in each line."""
    found = json.loads(doctor.as_json(report([warning("config.permissions", "x", "chmod")])))
    assert {
        "version": 1,
        "verdict": "warning",
        "exit_code": 0,
        "findings": [
            {"check": "config.permissions", "level": "warning", "text": "x", "mend": "chmod"}
        ],
    } == found


def test_lines_for_a_person_end_with_a_count() -> None:
    """One line each, the mend below, and how many there are."""
    assert ["ok       python     3.11", "", "All is well."] == doctor.as_lines(
        report([ok("python", "3.11")])
    )
    shown = doctor.as_lines(report([failure("a", "bad", "do"), warning("b.c", "so", "do that")]))
    assert [
        "failure  a          bad",
        "                    mend: do",
        "warning  b          so",
        "                    mend: do that",
        "",
        "1 failure and 1 warning: mend the first failure first.",
    ] == shown
    two = report([warning("a", "x"), warning("a", "y")])
    assert "2 warnings, no failure." == doctor.as_lines(two)[-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[Service]\nEnvironment=PATH=/a:/b\n", {"PATH": "/a:/b"}),
        ('[Service]\nEnvironment="PATH=/a b:/c" "X=1 2"\n', {"PATH": "/a b:/c", "X": "1 2"}),
        ("[Service]\nEnvironment='PATH=/a' Y=2\n", {"PATH": "/a", "Y": "2"}),
        ('[Service]\nEnvironment="PATH=/a\\"b\\\\c"\n', {"PATH": '/a"b\\c'}),
        ("[Service]\nEnvironment=PATH=/50%%/x\n", {"PATH": "/50%/x"}),
        ("[Service]\nEnvironment=A=1\nEnvironment=A=2 B=3\n", {"A": "2", "B": "3"}),
        ("[Service]\nEnvironment=A=1\nEnvironment=\nEnvironment=B=2\n", {"B": "2"}),
        ("[Service]\nEnvironment=A=1 \\\n  B=2\n", {"A": "1", "B": "2"}),
        ("[Unit]\nEnvironment=A=1\n", {}),
        ("[Service]\n# Environment=A=1\n;Environment=B=1\n", {}),
        ('[Service]\nEnvironment="never closed\nEnvironment=A=1\n', {"A": "1"}),
        ("", {}),
    ],
)
def test_a_unit_s_variables_are_read_as_systemd_does(text: str, expected: dict[str, str]) -> None:
    """Quotes, lists, repeats, an empty line that forgets all, lines that go on."""
    assert expected == doctor.unit_environment(text)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            plistlib.dumps({"EnvironmentVariables": {"PATH": "/a:/b", "N": 1}}),
            {"PATH": "/a:/b", "N": "1"},
        ),
        (plistlib.dumps({"Label": "x"}), {}),
        (plistlib.dumps({"EnvironmentVariables": ["PATH"]}), None),
        (plistlib.dumps(["x"]), None),
        (b"", None),
        (b"<plist>", None),
        (b"[Service]\nEnvironment=PATH=/usr/bin\n", None),
        (b"bplist00", None),
    ],
)
def test_a_property_list_s_variables_are_read(raw: bytes, expected: dict[str, str] | None) -> None:
    """What somebody else wrote, or what is no property list, is no error."""
    assert expected == doctor.plist_environment(raw)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"#!/usr/bin/env node\nrest", "node"),
        (b"#!/usr/bin/env -S node --no-warnings\n", "node"),
        (b"#!/usr/bin/env FOO=1 python3\n", "python3"),
        (b"#! /bin/sh -e\n", "/bin/sh"),
        (b"#!\n", ""),
        (b"\x7fELF", ""),
        (b"", ""),
    ],
)
def test_what_a_script_needs_to_run(head: bytes, expected: str) -> None:
    """An agent that is found is of no use where its interpreter is not."""
    assert expected == doctor.interpreter(head)


@pytest.mark.parametrize(
    ("said", "expected"),
    [("v22.1.0", 22), ("node 8.0", 8), ("codex-cli 0.98.0", 0), ("unknown", None), ("v7", None)],
)
def test_the_first_number_of_a_version(said: str, expected: int | None) -> None:
    """Programs word it as they like."""
    assert expected == doctor.major(said)


def test_a_root_that_holds_or_lies_in_what_is_private_is_seen() -> None:
    """By whole names of folders, both ways round."""
    found = overlaps(("/home/o", "/home/o/ws/export", "/home/o/ws2"), ("/home/o/ws",))
    assert (
        Overlap(root="/home/o", private="/home/o/ws", below=False),
        Overlap(root="/home/o/ws/export", private="/home/o/ws", below=True),
    ) == found
