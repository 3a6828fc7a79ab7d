"""Asks a program one short thing, such as its version: bounded, without input, its group ended."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import trio

OUT_BYTES = 16 * 1024
HEAD_BYTES = 512


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What it printed, in its two streams together, and how it ended; None: it had to be ended."""

    text: str
    code: int | None

    @property
    def line(self) -> str:
        """The first line that says anything."""
        lines = (line.strip() for line in self.text.splitlines())
        return next((line for line in lines if line), "")[:120]


async def ask(argv: Sequence[str], env: Mapping[str, str], cwd: str, within_s: float) -> Said:
    """Run it. Raises: OSError where it cannot be started."""
    process = await trio.lowlevel.open_process(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=dict(env),
        start_new_session=True,
    )
    assert process.stdout is not None
    out = bytearray()
    code: int | None = None
    try:
        with trio.move_on_after(within_s):  # may end: it says too much, or nothing
            async with process.stdout as stdout:
                while len(out) < OUT_BYTES and (block := await stdout.receive_some(OUT_BYTES)):
                    out += block
            if len(out) < OUT_BYTES:
                code = await process.wait()
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with trio.CancelScope(shield=True):
            await process.wait()
    return Said(text=out.decode("utf-8", "replace"), code=code)


def head(path: str) -> bytes:
    """The first bytes of a program's file. Blocking; nothing where it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError:
        return b""
