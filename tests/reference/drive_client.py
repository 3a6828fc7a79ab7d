"""Run in the reference environment: one reference client, told what to do line by line.

Commands come as JSON lines on standard input, answers go as JSON lines to standard output.
"""

import json
import sys

from ag2_relay_client import RelayClient, TokenSource  # type: ignore[import-not-found]


def main() -> None:
    """Serve commands until the input ends."""
    first = json.loads(sys.stdin.readline())
    client = RelayClient(
        TokenSource(token=first["token"]),
        first["state_dir"],
        egress_roots=[first["root"]],
        poll_wait=first.get("poll_wait", 25),
    )
    client.start()
    ops = client.room_ops
    for line in sys.stdin:
        said = json.loads(line)
        do = said["do"]
        out: object = None
        if do == "next":
            task = client.next_task(timeout=said["timeout"])
            out = (
                None
                if task is None
                else {
                    "id": task.id,
                    "body": task.body,
                    "tier": task.access_tier,
                    "room": task.room_id,
                    "collaborator": task.collaborator,
                    "attachments": [
                        {"ok": a.ok, "mime": a.mime, "size": a.size, "path": str(a.path)}
                        for a in task.attachments
                    ],
                }
            )
        elif do == "message":
            out = ops.message(said["room"], said["body"])
        elif do == "edit":
            out = ops.edit(said["room"], said["event"], said["body"])
        elif do == "react":
            out = ops.react(said["room"], said["event"], said["key"])
        elif do == "complete":
            out = client.complete(said["id"], said["body"], base_dir=first["root"])
        elif do == "reject":
            out = client.reject(said["id"], said["reason"])
        elif do == "heartbeat":
            out = client.heartbeat()
        elif do == "healthz":
            out = client.healthz()
        elif do == "snapshot":
            out = client.snapshot()
        print(json.dumps(out, default=str), flush=True)
    client.stop()


if __name__ == "__main__":
    main()
