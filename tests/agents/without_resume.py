"""Run an agent, but hide that it can resume: its client then has to load.

Usage: ``python without_resume.py COMMAND [ARGUMENT...]``. Lines pass unchanged both ways, except
that ``sessionCapabilities.resume`` is taken out of the agent's answer to ``initialize``.
"""

import json
import subprocess
import sys
import threading


def main() -> int:
    """Pass lines until either side ends."""
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None

    def feed() -> None:
        assert child.stdin is not None
        for line in sys.stdin.buffer:
            child.stdin.write(line)
            child.stdin.flush()
        child.terminate()

    threading.Thread(target=feed, daemon=True).start()
    for line in child.stdout:
        message = json.loads(line)
        capabilities = (message.get("result") or {}).get("agentCapabilities")
        if capabilities:
            capabilities.get("sessionCapabilities", {}).pop("resume", None)
            line = json.dumps(message).encode() + b"\n"
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    return child.wait()


if __name__ == "__main__":
    sys.exit(main())
