"""``agent-connect notify``: one text to one place, once (channel-delivery.md §11.1)."""

import io
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
    text = text_of(options)
    api = Api(options)
    answer = api.call("POST", api.notify, {"text": text, "delivery": delivery})
    say(f"sent: {answer.get('deliveryId', '')}")
    return 0


def text_of(options: Options) -> str:
    """The text to send; what cannot be read of it is shown as such. Raises: UsageError."""
    if options.words:
        return options.words[0].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if not isinstance(sys.stdin, io.TextIOWrapper):  # closed by whoever started it
        raise UsageError("notify needs a text: as an argument, or on stdin")
    sys.stdin.reconfigure(errors="replace")
    return sys.stdin.read(MOST_CHARS)
