"""The floor: the calls of one task and nothing else, on one kept connection (standard library).

``python floor.py GATEWAY`` with the secret on standard input: poll, ack, placeholder, edit, result.
"""

import http.client
import json
import sys
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]


class Gateway:
    """One connection."""

    def __init__(self, base: str, secret: str) -> None:
        parts = urlsplit(base)
        self.path = parts.path
        self.connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=40)
        self.headers = {
            "Authorization": f"Bearer {secret}",
            "User-Agent": "sutando-gateway-client/1.0",
            "Content-Type": "application/json",
        }

    def call(self, method: str, path: str, body: Json | None = None) -> Json:
        """One request, its answer decoded."""
        content = None if body is None else json.dumps(body)
        self.connection.request(method, self.path + path, content, self.headers)
        found: Json = json.loads(self.connection.getresponse().read())
        return found


def main() -> None:
    """Answer every task with its own text until killed."""
    gateway = Gateway(sys.argv[1], sys.stdin.readline().strip())
    while True:
        for task in gateway.call("GET", "/v1/tasks?wait=25")["tasks"]:
            room = {"room_id": task["channel_id"]}
            gateway.call("POST", f"/v1/tasks/{task['id']}/ack", {"id": task["id"]})
            posted = gateway.call(
                "POST", "/v1/room", {"op": "message", "body": "⏳ On it...", **room}
            )
            edit = {"op": "edit", "event_id": posted["event_id"], "body": task["task"], **room}
            gateway.call("POST", "/v1/room", edit)
            body = "[REPLIED]\n\n" + str(task["task"])
            gateway.call("POST", "/v1/results", {"id": task["id"], "body": body})


if __name__ == "__main__":
    main()
