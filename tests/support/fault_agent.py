"""The cheapest agent that can be watched: standard library only, every prompt on a line of a file.

``python fault_agent.py LOG``. The last line of a prompt is the request:

- ``wait NAME …``: answers once a file of that name lies beside the log;
- ``steps NAME …``: the same, telling of one step after another meanwhile;
- ``file NAME``: writes the file into its folder and names it in the answer;
- ``read NAME``: answers with what the file in its folder holds, so a test chooses every character;
- anything else is answered by itself.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

Json = dict[str, Any]

LOG = Path(sys.argv[1])
PARENT = os.getppid()


def send(message: Json) -> None:
    """One line out."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def await_file(name: str) -> None:
    """Wait for a file; a worker that dies meanwhile takes this process with it."""
    while not (LOG.parent / name).exists():
        if os.getppid() != PARENT:
            sys.exit(1)
        time.sleep(0.02)


def tell_steps(session: Json, name: str) -> None:
    """One step after another until a file is there."""
    number = 0
    while not (LOG.parent / name).exists():
        if os.getppid() != PARENT:
            sys.exit(1)
        number += 1
        step = {"toolCallId": f"step-{number}", "title": f"Step {number}", "kind": "read"}
        update = {"sessionUpdate": "tool_call", "status": "in_progress", **step}
        send({"method": "session/update", "params": {**session, "update": update}})
        time.sleep(0.1)


def reply_to(session: Json, request: str) -> str:
    """What the request is answered with."""
    word, _, rest = request.partition(" ")
    match word:
        case "wait":
            await_file(rest.split()[0])
        case "steps":
            tell_steps(session, rest.split()[0])
        case "file":
            Path(rest).write_text(f"made for {rest}\n")
            return f"{request}: here it is\n[file: {rest}]"
        case "read":
            return Path(rest).read_text()
    return request


def prompted(params: Json) -> Json:
    """Note the prompt, then answer it."""
    text = "".join(block.get("text", "") for block in params["prompt"])
    request = text.strip().splitlines()[-1]
    with LOG.open("a") as log:
        log.write(request + "\n")
    content = {"type": "text", "text": reply_to(session_of(params), request)}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    send({"method": "session/update", "params": {**session_of(params), "update": update}})
    return {"stopReason": "end_turn"}


def session_of(params: Json) -> Json:
    """The session that a message is about."""
    return {"sessionId": params["sessionId"]}


def answer(method: str, params: Json) -> Json:
    """The result of one request."""
    match method:
        case "initialize":
            return {
                "protocolVersion": 1,
                "agentCapabilities": {"loadSession": True},
                "agentInfo": {"name": "fault", "version": "1"},
                "authMethods": [],
            }
        case "session/new":
            return {"sessionId": f"s-{os.getpid()}-{time.monotonic_ns()}"}
        case "session/load":
            content = {"type": "text", "text": "before"}
            update = {"sessionUpdate": "user_message_chunk", "content": content}
            send({"method": "session/update", "params": {**session_of(params), "update": update}})
            return {}
    return prompted(params) if method == "session/prompt" else {}


def main() -> None:
    """Serve until the end of input."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            send({"id": message["id"], "result": answer(message["method"], message["params"])})


if __name__ == "__main__":
    main()
