"""What the texts of single one-shot agents mean: a harness in front of a message, NDJSON answers,
ollama's address (worker.md §3, §7.1). Linear in the length of the text.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from agentconnect.core.errors import SettingsError
from agentconnect.core.turns import wording_cli as wording
from agentconnect.core.turns.oneshot import uncoloured

HARNESSES = frozenset(
    (
        "claude",
        "codex",
        "copilot",
        "cursor",
        "gemini",
        "goose",
        "hermes",
        "kimi",
        "opencode",
        "pi",
        "qwen",
    )
)
"""What may stand in brackets alone; any other word there is part of the message."""

_PREFIX = re.compile(
    r"[ \t\r\n]{0,50}\[[ \t]{0,50}(?P<form>harness[ \t]{0,50}:[ \t]{0,50})?"
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9_-]{0,99})[ \t]{0,50}\][ \t\r\n]*(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_CLINE_PREFIX = "Submission recorded (verified):"
_CODEX_ERROR = re.compile(r"^ERROR\b", re.MULTILINE)
_DEFAULT_PORT = 11434
_UNSPECIFIED = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - not bound
_HOST_PORT = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^:\[\]/@\s]*)(?::(?P<port>[0-9]{1,5}))?")


def harness_of(message: str) -> tuple[str, str]:
    """The harness that a message asks for ("" for none), and the message without that."""
    match = _PREFIX.match(message)
    if match is None or not match["rest"].strip():
        return "", message
    if match["form"]:
        return match["name"], match["rest"]
    name = match["name"].lower()
    return (name, match["rest"]) if name in HARNESSES else ("", message)


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    """The lines that are JSON objects, the last one first."""
    for line in reversed(text.split("\n")):
        if line.lstrip()[:1] != "{":
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found


def cline_answer(out: str) -> tuple[str, bool]:
    """The text of the last ``run_result``, and whether cline calls that an error.

    Without one: all of the output, without colours.
    """
    for found in _objects(out):
        text = found.get("text")
        if found.get("type") == "run_result" and isinstance(text, str) and text.strip():
            said = text.strip().removeprefix(_CLINE_PREFIX).strip()
            return said, found.get("finishReason") == "error"
    return uncoloured(out).strip(), False


def kilo_answer(out: str) -> str:
    """The last text of the agent in the events of ``kilo run --format json``; "" without one."""
    for found in _objects(out):
        text = _assistant_text(found)
        if text.strip():
            return text.strip()
    return ""


def _assistant_text(event: Mapping[str, Any]) -> str:
    """The text of one event, in the shapes that are known; "" for everything else."""
    part = event.get("part")
    if event.get("type") == "text" and isinstance(part, dict):
        text = part.get("text")
    elif event.get("type") in ("text", "assistant") or event.get("role") == "assistant":
        text = event.get("text") or event.get("content")
    else:
        text = None
    return text if isinstance(text, str) else ""


def codex_errors(err: str, prompt: str) -> str:
    """What codex logged, from its first error on: before it stand a banner and the prompt."""
    log = err.replace(prompt, "…")
    found = _CODEX_ERROR.search(log)
    return log[found.start() :] if found else log


def without_thoughts(text: str) -> str:
    """A local model's answer without the thinking that it may begin with."""
    text = text.strip()
    if text.startswith("<think>"):
        thoughts, _, rest = text.partition("</think>")
        return rest.strip() or thoughts.removeprefix("<think>").strip()
    return text


def ollama_base(text: str) -> str:
    """The server's address as ollama itself reads it, without a slash at the end.

    Raises: SettingsError when it is none.
    """
    raw = text.strip().strip("\"'")
    scheme, mark, rest = raw.partition("://")
    if not mark:
        scheme, rest = "http", raw
    scheme = scheme.lower()
    place, _, path = rest.partition("/")
    user, at, host_port = place.rpartition("@")
    if host_port.count(":") > 1 and not host_port.startswith("["):
        host_port = f"[{host_port}]"  # a bare IPv6 address
    match = _HOST_PORT.fullmatch(host_port)
    if scheme not in ("http", "https") or match is None or re.search(r"[\s?#]", raw):
        raise SettingsError(wording.bad_ollama_host(text))
    host = match["host"].strip("[]")
    host = _UNSPECIFIED.get(host, host)
    port = match["port"] or ("" if mark else str(_DEFAULT_PORT))
    if port and int(port) > 65535:
        raise SettingsError(wording.bad_ollama_host(text))
    shown = f"[{host}]" if ":" in host else host
    path = path.rstrip("/")
    base = f"{scheme}://{user}{at}{shown}" + (f":{port}" if port else "")
    return f"{base}/{path}" if path else base


def shown_address(base: str) -> str:
    """An address as it may be shown: without a user's name and password."""
    parts = urlsplit(base)
    return base.replace(f"{parts.netloc}", parts.netloc.rpartition("@")[2], 1)


def model_present(wanted: str, known: tuple[str, ...]) -> bool:
    """Whether a server has the model; a name without a tag means ``:latest``."""
    full = wanted if ":" in wanted.rpartition("/")[2] else f"{wanted}:latest"
    return full in known or wanted in known
