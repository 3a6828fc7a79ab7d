"""A scripted ACP agent as a real child process; standard library only.

``python fake_agent.py '{"state": "/path.json", ...}'``: options as one JSON object, sessions in the
state file so that another process can load them. The prompt is the script: every line that begins
with ``#`` is a directive, run in order (see ``DIRECTIVES``). Anything else in the prompt is ignored.

Options: ``load``, ``resume`` (booleans; ``resume`` may be ``"broken"``), ``late_replay`` (seconds
after the load response), ``load_error`` [code, message], ``load_empty``, ``new_error`` [code,
message], ``init_error``, ``auth`` (method names), ``version``, ``modes``, ``init_delay``,
``ignore_eof``, ``ignore_term``, ``crash_on`` (a method), ``log`` (a file for everything received).
"""

import base64
import json
import os
import select
import signal
import subprocess
import sys
import time

OPTIONS = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
PERMISSION_OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


class Cancelled(Exception):
    """The turn was cancelled while it waited."""


class Agent:
    def __init__(self):
        self.buffer = b""
        self.next_id = 0
        self.cancelled = False
        self.ignore_cancel = False
        self.session = None
        self.mode = (OPTIONS.get("modes") or ["default"])[0]
        self.number = 0
        self.said = []
        self.after = []
        self.stop_reason = "end_turn"

    # --- the wire

    def write(self, message):
        self.write_line(json.dumps(message).encode())

    def write_line(self, line):
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()

    def update(self, update, session=None):
        params = {"sessionId": session or self.session, "update": update}
        self.write({"jsonrpc": "2.0", "method": "session/update", "params": params})

    def read(self, timeout=None):
        """One message, or None when ``timeout`` seconds pass; ends at the end of input."""
        until = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self.buffer:
            left = None if until is None else max(0.0, until - time.monotonic())
            ready, _, _ = select.select([0], [], [], left)
            if not ready:
                return None
            block = os.read(0, 1 << 16)
            if not block:
                if OPTIONS.get("ignore_eof"):
                    while True:
                        time.sleep(60)
                sys.exit(0)
            self.buffer += block
        line, self.buffer = self.buffer.split(b"\n", 1)
        if log := OPTIONS.get("log"):
            with open(log, "ab") as file:
                file.write(line + b"\n")
        return json.loads(line)

    def ask(self, method, params, timeout=10):
        """A request of ours; the whole answer. Notices a cancel on the way."""
        call_id, self.next_id = self.next_id, self.next_id + 1
        self.write({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params})
        until = time.monotonic() + timeout
        while (message := self.read(until - time.monotonic())) is not None:
            if "method" not in message and message.get("id") == call_id:
                return message
            self.note_cancel(message)
        return {"error": {"code": 0, "message": "no answer"}}

    def note_cancel(self, message):
        if message.get("method") == "session/cancel":
            self.cancelled = True

    def wait(self, seconds):
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

    def sessions(self):
        try:
            with open(OPTIONS["state"]) as file:
                return json.load(file)
        except (KeyError, FileNotFoundError):
            return {}

    def remember(self, entry):
        if "state" not in OPTIONS:
            return
        sessions = self.sessions()
        sessions.setdefault(self.session, [])
        if entry:
            sessions[self.session].append(entry)
        with open(OPTIONS["state"], "w") as file:
            json.dump(sessions, file)

    def replay(self, session, history):
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

    def serve(self):
        while True:
            message = self.read()
            method = message.get("method")
            if method is None or "id" not in message:
                continue
            if OPTIONS.get("crash_on") == method:
                sys.stderr.write("about to crash\n")
                sys.stderr.flush()
                os._exit(9)
            handler = {
                "initialize": self.initialize,
                "session/new": self.new,
                "session/load": self.load,
                "session/resume": self.resume,
                "session/set_mode": self.set_mode,
                "session/prompt": self.prompt,
            }.get(method)
            answer = {"jsonrpc": "2.0", "id": message["id"]}
            if handler is None:
                answer["error"] = {"code": -32601, "message": "Method not found"}
            else:
                answer.update(handler(message.get("params") or {}))
            self.write(answer)
            late, self.after = self.after, []
            for step in late:
                step()

    def initialize(self, params):
        time.sleep(OPTIONS.get("init_delay", 0))
        if error := OPTIONS.get("init_error"):
            return {"error": {"code": error[0], "message": error[1]}}
        capabilities = {
            "loadSession": OPTIONS.get("load", True),
            "promptCapabilities": OPTIONS.get("prompt", {"image": True}),
        }
        if OPTIONS.get("resume"):
            capabilities["sessionCapabilities"] = {"resume": {}}
        return {
            "result": {
                "protocolVersion": OPTIONS.get("version", 1),
                "agentCapabilities": capabilities,
                "agentInfo": {"name": "fake", "title": "Fake Agent", "version": "1.2"},
                "authMethods": [{"id": name, "name": name} for name in OPTIONS.get("auth", [])],
            }
        }

    def opened(self):
        if modes := OPTIONS.get("modes"):
            offered = [{"id": mode, "name": mode} for mode in modes]
            return {"modes": {"currentModeId": self.mode, "availableModes": offered}}
        return {}

    def new(self, params):
        assert os.path.isabs(params["cwd"])
        assert params["mcpServers"] == []
        if error := OPTIONS.get("new_error"):
            return {"error": {"code": error[0], "message": error[1]}}
        self.session = f"s-{os.getpid()}-{time.monotonic_ns()}"
        self.remember(None)
        self.update({"sessionUpdate": "available_commands_update", "availableCommands": []})
        return {"result": {"sessionId": self.session, **self.opened()}}

    def load(self, params):
        if error := OPTIONS.get("load_error"):
            return {"error": {"code": error[0], "message": error[1], "data": {"details": "gone"}}}
        history = self.sessions().get(params["sessionId"])
        if history is None:
            return {"error": {"code": -32002, "message": "Resource not found"}}
        self.session = params["sessionId"]
        if OPTIONS.get("load_empty"):
            return {"result": None}
        if delay := OPTIONS.get("late_replay"):

            def later():
                time.sleep(delay)
                self.replay(self.session, history)

            self.after.append(later)
        else:
            self.replay(self.session, history)
        return {"result": self.opened()}

    def resume(self, params):
        if OPTIONS.get("resume") == "broken":
            return {"error": {"code": -32601, "message": "Method not found"}}
        if params["sessionId"] not in self.sessions():
            return {"error": {"code": -32002, "message": "Resource not found"}}
        self.session = params["sessionId"]
        return {"result": self.opened()}

    def set_mode(self, params):
        self.mode = params["modeId"]
        return {"result": {}}

    def prompt(self, params):
        self.cancelled = self.ignore_cancel = False
        self.stop_reason = "end_turn"
        self.said = []
        self.number += 1
        text = params["prompt"][0]["text"]
        self.blocks = params["prompt"]
        lines = [line for line in text.splitlines() if line.startswith("#")]
        self.remember({"user": text, "said": "…"})
        try:
            for line in lines:
                name, _, rest = line[1:].partition(" ")
                answer = DIRECTIVES[name](self, rest)
                if answer is not None:
                    return answer
        except Cancelled:
            self.stop_reason = "cancelled"
        return {"result": {"stopReason": self.stop_reason}}

    # --- directives

    def say(self, text, message_id=None):
        self.said.append(text)
        update = {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": text},
        }
        if message_id:
            update["messageId"] = message_id
        self.update(update)

    def say_id(self, rest):
        message_id, _, text = rest.partition(" ")
        self.say(text, message_id)

    def think(self, text):
        self.update(
            {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": text}}
        )

    def tool(self, rest):
        tool_id, kind, title = rest.split(" ", 2)
        update = {"sessionUpdate": "tool_call", "toolCallId": tool_id, "kind": kind, "title": title}
        self.update(update | {"status": "pending"})

    def tool_end(self, rest):
        tool_id, status = rest.split(" ")
        self.update({"sessionUpdate": "tool_call_update", "toolCallId": tool_id, "status": status})

    def ask_write(self, path):
        """Ask for a write of ``path``; says what was answered."""
        self.permission(
            {
                "toolCallId": f"write-{self.number}-{self.next_id}",
                "title": f"Write {path}",
                "kind": "edit",
                "locations": [{"path": path}],
            }
        )

    def ask_command(self, command):
        self.permission(
            {
                "toolCallId": f"run-{self.number}-{self.next_id}",
                "title": command,
                "kind": "execute",
                "rawInput": {"command": command, "cwd": "."},
            }
        )

    def ask_bare(self, tool_id):
        """Only the id, like an agent that told the rest in an earlier update."""
        self.permission({"toolCallId": tool_id})

    def permission(self, call):
        answer = self.ask(
            "session/request_permission",
            {"sessionId": self.session, "toolCall": call, "options": PERMISSION_OPTIONS},
        )
        outcome = answer.get("result", {}).get("outcome", {})
        self.say(f"[{outcome.get('optionId') or outcome.get('outcome')}]")

    def ask_after_cancel(self, path):
        """Wait for the cancel, then ask once more and do not end before the answer came."""
        self.ignore_cancel = True
        while not self.cancelled:
            self.wait(0.01)
        self.ask_write(path)
        raise Cancelled

    def unknown(self, method):
        answer = self.ask(method, {"sessionId": self.session, "path": "/etc/passwd"})
        self.say(f"[{answer.get('error', {}).get('code', 'success')}]")

    def hang(self, _):
        self.say("working")
        self.wait(3600)

    def deaf(self, _):
        self.ignore_cancel = True
        self.hang(_)

    def crash(self, code):
        sys.stderr.write("secret-in-stderr about to crash\n")
        sys.stderr.flush()
        os._exit(int(code or 1))

    def flood_stderr(self, size):
        sys.stderr.write("x" * int(size) + "\nlast words\n")
        sys.stderr.flush()

    def huge(self, size):
        self.say("y" * int(size))

    def junk(self, text):
        self.write_line(text.encode())

    def error(self, rest):
        code, _, message = rest.partition(" ")
        return {
            "error": {"code": int(code), "message": "Internal error", "data": {"details": message}}
        }

    def environment(self, names):
        for name in names.split():
            self.say(f"[{name}={os.environ.get(name, '')}]")

    def pid(self, _):
        self.say(f"[pid {os.getpid()}]")

    def history(self, _):
        self.say(f"[turns {len(self.sessions().get(self.session, []))}]")

    def show_mode(self, _):
        self.say(f"[mode {self.mode}]")

    def show_blocks(self, _):
        self.say("[" + " ".join(block["type"] for block in self.blocks) + "]")

    def show_prompt(self, _):
        self.say(self.blocks[0]["text"].replace("#", "$"))

    def late(self, text):
        """Said after the answer to the prompt."""
        self.after.append(lambda: self.say(text))

    def late_id(self, rest):
        """The same with a message id, after a while, when the next prompt may be open."""
        delay, _, spoken = rest.partition(" ")

        def later():
            time.sleep(float(delay))
            self.say_id(spoken)

        self.after.append(later)

    def child(self, _):
        """Start a grandchild that ignores everything but SIGKILL, and name it."""
        code = "import signal,time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        process.stdout.readline()
        self.say(f"[child {process.pid}]")

    def link(self, rest):
        uri, _, name = rest.partition(" ")
        block = {"type": "resource_link", "uri": uri, "name": name}
        self.update({"sessionUpdate": "agent_message_chunk", "content": block})

    def image(self, rest):
        data = rest or base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(16)).decode()
        block = {"type": "image", "mimeType": "image/png", "data": data}
        self.update({"sessionUpdate": "agent_message_chunk", "content": block})

    def stop(self, reason):
        self.stop_reason = reason

    def sleep(self, seconds):
        self.wait(float(seconds))


DIRECTIVES = {
    "say": Agent.say,
    "say-id": Agent.say_id,
    "think": Agent.think,
    "tool": Agent.tool,
    "tool-end": Agent.tool_end,
    "ask-write": Agent.ask_write,
    "ask-command": Agent.ask_command,
    "ask-bare": Agent.ask_bare,
    "ask-after-cancel": Agent.ask_after_cancel,
    "unknown": Agent.unknown,
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
