"""``python -m agentconnect.demo``: the demonstration agent on stdin and stdout.

Garbage collection is off while the SDK's two hundred models are built (a third of the start-up
time) and what they left is frozen afterwards; nothing else happens before the first read.
"""

import gc
import signal
import sys

HINT = """This is agentconnect's demonstration agent. It speaks the Agent Client Protocol on stdin
and stdout, so a program starts it, not a person: try `agent-connect local`.
"""


def main() -> int:
    """Serve until stdin ends; 0 then."""
    if sys.stdin.isatty() or len(sys.argv) > 1:
        sys.stderr.write(HINT)
        return 2
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # whoever started us ends us without a traceback
    gc.disable()
    # here and not above: the SDK is most of the start-up time, and the hint needs none of it
    from agentconnect.demo.agent import serve

    gc.freeze()
    gc.enable()
    serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
