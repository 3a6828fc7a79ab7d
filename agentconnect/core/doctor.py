"""What ``agent-connect doctor`` reports: its shapes, its words, and what it judges without looking.

A finding says how one thing is; ``mend`` says what to do about it and is never empty where
something is wrong. Looking is ``agentconnect.doctor``'s; nothing here reads a file or a clock.
"""

import plistlib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import PurePosixPath
from xml.parsers.expat import ExpatError

import msgspec

from agentconnect.core.redaction import redact
from agentconnect.core.status_text import clean

TEXT_CHARS = 1500
_NAME_WIDTH = 11
_LEVEL_WIDTH = 9


class Level(StrEnum):
    """How bad it is. What could not be looked at is a warning that says so."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line. ``check`` is a name that programs may rely on."""

    check: str
    level: Level
    text: str
    mend: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All lines, in the order in which a person mends them."""

    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Level:
        """The worst of all."""
        levels = {finding.level for finding in self.findings}
        return next((w for w in (Level.FAILURE, Level.WARNING) if w in levels), Level.OK)

    @property
    def exit_code(self) -> int:
        """0: nothing worse than a warning."""
        return 1 if self.verdict is Level.FAILURE else 0


def ok(check: str, text: str) -> Finding:
    """It is as it should be."""
    return Finding(check=check, level=Level.OK, text=text)


def warning(check: str, text: str, mend: str = "") -> Finding:
    """It works, and should be looked at."""
    return Finding(check=check, level=Level.WARNING, text=text, mend=mend)


def failure(check: str, text: str, mend: str) -> Finding:
    """It does not work like that."""
    return Finding(check=check, level=Level.FAILURE, text=text, mend=mend)


def report(findings: Iterable[Finding], secrets: Iterable[str] = ()) -> Report:
    """The findings without secrets, and without what a terminal would obey."""
    known = tuple(secrets)

    def said(text: str) -> str:
        return clean(redact(text, known), TEXT_CHARS)

    return Report(
        findings=tuple(
            Finding(check=f.check, level=f.level, text=said(f.text), mend=said(f.mend))
            for f in findings
        )
    )


def as_json(found: Report) -> bytes:
    """The report for programs (docs/doctor.md)."""
    return msgspec.json.encode(
        {
            "version": 1,
            "verdict": found.verdict,
            "exit_code": found.exit_code,
            "findings": found.findings,
        }
    )


def as_lines(found: Report) -> list[str]:
    """The report for a person."""
    shown: list[str] = []
    for finding in found.findings:
        name = finding.check.partition(".")[0]
        shown.append(f"{finding.level.value:<{_LEVEL_WIDTH}}{name:<{_NAME_WIDTH}}{finding.text}")
        if finding.mend:
            shown.append(f"{'':<{_LEVEL_WIDTH}}{'':<{_NAME_WIDTH}}mend: {finding.mend}")
    return [*shown, "", summary(found)]


def summary(found: Report) -> str:
    """The last line."""
    failures = sum(finding.level is Level.FAILURE for finding in found.findings)
    warnings = sum(finding.level is Level.WARNING for finding in found.findings)
    if not failures and not warnings:
        return "All is well."
    parts = [
        _count(number, word) for number, word in ((failures, "failure"), (warnings, "warning"))
    ]
    said = " and ".join(part for part in parts if part)
    return f"{said}: mend the first failure first." if failures else f"{said}, no failure."


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' if number > 1 else ''}" if number else ""


# --- folders


def inside(path: str, folder: str) -> bool:
    """Whether one resolved path is the other or lies below it."""
    return PurePosixPath(path).is_relative_to(folder)


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """A root from which files are sent that touches what is never sent."""

    root: str
    private: str
    below: bool
    """The root lies inside what is private, not around it."""


def overlaps(roots: Sequence[str], private: Sequence[str]) -> tuple[Overlap, ...]:
    """Every such pair, of resolved paths."""
    found: list[Overlap] = []
    for root in roots:
        for path in private:
            if inside(root, path):
                found.append(Overlap(root=root, private=path, below=True))
            elif inside(path, root):
                found.append(Overlap(root=root, private=path, below=False))
    return tuple(found)


def overlap_sentence(pair: Overlap) -> str:
    """What it means."""
    if pair.below:
        return f"{pair.root} lies in {pair.private}: nothing is ever sent from there"
    return (
        f"{pair.root} contains {pair.private}: that itself is never sent, but the agent can read "
        "it and send a copy, the token included"
    )


# --- the service's own file


def unit_environment(text: str) -> Mapping[str, str]:
    """The variables that a systemd unit sets, by systemd's quoting (systemd.exec(5))."""
    found: dict[str, str] = {}
    section = ""
    for line in text.replace("\\\n", " ").splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line
        name, equals, value = line.partition("=")
        if section != "[Service]" or not equals or name.strip() != "Environment":
            continue
        if not value.strip():
            found.clear()
        try:
            words = shlex.split(value)
        except ValueError:  # a quote that is never closed: systemd leaves such a line out
            continue
        for word in words:
            key, mark, content = word.partition("=")
            if mark:
                found[key] = content.replace("%%", "%")
    return found


def plist_environment(raw: bytes) -> Mapping[str, str] | None:
    """The variables that a launchd property list sets; None where it is none."""
    try:
        content = plistlib.loads(raw)
    except (plistlib.InvalidFileException, ExpatError, ValueError, RecursionError):
        return None
    variables = content.get("EnvironmentVariables", {}) if isinstance(content, dict) else None
    if not isinstance(variables, dict):
        return None
    return {str(key): str(value) for key, value in variables.items()}


def interpreter(head: bytes) -> str:
    """The program that a script's first line asks ``env`` for, or names; "" where it is none."""
    line = head.split(b"\n", 1)[0]
    if not line.startswith(b"#!"):
        return ""
    words = [w for w in line[2:].decode("utf-8", "replace").split() if not w.startswith("-")]
    if not words:
        return ""
    if PurePosixPath(words[0]).name != "env":
        return words[0]
    return next((word for word in words[1:] if "=" not in word), "")


def major(version: str) -> int | None:
    """The first number of a version that a program printed."""
    match = re.search(r"([0-9]{1,6})(?:\.[0-9]+)+", version)
    return int(match[1]) if match else None
