"""A command-line agent for tests: an executable that notes how it was run and does as planned.

:func:`install` writes it under a name into a folder for PATH. Each run takes the next of its plans
(the last one again and again) and appends a record.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SCRIPT = """#!{python} -ISB
import json, os, signal, stat, subprocess, sys, time
here = os.path.dirname(os.path.abspath(__file__))
name = os.path.basename(__file__)
with open(os.path.join(here, name + ".plans")) as file:
    plans = json.load(file)
records = os.path.join(here, name + ".records")
try:
    with open(records) as file:
        count = len(file.readlines())
except FileNotFoundError:
    count = 0
plan = plans[min(count, len(plans) - 1)]
if plan.get("stubborn"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
pids = [os.getpid()]
null = os.fstat(0)
is_null = stat.S_ISCHR(null.st_mode) and null.st_rdev == os.stat(os.devnull).st_rdev
given = "" if plan.get("deaf") else sys.stdin.buffer.read().decode("utf-8", "replace")
if plan.get("grandchild"):
    code = ("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
            "print(flush=True); time.sleep(600)")
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    child.stdout.readline()
    pids.append(child.pid)
record = dict(argv=sys.argv[1:], stdin=given, null=is_null, env=dict(os.environ), cwd=os.getcwd(),
              pids=pids, umask=os.umask(0))

def note():
    with open(records + ".new", "w") as file:
        file.write(json.dumps(record))
    with open(records, "ab", buffering=0) as file:  # one write: nobody reads half a line
        file.write(json.dumps(record).encode() + b"\\n")

def tell():
    for stream, what in ((sys.stderr, "err"), (sys.stdout, "out")):
        stream.buffer.write(bytes.fromhex(plan.get(what + "_hex", "")))
        stream.write(plan.get(what, ""))
        stream.flush()

# who waits for the record of one that sleeps finds it after all that it says
for step in (tell, note) if plan.get("sleep") else (note, tell):
    step()
if plan.get("flood"):
    for _ in range(plan["flood"]):
        os.write(2, b"x" * 65536)
time.sleep(plan.get("sleep", 0))
if plan.get("kill"):
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(plan.get("code", 0))
"""


@dataclass(frozen=True)
class Record:
    """One run, as the executable saw it."""

    argv: list[str]
    stdin: str
    null: bool
    env: dict[str, str]
    cwd: str
    pids: list[int]
    umask: int


class FakeCli:
    """One installed executable."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plan({})

    def plan(self, *plans: Mapping[str, Any]) -> None:
        """What the next runs do."""
        Path(f"{self.path}.plans").write_text(json.dumps(plans))

    @property
    def runs(self) -> list[Record]:
        """The runs so far."""
        try:
            text = Path(f"{self.path}.records").read_text()
        except FileNotFoundError:
            return []
        return [Record(**json.loads(line)) for line in text.split("\n") if line]

    @property
    def run(self) -> Record:
        """The only run."""
        [record] = self.runs
        return record


def install(folder: Path, name: str, plans: Sequence[Mapping[str, Any]] = ()) -> FakeCli:
    """Write the executable ``name`` into ``folder``."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(_SCRIPT.replace("{python}", sys.executable))
    path.chmod(0o755)
    fake = FakeCli(path)
    if plans:
        fake.plan(*plans)
    return fake


def path_with(folder: Path) -> str:
    """PATH with ``folder`` in front."""
    return f"{folder}{os.pathsep}{os.environ['PATH']}"
