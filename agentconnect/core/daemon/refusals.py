"""What the daemon's API answers instead of success: status, code and fixed text as data.

channel-delivery.md §2.2, §5, §6, §7.1, §11. The texts depend on the code alone; none repeats
a value that came from outside.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from agentconnect.core.destination import PUBLIC_TEXT, Code


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """One refused request. ``code`` is "" for the answers given before a route is looked up.

    ``also`` are further members of the body, ``headers`` further headers of the answer.
    """

    status: int
    error: str
    code: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    also: tuple[tuple[str, str | int], ...] = ()

    def body(self) -> bytes:
        """The JSON text of the answer."""
        value: dict[str, Any] = {"error": self.error}
        if self.code:
            value["code"] = self.code
        return msgspec.json.encode(value | dict(self.also))


DELIVERY_STATUS: Mapping[Code, int] = {
    Code.INVALID: 400,
    Code.UNAVAILABLE: 503,
    Code.QUEUE_FULL: 503,
    Code.TIMEOUT: 504,
    Code.REJECTED: 502,
    Code.FAILED: 502,
}
"""Notify's HTTP status of each code (§11)."""


def delivery_code(code: object) -> Code:
    """``code`` if it is one of the six, else ``channel_delivery_failed``."""
    try:
        return Code(code)  # type: ignore[arg-type] # whatever it is
    except ValueError:
        return Code.FAILED


def delivery_refusal(code: object) -> Refusal:
    """Notify's answer to a delivery that did not succeed."""
    known = delivery_code(code)
    return Refusal(status=DELIVERY_STATUS[known], error=PUBLIC_TEXT[known], code=known.value)


def field_refusal(code: str, error: str) -> Refusal:
    """A 400 of the field checks; ``error`` may name the field, never its value."""
    return Refusal(status=400, error=error, code=code)


BAD_HOST = Refusal(status=403, error="Invalid Host header")
BAD_ORIGIN = Refusal(
    status=403, error="Request denied by CORS policy", headers=(("Vary", "Origin"),)
)
UNAUTHORIZED = Refusal(status=401, error="Unauthorized")
WEBHOOK_UNAUTHORIZED = Refusal(status=401, error="Invalid webhook secret")
TOO_LARGE = Refusal(status=413, error="The request body is too large.", code="payload_too_large")
NOT_FOUND = Refusal(status=404, error="There is no such route.", code="not_found")
BAD_MEDIA_TYPE = Refusal(
    status=415, error="The body must be application/json.", code="unsupported_media_type"
)
BAD_JSON = Refusal(status=400, error="Invalid JSON in request body", code="invalid_json")
UNTRUSTED = Refusal(status=403, error="This workspace is not trusted.", code="untrusted_workspace")
RUNTIME_UNAVAILABLE = Refusal(
    status=503,
    error="This workspace cannot run sessions now.",
    code="workspace_runtime_unavailable",
    headers=(("Retry-After", "1"),),
)
PROMPT_QUEUE_FULL = Refusal(
    status=503,
    error="Too many prompts are waiting in this session.",
    code="prompt_queue_full",
    headers=(("Retry-After", "5"),),
)
TASK_NOT_FOUND = Refusal(status=404, error="There is no such task.", code="task_not_found")
TOO_MANY_TASKS = Refusal(
    status=409, error="This workspace has as many tasks as it may.", code="max_tasks_reached"
)
EMPTY_PATCH = field_refusal("empty_patch", "Name at least one field to change.")
TASKS_UNREADABLE = Refusal(
    status=500,
    error="The scheduled tasks cannot be read.",
    code="scheduled_tasks_read_failed",
)
TASKS_UNWRITABLE = Refusal(
    status=500,
    error="The scheduled tasks cannot be written.",
    code="scheduled_tasks_write_failed",
)
TASK_SESSION_FAILED = Refusal(
    status=500,
    error="No session could be opened for this task.",
    code="scheduled_tasks_session_failed",
)


def wrong_method(allowed: tuple[str, ...]) -> Refusal:
    """405 for a known path; ``allowed`` are its methods."""
    return Refusal(
        status=405,
        error="This route does not take that method.",
        code="method_not_allowed",
        headers=(("Allow", ", ".join(allowed)),),
    )


def session_not_found(session_id: str) -> Refusal:
    """404 that repeats the id the caller named."""
    return Refusal(
        status=404,
        error="There is no such session.",
        code="session_not_found",
        also=(("sessionId", session_id),),
    )


def workspace_mismatch(count: int | None = None) -> Refusal:
    """400; ``count`` of the registered workspaces, never one of their paths."""
    return Refusal(
        status=400,
        error="No workspace of that id or path is registered.",
        code="workspace_mismatch",
        also=() if count is None else (("workspaceCount", count),),
    )
