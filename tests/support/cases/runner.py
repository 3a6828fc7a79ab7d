"""Reads case files, runs their cases and says what came of them."""

import json
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.cases.case import Case, CaseError, Record, matches
from tests.support.cases.registry import KINDS

MAX_SHOWN_CHARS = 4000


def load(path: Path) -> list[Case]:
    """The cases of a file; its stem is the kind. Raises: CaseError with a sentence."""
    kind = KINDS.get(path.stem)
    if kind is None:
        known = ", ".join(sorted(KINDS))
        raise CaseError(f"{path}: no case kind is called {path.stem!r} (known: {known})")
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise CaseError(f"{path}: cannot be read: {error.strerror or error}") from error
    records = [
        _record(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()
    ]
    try:
        return list(kind(records))
    except CaseError as error:
        raise CaseError(f"{path}: {error}") from error


def attempt(case: Case) -> tuple[bool, object]:
    """(as expected, the value it gave); an exception is a value too, and never expected."""
    try:
        actual = case.run()
    except CaseError:
        raise
    except Exception:  # noqa: BLE001 - whatever our code raises is this case's failure
        return False, f"raised {traceback.format_exc(limit=-2).strip()}"
    return matches(case.expected, actual), actual


def main(
    arguments: Sequence[str], say: Callable[[str], object], warn: Callable[[str], object]
) -> int:
    """Run the files: 0 all as expected, 1 a failure, 2 something could not be run."""
    if not arguments or any(word in ("-h", "--help") for word in arguments):
        warn("usage: scripts/cases FILE…   (a file's name without .jsonl is its kind)")
        return 0 if arguments else 2
    passed = failed = 0
    try:
        loaded = [(path, _some(path)) for path in map(Path, arguments)]
        for path, cases in loaded:
            for case in cases:
                good, actual = _attempt_in(path, case)
                passed, failed = passed + good, failed + (not good)
                if not good:
                    say(_told(path, case, actual))
    except CaseError as error:
        warn(str(error))
        return 2
    say(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _some(path: Path) -> list[Case]:
    cases = list(load(path))
    if not cases:
        raise CaseError(f"{path} holds no case")
    return cases


def _attempt_in(path: Path, case: Case) -> tuple[bool, object]:
    try:
        return attempt(case)
    except CaseError as error:
        raise CaseError(f"{path}: {error}") from error


def _record(path: Path, number: int, line: bytes) -> Record:
    try:
        value = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise CaseError(f"{path}: line {number} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise CaseError(f"{path}: line {number} is not a JSON object")
    return Record(number, value)


def _told(path: Path, case: Case, actual: object) -> str:
    return (
        f"FAILED {case.name} ({path}, line {case.line})\n"
        f"  input:    {_shown(case.given)}\n"
        f"  expected: {_shown(case.expected)}\n"
        f"  actual:   {_shown(actual)}"
    )


def _shown(value: object) -> str:
    text = json.dumps(value, default=repr)
    if len(text) <= MAX_SHOWN_CHARS:
        return text
    return f"{text[:MAX_SHOWN_CHARS]}… ({len(text)} characters)"
