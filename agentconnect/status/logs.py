"""The log on stderr: one line per fact, as text or JSON (design.md decision 15).

Owns the root logger's one handler. Lines carry ids and reasons, never message text; as a second net
every line passes the redaction table, and the secrets of this process are cut out verbatim. A
module that has facts to tell passes ``extra={"facts": {...}}``: with ``json`` they become members.
"""

import logging
import sys
import time
from collections.abc import Callable
from typing import TextIO

import msgspec

from agentconnect.core.redaction import redact

_QUIET = ("httpx", "httpcore", "hypercorn.error", "hypercorn.access")


class _Line(logging.Formatter):
    def __init__(self, secrets: Callable[[], tuple[str, ...]]) -> None:
        super().__init__()
        self._secrets = secrets

    def text_of(self, record: logging.LogRecord) -> str:
        text = one_line(record.getMessage())
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return self.clean(text)

    def clean(self, text: str) -> str:
        return redact(text, self._secrets())


class _Text(_Line):
    """``time level logger: message``."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.localtime(record.created)
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', moment)}.{int(record.msecs):03d}"
        zone = time.strftime("%z", moment)
        name = record.name.removeprefix("agentconnect.")
        return f"{stamp}{zone} {record.levelname.lower()} {name}: {self.text_of(record)}"


class _Json(_Line):
    """One JSON object a line: ``ts`` (s), ``level``, ``logger``, ``message`` and the facts."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "ts": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.text_of(record),
        }
        facts = getattr(record, "facts", None)
        if isinstance(facts, dict):
            for name, value in facts.items():
                plain = isinstance(value, int | float | bool) or value is None
                line[str(name)] = value if plain else self.clean(str(value))
        return msgspec.json.encode(line).decode()


class _Stderr(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:
        """A line that cannot be written is lost: the library would show it raw, as a traceback."""


def one_line(text: str) -> str:
    """What a terminal or a reader of lines would obey is shown escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def clean(text: str) -> str:
    """``text`` as a line of the log would show it: for what is said or written elsewhere."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, _Line):
            return handler.formatter.clean(text)
    return redact(text)


def configure(form: str, secrets: Callable[[], tuple[str, ...]] = tuple) -> None:
    """Send our log to stderr as ``text`` or ``json``; ``secrets`` are cut out of every line."""
    # no line of ours shows them, and they are looked up for each
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = _Stderr(sys.stderr)
    handler.setFormatter(_Json(secrets) if form == "json" else _Text(secrets))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("agentconnect").setLevel(logging.INFO)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.CRITICAL)
