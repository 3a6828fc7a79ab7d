"""What the command line prints, and how (worker.md §1, §2.4)."""

import sys
from collections.abc import Sequence


def say(line: str) -> None:
    """One line on stdout, at once."""
    print(line, flush=True)


def hush(_line: str) -> None:
    """``--say`` keeps stdout for the answer."""


def warn(sentences: Sequence[str]) -> None:
    """Warnings on stderr."""
    for sentence in sentences:
        print(f"agent-connect: WARNING: {sentence}", file=sys.stderr)


def complain(sentence: str) -> None:
    """A refusal on stderr: one readable sentence."""
    print(f"agent-connect: {sentence}", file=sys.stderr, flush=True)
