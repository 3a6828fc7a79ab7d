"""A scripted ACP agent as a real child process; standard library only.

``python fake_agent.py '{"state": "/path.json", ...}'``: options as one JSON object; sessions are
kept in the state file, so that another process can load them. The prompt is the script: each line
that begins with ``#`` is a directive, run in order (see ``DIRECTIVES``); the rest is ignored.

Options: ``load``, ``resume`` (booleans; ``resume`` may be ``"broken"``), ``late_replay`` (seconds
after the load response), ``load_error`` [code, message], ``load_empty``, ``new_error`` and
``init_error`` [code, message], ``auth`` (method names), ``version``, ``modes``, ``init_delay``,
``prompt`` (capabilities), ``config_modes`` (modes as a config option), ``mode_error``,
``ids`` (``uuid``), ``options`` (those of permission requests), ``big_new`` (bytes of an update at
``session/new``), ``extra`` (members of each prompt's result), ``load_says`` (text amid a replay),
``eof_delay`` (seconds), ``eof_proof`` (a file it makes then), ``init_stderr`` (bytes),
``new_delay`` (seconds), ``ignore_eof``, ``ignore_term``, ``crash_on`` (a method), ``crash_unless``
(a file is there), ``exit`` (a code, at once), ``log`` (a file for everything received),
``close`` (boolean: offers ``session/close``), ``close_error`` [code, message], ``load_asks`` (a
file: asks for a write while loading, and notes the outcome there), ``new_result`` (as
it stands), ``stops_reading`` (a file it makes when the first
prompt begins to come, and reads no more), ``unscripted`` (directives for a prompt without any).

Deliveries: ``delivers`` (``"capabilities"`` or ``"result"``: where it declares them),
``delivers_unless`` (a file is there), ``late`` (a folder). There each process notes its
``initialize`` as ``init-<pid>.json``. One whose client takes deliveries sends the lines of each
file ``send-*`` that appears there, each a message without its envelope (``id`` included, if it
wants an answer), and appends what comes back to ``answers``; a file ``end-stderr`` makes it say its
content on stderr and close its output. ``mute_listener`` (it never answers the ``initialize`` of
such a client).
"""

import base64
import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]

OPTIONS: Json = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
PERMISSION_OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


class Cancelled(Exception):
    """The turn was cancelled while it waited."""


class Agent:
    def __init__(self) -> None:
        self.buffer = b""
        self.next_id = 0
        self.cancelled = False
        self.ignore_cancel = False
        self.session: str = ""
        self.mode = (OPTIONS.get("modes") or OPTIONS.get("config_modes") or ["default"])[0]
        self.number = 0
        self.said: list[str] = []
        self.after: list[Callable[[], None]] = []
        self.behind: list[str] = []
        self.blocks: list[Json] = []
        self.stop_reason = "end_turn"
        self.call_id: int | str = 0
        self.after_ask = b""
        self.quiet = False
        self.takes_late = False
        self.writing = threading.Lock()
        self.sent_late: set[str] = set()
        self.meta: Json | None = None
        self.opened_meta: Json | None = None

    # --- the wire

    def write(self, message: Json) -> None:
        self.write_line(json.dumps(message).encode())

    def write_line(self, line: bytes) -> None:
        with self.writing:
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()

    def update(self, update: Json, session: str | None = None) -> None:
        params = {"sessionId": session or self.session, "update": update}
        self.write({"jsonrpc": "2.0", "method": "session/update", "params": params})

    def read(self, timeout: float | None = None) -> Json | None:
        """One message, or None when ``timeout`` seconds pass; ends at the end of input."""
        until = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self.buffer:
            left = None if until is None else max(0.0, until - time.monotonic())
            ready, _, _ = select.select([0], [], [], left)
            if not ready:
                return None
            block = os.read(0, 1 << 16)
            if not block:
                time.sleep(OPTIONS.get("eof_delay", 0))
                if proof := OPTIONS.get("eof_proof"):
                    Path(proof).touch()
                if OPTIONS.get("ignore_eof"):
                    while True:
                        time.sleep(60)
                sys.exit(0)
            self.buffer += block
        line, self.buffer = self.buffer.split(b"\n", 1)
        if log := OPTIONS.get("log"):
            with Path(log).open("ab") as file:
                file.write(line + b"\n")
        message: Json = json.loads(line)
        return message

    def ask(self, method: str, params: Json, timeout: float = 10) -> Json:
        """A request of ours; the whole answer. Notices a cancel on the way."""
        call_id: int | str = self.next_id
        self.next_id += 1
        if OPTIONS.get("ids") == "uuid":
            call_id = str(uuid.uuid4())
        request = {"jsonrpc": "2.0", "id": call_id, "method": method, "params": params}
        behind, self.after_ask = self.after_ask, b""
        self.write_line(json.dumps(request).encode() + behind)
        until = time.monotonic() + timeout
        while (message := self.read(until - time.monotonic())) is not None:
            if "method" not in message and message.get("id") == call_id:
                return message
            self.note_cancel(message)
        return {"error": {"code": 0, "message": "no answer"}}

    def note_cancel(self, message: Json) -> None:
        if message.get("method") == "session/cancel":
            self.cancelled = True

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while True:
            if self.cancelled and not self.ignore_cancel:
                raise Cancelled
            left = until - time.monotonic()
            if left <= 0:
                return
            if (message := self.read(left)) is not None:
                self.note_cancel(message)

    # --- sessions on disk

    def sessions(self) -> Json:
        try:
            with Path(OPTIONS["state"]).open() as file:
                found: Json = json.load(file)
                return found
        except (KeyError, FileNotFoundError):
            return {}

    def remember(self, entry: Json | None) -> None:
        if "state" not in OPTIONS:
            return
        state = Path(OPTIONS["state"])
        with state.with_suffix(".lock").open("w") as lock:  # other rooms' agents write it too
            fcntl.flock(lock, fcntl.LOCK_EX)
            sessions = self.sessions()
            sessions.setdefault(self.session, [])
            if entry:
                sessions[self.session].append(entry)
            new = state.with_suffix(".new")
            new.write_text(json.dumps(sessions))
            new.replace(state)

    def replay(self, session: str, history: list[Json]) -> None:
        for number, entry in enumerate(history):
            self.update(
                {
                    "sessionUpdate": "user_message_chunk",
                    "content": {"type": "text", "text": entry["user"]},
                },
                session,
            )
            self.update(
                {
                    "sessionUpdate": "agent_message_chunk",
                    "messageId": f"old-{number}",
                    "content": {"type": "text", "text": f"REPLAYED {entry['said']}"},
                },
                session,
            )
            self.update(
                {
                    "sessionUpdate": "tool_call",
                    "toolCallId": f"old-tool-{number}",
                    "title": "REPLAYED tool",
                    "status": "completed",
                },
                session,
            )

    # --- what is served

    def serve(self) -> None:
        while True:
            message = self.read(0.02 if self.takes_late else None) or {}
            if self.takes_late:
                self.send_late(message)
            method = message.get("method")
            if method is None or "id" not in message:
                continue
            saved = Path(OPTIONS.get("crash_unless", "/nowhere")).exists()
            if OPTIONS.get("crash_on") == method and not saved:
                sys.stderr.write("about to crash\n")
                sys.stderr.flush()
                os._exit(9)
            handler = {
                "initialize": self.initialize,
                "session/new": self.new,
                "session/load": self.load,
                "session/resume": self.resume,
                "session/close": self.close,
                "session/set_mode": self.set_mode,
                "session/set_config_option": self.set_config_option,
                "session/prompt": self.prompt,
            }.get(method)
            answer = {"jsonrpc": "2.0", "id": message["id"]}
            if handler is None:
                answer["error"] = {"code": -32601, "message": "Method not found"}
            else:
                self.call_id = message["id"]
                answer.update(handler(message.get("params") or {}))
            if len(answer) > 2:  # a directive may have answered by itself
                self.answer_with_text_behind(answer)
            late, self.after = self.after, []
            for step in late:
                step()

    def answer_with_text_behind(self, answer: Json) -> None:
        """In one write: nothing can come between the answer and what is said too late."""
        said, self.behind = self.behind, []
        lines = [answer]
        for text in said:
            content = {"type": "text", "text": text}
            update = {"sessionUpdate": "agent_message_chunk", "content": content}
            params = {"sessionId": self.session, "update": update}
            lines.append({"jsonrpc": "2.0", "method": "session/update", "params": params})
        self.write_line(b"\n".join(json.dumps(line).encode() for line in lines))

    def send_late(self, message: Json) -> None:
        """What a test has put into the folder, all at once; and what came back."""
        folder = Path(OPTIONS["late"])
        if "method" not in message and "id" in message:
            with (folder / "answers").open("a") as file:
                file.write(json.dumps(message) + "\n")
        for path in sorted(folder.glob("send-*")):
            if path.name not in self.sent_late:
                self.sent_late.add(path.name)
                late = [{"jsonrpc": "2.0"} | json.loads(x) for x in path.read_text().splitlines()]
                threading.Thread(  # its answers are read meanwhile
                    target=self.write_line, args=("\n".join(map(json.dumps, late)).encode(),)
                ).start()
        end = folder / "end-stderr"
        if end.exists():
            sys.stderr.write(end.read_text())
            end.unlink()
            sys.stderr.flush()
            os.close(1)
            time.sleep(60)

    def note_late(self, params: Json) -> None:
        if "late" not in OPTIONS:
            return
        folder = Path(OPTIONS["late"])
        new = folder / f"new-{os.getpid()}"
        new.write_text(json.dumps(params))
        new.replace(folder / f"init-{os.getpid()}.json")
        meta = (params.get("clientCapabilities") or {}).get("_meta") or {}
        self.takes_late = meta.get("ag2/deliver") is True
        while self.takes_late and OPTIONS.get("mute_listener"):
            time.sleep(60)

    def initialize(self, params: Json) -> Json:
        self.note_late(params)
        sys.stderr.write("\x1b[33mwarning\x1b[0m\n" * (OPTIONS.get("init_stderr", 0) // 20))
        sys.stderr.flush()
        time.sleep(OPTIONS.get("init_delay", 0))
        while (gate := OPTIONS.get("init_gate")) and not Path(gate).exists():
            time.sleep(0.02)
        if error := OPTIONS.get("init_error"):
            return {"error": {"code": error[0], "message": error[1]}}
        capabilities = {
            "loadSession": OPTIONS.get("load", True),
            "promptCapabilities": OPTIONS.get("prompt", {"image": True}),
        }
        offered = [name for name in ("resume", "close") if OPTIONS.get(name)]
        if offered:
            capabilities["sessionCapabilities"] = {name: {} for name in offered}
        declared = {"_meta": {"ag2/deliver": True}}
        mute = Path(OPTIONS.get("delivers_unless", "/nowhere")).exists()
        where = None if mute else OPTIONS.get("delivers")
        capabilities |= declared if where == "capabilities" else {}
        return {
            "result": (declared if where == "result" else {})
            | {
                "protocolVersion": OPTIONS.get("version", 1),
                "agentCapabilities": capabilities,
                "agentInfo": {"name": "fake", "title": "Fake Agent", "version": "1.2"},
                "authMethods": [{"id": name, "name": name} for name in OPTIONS.get("auth", [])],
            }
        }

    def config_options(self) -> list[Json]:
        """A model, and the modes in two groups."""
        groups = [
            {"group": mode, "name": mode, "options": [{"value": mode, "name": mode}]}
            for mode in OPTIONS.get("config_modes", [])
        ]
        model = {"id": "model", "category": "model", "type": "select", "currentValue": "m"}
        option = {"id": "how", "category": "mode", "type": "select", "currentValue": self.mode}
        return [model | {"options": []}, option | {"options": groups}]

    def opened(self) -> Json:
        if "config_modes" in OPTIONS:
            return {"configOptions": self.config_options()}
        if modes := OPTIONS.get("modes"):
            offered = [{"id": mode, "name": mode} for mode in modes]
            return {"modes": {"currentModeId": self.mode, "availableModes": offered}}
        return {}

    def new(self, params: Json) -> Json:
        assert Path(params["cwd"]).is_absolute()
        assert params["mcpServers"] == []
        self.opened_meta = params.get("_meta")
        time.sleep(OPTIONS.get("new_delay", 0))
        if error := OPTIONS.get("new_error"):
            return {"error": {"code": error[0], "message": error[1]}}
        if "new_result" in OPTIONS:
            return {"result": OPTIONS["new_result"]}
        self.session = f"s-{os.getpid()}-{time.monotonic_ns()}"
        self.remember(None)
        update = {"sessionUpdate": "available_commands_update", "availableCommands": []}
        self.update(update | {"_meta": "x" * OPTIONS.get("big_new", 0)})
        if proof := OPTIONS.get("stops_reading"):
            self.after.append(lambda: self.stop_reading(proof))
        return {"result": {"sessionId": self.session, **self.opened()}}

    def stop_reading(self, proof: str) -> None:
        select.select([0], [], [])
        Path(proof).touch()
        while True:
            time.sleep(60)

    def close(self, params: Json) -> Json:
        if error := OPTIONS.get("close_error"):
            return {"error": {"code": error[0], "message": error[1]}}
        return {"result": {}}

    def load(self, params: Json) -> Json:
        if error := OPTIONS.get("load_error"):
            return {"error": {"code": error[0], "message": error[1], "data": {"details": "gone"}}}
        self.opened_meta = params.get("_meta")
        history = self.sessions().get(params["sessionId"])
        if history is None:
            return {"error": {"code": -32002, "message": "Resource not found"}}
        self.session = params["sessionId"]
        if OPTIONS.get("load_empty"):
            return {"result": None}
        if proof := OPTIONS.get("load_asks"):
            call = {"toolCallId": "early", "title": "Write x", "locations": [{"path": "x"}]}
            asked = {"sessionId": self.session, "toolCall": call}
            asked["options"] = OPTIONS.get("options", PERMISSION_OPTIONS)
            answer = self.ask("session/request_permission", asked)
            Path(proof).write_text(json.dumps(answer["result"]["outcome"]))
        if delay := OPTIONS.get("late_replay"):

            def later() -> None:
                time.sleep(delay)
                self.replay(self.session, history)

            self.after.append(later)
        else:
            self.replay(self.session, history)
        if text := OPTIONS.get("load_says"):
            self.say(text)
        return {"result": self.opened()}

    def resume(self, params: Json) -> Json:
        if OPTIONS.get("resume") == "broken":
            return {"error": {"code": -32601, "message": "Method not found"}}
        self.opened_meta = params.get("_meta")
        if params["sessionId"] not in self.sessions():
            return {"error": {"code": -32002, "message": "Resource not found"}}
        self.session = params["sessionId"]
        return {"result": self.opened()}

    def set_config_option(self, params: Json) -> Json:
        assert params["configId"] == "how"
        if error := OPTIONS.get("mode_error"):
            return {"error": {"code": error[0], "message": error[1]}}
        self.mode = params["value"]
        return {"result": {"configOptions": self.config_options()}}

    def set_mode(self, params: Json) -> Json:
        if error := OPTIONS.get("mode_error"):
            return {"error": {"code": error[0], "message": error[1]}}
        self.mode = params["modeId"]
        return {"result": {}}

    def prompt(self, params: Json) -> Json:
        self.cancelled = self.ignore_cancel = False
        self.stop_reason = "end_turn"
        self.said = []
        self.number += 1
        text = params["prompt"][0]["text"]
        self.blocks = params["prompt"]
        self.meta = params.get("_meta")
        lines = [line for line in text.splitlines() if line.startswith("#")] or OPTIONS.get(
            "unscripted", []
        )
        self.remember({"user": text, "said": "…"})
        try:
            for line in lines:
                name, _, rest = line[1:].partition(" ")
                answer = DIRECTIVES[name](self, rest)
                if answer is not None:
                    return answer
        except Cancelled:
            self.stop_reason = "cancelled"
        return {"result": {"stopReason": self.stop_reason} | OPTIONS.get("extra", {})}

    # --- directives

    def say(self, text: str, message_id: str | None = None) -> None:
        self.said.append(text)
        update = {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": text},
        }
        if message_id:
            update["messageId"] = message_id
        self.update(update)

    def say_id(self, rest: str) -> None:
        message_id, _, text = rest.partition(" ")
        self.say(text, message_id)

    def think(self, text: str) -> None:
        self.update(
            {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": text}}
        )

    def tool(self, rest: str) -> None:
        tool_id, kind, title = rest.split(" ", 2)
        update = {"sessionUpdate": "tool_call", "toolCallId": tool_id, "kind": kind, "title": title}
        self.update(update | {"status": "pending"})

    def tool_end(self, rest: str) -> None:
        tool_id, status = rest.split(" ")
        self.update({"sessionUpdate": "tool_call_update", "toolCallId": tool_id, "status": status})

    def ask_write(self, path: str) -> None:
        """Ask for a write of ``path``; says what was answered."""
        self.permission(
            {
                "toolCallId": f"write-{self.number}-{self.next_id}",
                "title": f"Write {path}",
                "kind": "edit",
                "locations": [{"path": path}],
            }
        )

    def ask_command(self, command: str) -> None:
        self.permission(
            {
                "toolCallId": f"run-{self.number}-{self.next_id}",
                "title": command,
                "kind": "execute",
                "rawInput": {"command": command, "cwd": "."},
            }
        )

    def ask_bare(self, tool_id: str) -> None:
        """Only the id, like an agent that told the rest in an earlier update."""
        self.permission({"toolCallId": tool_id})

    def permission(self, call: Json) -> None:
        answer = self.ask(
            "session/request_permission",
            {
                "sessionId": self.session,
                "toolCall": call,
                "options": OPTIONS.get("options", PERMISSION_OPTIONS),
            },
        )
        outcome = answer.get("result", {}).get("outcome", {})
        if not self.quiet:
            self.say(f"[{outcome.get('optionId') or outcome.get('outcome')}]")

    def ask_json(self, call: str) -> None:
        """Ask with exactly this tool call."""
        self.permission(json.loads(call))

    def ask_silently(self, call: str) -> None:
        """The same without a word about the answer."""
        self.quiet = True
        self.permission(json.loads(call))
        self.quiet = False

    def last_words(self, text: str) -> None:
        """Wait for the cancel, and still say something before the turn ends."""
        self.ignore_cancel = True
        while not self.cancelled:
            self.wait(0.01)
        self.say(text)
        raise Cancelled

    def last_words_anyway(self, text: str) -> None:
        """The same, and the turn ends as if nothing had been."""
        with contextlib.suppress(Cancelled):
            self.last_words(text)

    def error_json(self, error: str) -> Json:
        """An error of any shape."""
        return {"error": json.loads(error)}

    def ask_and_take_back(self, path: str) -> None:
        """Ask, and cancel that request at once; its answer is still waited for."""
        call_id = self.next_id
        params = {"requestId": call_id}
        call = {"toolCallId": "back", "title": f"Write {path}", "locations": [{"path": path}]}
        withdrawn = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": params}
        self.after_ask = b"\n" + json.dumps(withdrawn).encode()
        self.permission(call)

    def raw_update(self, update: str) -> None:
        """Any update."""
        self.update(json.loads(update))

    def change_mode(self, mode: str) -> None:
        """Go into another mode without having been asked."""
        self.mode = mode
        if "config_modes" in OPTIONS:
            options = self.config_options()
            self.update({"sessionUpdate": "config_option_update", "configOptions": options})
        else:
            self.update({"sessionUpdate": "current_mode_update", "currentModeId": mode})

    def flood(self, count: str) -> Json:
        """So many chunks and the answer in a single write."""
        updates = [
            {
                "jsonrpc": "2.0",
                "method": "session/update",
                "params": {
                    "sessionId": self.session,
                    "update": {
                        "sessionUpdate": "agent_message_chunk",
                        "content": {"type": "text", "text": f"{number} "},
                    },
                },
            }
            for number in range(int(count))
        ]
        answer = {"jsonrpc": "2.0", "id": self.call_id, "result": {"stopReason": "end_turn"}}
        self.write_line("\n".join(json.dumps(each) for each in [*updates, answer]).encode())
        return {}

    def ask_after_cancel(self, path: str) -> None:
        """Wait for the cancel, then ask once more and do not end before the answer came."""
        self.ignore_cancel = True
        while not self.cancelled:
            self.wait(0.01)
        self.ask_write(path)
        raise Cancelled

    def ask_params(self, params: str) -> None:
        """A permission request with exactly these params; says the code of its error."""
        answer = self.ask("session/request_permission", json.loads(params))
        self.say(f"[{answer.get('error', {}).get('code', 'success')}]")

    def call(self, rest: str) -> None:
        """Any request; says its whole answer, its error or its result."""
        method, _, params = rest.partition(" ")
        answer = self.ask(method, json.loads(params))
        self.say(json.dumps(answer.get("error", answer.get("result"))))

    def show_meta(self, _: str) -> None:
        """What came in ``_meta`` when the session was opened, and with this prompt."""
        self.say(json.dumps([self.opened_meta, self.meta]))

    def unknown(self, method: str) -> None:
        answer = self.ask(method, {"sessionId": self.session, "path": "/etc/passwd"})
        self.say(f"[{answer.get('error', {}).get('code', 'success')}]")

    def hang(self, _: str) -> None:
        self.say("working")
        self.wait(3600)

    def deaf(self, _: str) -> None:
        self.ignore_cancel = True
        self.hang(_)

    def crash(self, code: str) -> None:
        sys.stderr.write("secret-in-stderr about to crash\n")
        sys.stderr.flush()
        os._exit(int(code or 1))

    def flood_stderr(self, size: str) -> None:
        sys.stderr.write("x" * int(size) + "\nlast words\n")
        sys.stderr.flush()

    def huge(self, size: str) -> None:
        self.say("y" * int(size))

    def junk(self, text: str) -> None:
        self.write_line(text.encode())

    def error(self, rest: str) -> Json:
        code, _, message = rest.partition(" ")
        return {
            "error": {"code": int(code), "message": "Internal error", "data": {"details": message}}
        }

    def environment(self, names: str) -> None:
        for name in names.split():
            self.say(f"[{name}={os.environ.get(name, '')}]")

    def pid(self, _: str) -> None:
        self.say(f"[pid {os.getpid()}]")

    def history(self, _: str) -> None:
        self.say(f"[turns {len(self.sessions().get(self.session, []))}]")

    def show_mode(self, _: str) -> None:
        self.say(f"[mode {self.mode}]")

    def show_blocks(self, _: str) -> None:
        self.say("[" + " ".join(block["type"] for block in self.blocks) + "]")

    def show_prompt(self, _: str) -> None:
        self.say(self.blocks[0]["text"].replace("#", "$"))

    def late(self, text: str) -> None:
        """Said after the answer to the prompt, before the next one can be open."""
        self.behind.append(text)

    def late_id(self, rest: str) -> None:
        """The same with a message id, after a while, when the next prompt may be open."""
        delay, _, spoken = rest.partition(" ")

        def later() -> None:
            time.sleep(float(delay))
            self.say_id(spoken)

        self.after.append(later)

    def child(self, _: str) -> None:
        """Start a grandchild that ignores everything but SIGKILL, and name it."""
        code = (
            "import signal, time; signal.signal(15, signal.SIG_IGN); "
            "print(1, flush=True); time.sleep(600)"
        )
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        self.say(f"[child {process.pid}]")

    def link(self, rest: str) -> None:
        uri, _, name = rest.partition(" ")
        block = {"type": "resource_link", "uri": uri, "name": name}
        self.update({"sessionUpdate": "agent_message_chunk", "content": block})

    def image(self, rest: str) -> None:
        data = rest or base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(16)).decode()
        block = {"type": "image", "mimeType": "image/png", "data": data}
        self.update({"sessionUpdate": "agent_message_chunk", "content": block})

    def stop(self, reason: str) -> None:
        self.stop_reason = reason

    def sleep(self, seconds: str) -> None:
        self.wait(float(seconds))


DIRECTIVES: dict[str, Callable[[Agent, str], Json | None]] = {
    "say": Agent.say,
    "say-id": Agent.say_id,
    "think": Agent.think,
    "tool": Agent.tool,
    "tool-end": Agent.tool_end,
    "ask-write": Agent.ask_write,
    "ask-command": Agent.ask_command,
    "ask-bare": Agent.ask_bare,
    "ask-after-cancel": Agent.ask_after_cancel,
    "ask-json": Agent.ask_json,
    "ask-params": Agent.ask_params,
    "ask-silently": Agent.ask_silently,
    "last-words": Agent.last_words,
    "last-words-anyway": Agent.last_words_anyway,
    "error-json": Agent.error_json,
    "ask-and-take-back": Agent.ask_and_take_back,
    "update": Agent.raw_update,
    "change-mode": Agent.change_mode,
    "flood": Agent.flood,
    "unknown": Agent.unknown,
    "call": Agent.call,
    "meta": Agent.show_meta,
    "hang": Agent.hang,
    "deaf": Agent.deaf,
    "crash": Agent.crash,
    "flood-stderr": Agent.flood_stderr,
    "huge": Agent.huge,
    "junk": Agent.junk,
    "error": Agent.error,
    "env": Agent.environment,
    "pid": Agent.pid,
    "history": Agent.history,
    "mode": Agent.show_mode,
    "blocks": Agent.show_blocks,
    "prompt": Agent.show_prompt,
    "late": Agent.late,
    "late-id": Agent.late_id,
    "child": Agent.child,
    "link": Agent.link,
    "image": Agent.image,
    "stop": Agent.stop,
    "sleep": Agent.sleep,
}


if __name__ == "__main__":
    if OPTIONS.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if OPTIONS.get("exit") is not None:
        sys.stderr.write("cannot start: no configuration\n")
        sys.exit(OPTIONS["exit"])
    Agent().serve()
