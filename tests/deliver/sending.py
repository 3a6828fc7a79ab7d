"""A sender as a process of its own, over a pretended worker that keeps a ledger in a file.

``python -m tests.deliver.sending OUTBOX LEDGER [STEP]``: sends what is there until all of it has
ended and was told, and kills itself at the named step of the first delivery. The ledger's lines:
``asked``, ``posted`` (once an id), ``told``.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentconnect.deliver import Entry, Outbox, deliver_blocking
from agentconnect.deliver.answers import Delivered, Final
from agentconnect.deliver.outbox import Claim

STEPS = (
    "before the claim",
    "claimed",
    "asked",
    "posted",
    "answered",
    "recorded",
    "claimed to tell",
    "told",
    "told and recorded",
)


class Mortal(Outbox):
    """An outbox whose process dies at a step."""

    step = ""

    def die(self, step: str) -> None:
        if step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)

    def claim(self, holder: str, not_for: frozenset[str] = frozenset()) -> Claim | None:
        self.die("before the claim")
        claim = super().claim(holder, not_for)
        if claim is not None:
            self.die("claimed" if claim.entry.state == "waiting" else "claimed to tell")
        return claim

    def end(self, claim: Claim, answer: Delivered | Final) -> None:
        self.die("answered")
        super().end(claim, answer)
        self.die("recorded")

    def tell(self, claim: Claim) -> None:
        self.die("told")
        super().tell(claim)
        self.die("told and recorded")


class Ledger:
    """What the pretended worker knows: lines of JSON, appended in one write each."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, what: str, ident: str, **more: object) -> None:
        line = {"what": what, "id": ident, "pid": os.getpid(), "at": time.monotonic(), **more}
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, json.dumps(line).encode() + b"\n")
        finally:
            os.close(handle)

    def lines(self, what: str) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self._path.read_bytes().splitlines()]
        return [line for line in found if line["what"] == what]

    def ids(self, what: str) -> list[str]:
        return [line["id"] for line in self.lines(what)]


def main(path: str, where: str, step: str = "") -> None:
    """Send until nothing is open."""
    ledger, done = Ledger(Path(where)), threading.Event()

    def send_request(_method: str, params: Mapping[str, Any]) -> object:
        outbox.die("asked")
        ledger.add("asked", params["id"], params=params)
        if params["id"] not in ledger.ids("posted"):
            ledger.add("posted", params["id"])
        outbox.die("posted")
        ledger.add("answered", params["id"])
        named = [{"part": 0, "event_id": "$e", "status": "created"}]
        return {"outcome": "delivered", "delivered": named}

    def on_end(entry: Entry) -> None:
        ledger.add("told", entry.id, state=entry.state)

    def wait(seconds: float) -> bool:
        return all(entry.told for entry in outbox.entries()) or done.wait(seconds)

    with Mortal(path) as outbox:
        outbox.step = step
        deliver_blocking(outbox, send_request, wait, on_end=on_end)


if __name__ == "__main__":
    main(*sys.argv[1:])
