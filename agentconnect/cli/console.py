"""What the command line prints, and how (worker.md §1, §2.4)."""

import contextlib
import io
import os
import sys
from collections.abc import Sequence


def speak_safely() -> None:
    """A character that the terminal's encoding lacks is shown escaped and ends nothing."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def say(line: str) -> None:
    """One line on stdout, at once; a stdout that takes nothing is no reason to end."""
    try:
        print(line, flush=True)
    except OSError:
        _give_up()


class ReaderGoneError(BrokenPipeError):
    """Whoever read stdout has seen enough: nothing is said of it."""


def put(lines: Sequence[str]) -> None:
    """Lines for a program: UTF-8, whatever the terminal's encoding is.

    Raises: ReaderGoneError, OSError.
    """
    data = "".join(f"{line}\n" for line in lines).encode()
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError as error:
        _give_up()
        raise ReaderGoneError from error


def _give_up() -> None:
    """What could not be written would fail once more at the end, with a code of 120."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def hush(_line: str) -> None:
    """``--say`` keeps stdout for the answer."""


def warn(sentences: Sequence[str]) -> None:
    """Warnings on stderr."""
    for sentence in sentences:
        print(f"agent-connect: WARNING: {sentence}", file=sys.stderr)


def complain(sentence: str) -> None:
    """A refusal on stderr: one readable sentence."""
    print(f"agent-connect: {sentence}", file=sys.stderr, flush=True)
