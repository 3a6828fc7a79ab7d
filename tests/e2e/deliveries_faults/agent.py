"""An agent that delivers after its turns, watched and told what to do by files of its folder.

``python agent.py FOLDER``, with nothing but the standard library and ``agentconnect.deliver``. Each
process of it:

- notes on every prompt what it was told in ``_meta`` (``told.jsonl``);
- takes ``later NAME``: what ``later/NAME.json`` says goes into the outbox, its files into the
  session's export folder;
- takes ``turn NAME``: sends ``requests/turn-NAME.json`` on the turn's own connection;
- as the listener (a client that declared it) sends what the outbox holds, and any other
  ``requests/NAME.json`` that appears, exactly as it stands there. What the outbox sent is in
  ``sent.jsonl``, its ends in ``ends.jsonl``, each answer to a request in ``answers/NAME.json``.
"""

import json
import os
import queue
import sys
import threading
import time
from pathlib import Path
from typing import Any

from agentconnect.deliver import (
    CAPABILITY,
    Entry,
    Outbox,
    declared,
    deliver_blocking,
    destination,
    notify_destination,
)

Json = dict[str, Any]

FOLDER = Path(sys.argv[1])
PARENT = os.getppid()
LOOK_S = 0.02


class RefusedError(Exception):
    """A JSON-RPC error that the client answered with."""

    def __init__(self, error: Json) -> None:
        super().__init__(error.get("message"))
        self.code = error.get("code")
        self.data = error.get("data")


class Line:
    """The one connection: lines out under a lock, answers back to whoever asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._waiting: dict[int, queue.Queue[Json]] = {}
        self._unnoted = 0

    def send(self, message: Json) -> None:
        text = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":"))
        with self._lock:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def call(self, method: str, params: Json) -> Json:
        """The whole answer, an error too."""
        with self._lock:
            self._number += 1
            number = self._number
            answer = self._waiting[number] = queue.Queue()
        self.send({"id": number, "method": method, "params": params})
        return answer.get()

    def request(self, method: str, params: Json) -> Json:
        """The result. Raises: RefusedError."""
        note("sent.jsonl", {"method": method, "params": params})
        answer = self.call(method, params)
        note("sent.jsonl", {"id": params.get("id"), "answer": bare(answer)})
        self.noted()
        if "error" in answer:
            raise RefusedError(answer["error"])
        result: Json = answer["result"]
        return result

    def answered(self, message: Json) -> None:
        self._unnoted += 1
        self._waiting.pop(message["id"]).put(message)

    def noted(self) -> None:
        """An answer was written down by whoever asked."""
        with self._lock:
            self._unnoted -= 1

    def all_noted(self) -> None:
        """Wait for that, for all that was answered."""
        until = time.monotonic() + 60
        while self._unnoted > 0 and time.monotonic() < until:
            time.sleep(LOOK_S)


LINE = Line()
_NOTES = threading.Lock()


def note(name: str, value: Json) -> None:
    """One line more in a file of the folder."""
    line = json.dumps({"pid": os.getpid(), **value}) + "\n"
    with _NOTES, (FOLDER / name).open("a") as log:
        log.write(line)


def bare(answer: Json) -> Json:
    """A result or an error, without the envelope."""
    return {k: v for k, v in answer.items() if k in ("result", "error")}


def ask_and_note(name: str) -> None:
    """Send one request as it stands in its file; its answer goes into another."""
    asked = json.loads((FOLDER / "requests" / f"{name}.json").read_text())
    answer = bare(LINE.call(asked["method"], asked["params"]))
    half = FOLDER / "answers" / f".{name}.{os.getpid()}"
    half.write_text(json.dumps(answer))
    half.rename(FOLDER / "answers" / f"{name}.json")
    LINE.noted()


def watch_requests() -> None:
    """Send each request that appears, once by this process, each in a thread of its own."""
    for folder in ("requests", "answers"):
        (FOLDER / folder).mkdir(exist_ok=True)
    seen = {path.name for path in (FOLDER / "requests").glob("turn-*.json")}
    seen |= {path.name for path in (FOLDER / "answers").glob("*.json")}
    while True:
        for path in sorted((FOLDER / "requests").glob("*.json")):
            if path.name not in seen and not path.name.startswith("turn-"):
                seen.add(path.name)
                start(ask_and_note, path.stem)
        time.sleep(LOOK_S)


def empty_outbox() -> None:
    """Send what the outbox holds, for as long as this process lives."""

    def ended(entry: Entry) -> None:
        note("ends.jsonl", {"id": entry.id, "state": entry.state, "reason": entry.reason})

    with Outbox(FOLDER / "outbox.db") as outbox:
        deliver_blocking(outbox, LINE.request, time.sleep, on_end=ended)


def start(what: Any, *arguments: Any) -> None:
    """A thread that ends with the process."""
    threading.Thread(target=what, args=arguments, daemon=True).start()


def queue_later(name: str, meta: object) -> str:
    """Put a delivery into the outbox; what the turn says of it."""
    order = json.loads((FOLDER / "later" / f"{name}.json").read_text())
    to = destination(meta)
    if to is None:
        return f"later {name}: no destination"
    for file, content in order.get("files", {}).items():
        (to.export_dir / file).write_text(content)
    files = [to.export_dir / file for file in order.get("files", {})]
    with Outbox(FOLDER / "outbox.db") as outbox:
        wait_s = order.get("delay_s", 0.0)
        outbox.put(order["id"], to, order.get("text"), files, delay_s=wait_s)
    return f"later {name}: queued"


def await_file(name: str) -> None:
    """Wait for a file of the folder; a worker that dies meanwhile takes this process with it."""
    while not (FOLDER / name).exists():
        if os.getppid() != PARENT:
            os._exit(1)
        time.sleep(LOOK_S)


def reply_to(request: str, meta: object) -> str:
    """What a prompt is answered with."""
    word, _, name = request.partition(" ")
    match word:
        case "later":
            return queue_later(name, meta)
        case "turn":
            ask_and_note(f"turn-{name}")
            return f"turn {name}: answered"
        case "wait":
            await_file(name)
    return f"said: {request}"


def prompted(number: object, params: Json) -> None:
    """A turn, in a thread of its own."""
    text = "".join(block.get("text", "") for block in params["prompt"])
    request, meta = text.strip().splitlines()[-1], params.get("_meta")
    told = destination(meta)
    found = {
        "request": request,
        "binding": told.binding if told else None,
        "export_dir": str(told.export_dir) if told else None,
        "destination": notify_destination(meta),
    }
    note("told.jsonl", found)
    content = {"type": "text", "text": reply_to(request, meta)}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    session = {"sessionId": params["sessionId"]}
    LINE.send({"method": "session/update", "params": {**session, "update": update}})
    LINE.send({"id": number, "result": {"stopReason": "end_turn"}})


def initialized(params: Json) -> Json:
    """The declaration; a client that takes deliveries makes this process the listener."""
    if declared(params.get("clientCapabilities"), params.get("_meta")):
        note("listeners.jsonl", {})
        start(watch_requests)
        start(empty_outbox)
    return {
        "protocolVersion": 1,
        "agentCapabilities": {"loadSession": True, "_meta": dict(CAPABILITY)},
        "agentInfo": {"name": "late", "version": "1"},
        "authMethods": [],
    }


def answer(message: Json) -> None:
    """Serve one request of the client."""
    number, params = message["id"], message.get("params") or {}
    match message["method"]:
        case "initialize":
            result = initialized(params)
        case "session/new":
            result = {"sessionId": f"s-{os.getpid()}-{time.monotonic_ns()}"}
        case "session/load":
            content = {"type": "text", "text": "before"}
            update = {"sessionUpdate": "user_message_chunk", "content": content}
            told = {"sessionId": params["sessionId"], "update": update}
            LINE.send({"method": "session/update", "params": told})
            result = {}
        case "session/prompt":
            return start(prompted, number, params)
        case _:
            result = {}
    LINE.send({"id": number, "result": result})
    return None


def main() -> None:
    """Serve until the end of input."""
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message:
            LINE.answered(message)
        elif "id" in message:
            answer(message)
    LINE.all_noted()
    os._exit(0)


if __name__ == "__main__":
    main()
