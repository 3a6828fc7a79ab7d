"""``agent-connect notify``: one text to one place, once (channel-delivery.md §11.1)."""

import sys

from agentconnect.cli.api import Api, destination
from agentconnect.cli.console import say
from agentconnect.cli.options import Options, UsageError

MOST_CHARS = 4 * 1024 * 1024
"""More than is ever sent; the daemon cuts what is too long."""


def run_notify(options: Options) -> int:
    """Send the text of the arguments, or of stdin, and say that it went out."""
    delivery = destination(options)
    if delivery is None:
        raise UsageError("notify needs --channel NAME and --to user:ID or --to chat:ID")
    text = options.words[0] if options.words else sys.stdin.read(MOST_CHARS)
    text = text.encode("utf-8", "replace").decode() if options.words else text
    api = Api(options)
    answer = api.call("POST", api.notify, {"text": text, "delivery": delivery})
    say(f"sent: {answer.get('deliveryId', '')}")
    return 0
