"""What the log may say of a failed delivery (channel-delivery.md §13)."""

import re
from collections.abc import Iterable

from agentconnect.core.destination import blank, units
from agentconnect.core.redaction import REDACTED

MAX_UNITS = 512
_MOST_CHARS = 4096
_ADDRESS = re.compile(
    r"\b([a-z][a-z0-9+.-]{1,20}://)(?:[^\s/?#@\"'<>]*@)?([^\s/?#\"'<>]*)[^\s\"'<>]*", re.I
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def diagnostic(error: object, target_id: str, secrets: Iterable[str]) -> str:
    """The text of ``error`` without the target's id, secrets, what follows a host, and control
    characters; "" where it cannot be made.
    """
    try:
        return _diagnostic(str(error), target_id, secrets)
    except Exception:  # noqa: BLE001 - a log line goes without it
        return ""


def _diagnostic(text: str, target_id: str, secrets: Iterable[str]) -> str:
    hidden = {secret for secret in secrets if secret}
    if not blank(target_id):
        hidden.add(target_id)
    for secret in sorted(hidden, key=len, reverse=True):  # one may hold another
        text = text.replace(secret, REDACTED)
    text = _ADDRESS.sub(r"\1\2", text[:_MOST_CHARS])
    text = _CONTROL.sub(" ", text).strip()
    while units(text) > MAX_UNITS:
        text = text[: len(text) - max(1, (units(text) - MAX_UNITS) // 2)]
    return text
