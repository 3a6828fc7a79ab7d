"""The cheapest ACP agent: standard library only, so that what is measured is the worker.

The last line of a prompt is the request: ``flood N`` streams N chunks, anything else is echoed.
An argument says how many seconds it needs to start.
"""

import json
import sys
import time
from typing import Any

Json = dict[str, Any]


def send(message: Json) -> None:
    """One line out."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")) + "\n")


def chunk(session: str, text: str) -> None:
    """One piece of the answer."""
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    send({"method": "session/update", "params": {"sessionId": session, "update": update}})


def prompted(params: Json) -> Json:
    """Answer one prompt."""
    text = "".join(block.get("text", "") for block in params["prompt"])
    words = text.strip().splitlines()[-1].split()
    if words[:1] == ["flood"]:
        for _ in range(int(words[1])):
            chunk(params["sessionId"], "lorem ipsum ")
        chunk(params["sessionId"], "end")
    else:
        chunk(params["sessionId"], " ".join(words))
    return {"stopReason": "end_turn"}


def answer(method: str, params: Json) -> Json:
    """The result of one request."""
    if method == "initialize":
        return {
            "protocolVersion": 1,
            "agentCapabilities": {"loadSession": True},
            "agentInfo": {"name": "echo", "version": "1"},
            "authMethods": [],
        }
    if method == "session/new":
        return {"sessionId": "s-1"}
    if method == "session/load":
        content = {"type": "text", "text": "before"}
        update = {"sessionUpdate": "user_message_chunk", "content": content}
        send(
            {
                "method": "session/update",
                "params": {"sessionId": params["sessionId"], "update": update},
            }
        )
        return {}
    return prompted(params) if method == "session/prompt" else {}


def main() -> None:
    """Serve until the end of input."""
    time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 0.0)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            send({"id": message["id"], "result": answer(message["method"], message["params"])})
        sys.stdout.flush()


if __name__ == "__main__":
    main()
