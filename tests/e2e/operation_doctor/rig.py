"""``agent-connect doctor`` as a user runs it, and what it said."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio

LIMIT_S = 120.0
#: The bound of the whole run, with room for a busy machine: the checks' own is below 20 s.


class Doctor:
    """One run."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err
        self.report: dict[str, Any] = json.loads(out)

    def level(self, check: str) -> str:
        """The worst level of the lines of one check; "" where it said nothing."""
        found = {f["level"] for f in self.of(check)}
        return next((w for w in ("failure", "warning", "ok") if w in found), "")

    def of(self, check: str) -> list[dict[str, str]]:
        """The lines of one check, those below it included."""
        return [
            f
            for f in self.report["findings"]
            if f["check"] == check or f["check"].startswith(check + ".")
        ]

    def said(self, check: str) -> str:
        """Their words and mends."""
        return "\n".join(f"{f['text']} | {f['mend']}" for f in self.of(check))

    @property
    def failures(self) -> list[str]:
        """The checks that failed."""
        return [f["check"] for f in self.report["findings"] if f["level"] == "failure"]

    @property
    def troubles(self) -> list[str]:
        """The checks that failed or warned."""
        return [f["check"] for f in self.report["findings"] if f["level"] != "ok"]


async def run(env: Mapping[str, str], *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    """The command, to its end."""
    with trio.fail_after(LIMIT_S):
        return await trio.run_process(
            [sys.executable, "-m", "agentconnect", "doctor", *arguments],
            env=dict(env),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )


async def doctor(env: Mapping[str, str], *arguments: str) -> Doctor:
    """With ``--json``; nothing else may be on stdout, and nothing at all on stderr."""
    done = await run(env, "--json", *arguments)
    found = Doctor(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert "" == found.err
    assert found.code == found.report["exit_code"]
    return found


def snapshot(folder: Path) -> dict[str, tuple[float, int, int]]:
    """Every path below a folder with its times, size and mode, to see that nothing changed."""
    return {
        str(path.relative_to(folder)): (found.st_mtime_ns, found.st_size, found.st_mode)
        for path in [folder, *folder.rglob("*")]
        for found in [path.lstat()]
    }
