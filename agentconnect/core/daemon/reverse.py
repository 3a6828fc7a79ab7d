"""The reverse control request: what a session submits when its turn ended well (§9).

In process it is a call with a value of ours, and is checked like foreign data all the same: a
bridge may run elsewhere one day.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec

from agentconnect.core.daemon.target import Target, is_name, read_target
from agentconnect.core.destination import MAX_TEXT_UNITS, units

_COMMON = {"sessionId", "deliveryId", "source", "target", "text"}
_KEYS = {
    "prompt": _COMMON | {"promptId"},
    "scheduled": _COMMON | {"taskId", "firedAt"},
}


class Source(StrEnum):
    """What the turn was started by."""

    PROMPT = "prompt"
    SCHEDULED = "scheduled"


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A checked request. ``prompt_id`` is "" for a scheduled one, ``task_id`` for a prompt's."""

    session_id: str
    delivery_id: str
    source: Source
    target: Target
    text: str = ""
    prompt_id: str = ""
    task_id: str = ""
    fired_at: int = 0

    def __repr__(self) -> str:
        return f"Submission({self.session_id!r}, {self.delivery_id!r}, {self.target!r})"

    @property
    def consistent(self) -> bool:
        """Whether the delivery id is the one that the rest of the request stands for."""
        if self.source is Source.PROMPT:
            return self.delivery_id == self.prompt_id
        return self.delivery_id == scheduled_id(self.task_id, self.fired_at)

    def params(self) -> dict[str, Any]:
        """The request as it would be on a wire."""
        value: dict[str, Any] = {
            "sessionId": self.session_id,
            "deliveryId": self.delivery_id,
            "source": self.source.value,
            "target": self.target.as_target(),
            "text": self.text,
        }
        return value | correlation(self)


def of_prompt(prompt_id: str) -> dict[str, Any]:
    """What ties an event to its prompt (§12)."""
    return {"promptId": prompt_id}


def of_fire(task_id: str, fired_at: int) -> dict[str, Any]:
    """What ties an event to the fire of a scheduled task (§12)."""
    return {"taskId": task_id, "firedAt": fired_at}


def correlation(submission: Submission) -> dict[str, Any]:
    """What ties a result to its turn: the members of its source and no other."""
    if submission.source is Source.PROMPT:
        return of_prompt(submission.prompt_id)
    return of_fire(submission.task_id, submission.fired_at)


def scheduled_id(task_id: str, fired_at: int) -> str:
    """The delivery id of one fire; ``fired_at`` in whole milliseconds."""
    return f"{task_id}:{fired_at}"


def prompt_submission(session_id: str, prompt_id: str, target: Target, text: str) -> Submission:
    """What the session of a prompt submits."""
    return Submission(
        session_id=session_id,
        delivery_id=prompt_id,
        source=Source.PROMPT,
        target=target,
        text=text,
        prompt_id=prompt_id,
    )


def scheduled_submission(
    session_id: str, task_id: str, fired_at: int, target: Target, text: str
) -> Submission:
    """What the session of a scheduled task's fire submits."""
    return Submission(
        session_id=session_id,
        delivery_id=scheduled_id(task_id, fired_at),
        source=Source.SCHEDULED,
        target=target,
        text=text,
        task_id=task_id,
        fired_at=fired_at,
    )


def read_submission(params: object, owns: Callable[[str], bool]) -> Submission | None:
    """The request, checked in the order of §9; None: invalid params, the host is not called.

    ``owns`` says whether a session belongs to the bridge that the request came through.
    """
    if not isinstance(params, dict):
        return None
    session_id, source, text = params.get("sessionId"), params.get("source"), params.get("text")
    if not isinstance(session_id, str) or not session_id or not owns(session_id):
        return None
    delivery_id = params.get("deliveryId")
    if not isinstance(delivery_id, str) or not is_name(delivery_id):
        return None
    if not isinstance(source, str) or source not in _KEYS:
        return None
    if not isinstance(text, str) or units(text) > MAX_TEXT_UNITS:
        return None
    target = read_target(params.get("target"))
    if target is None or params.keys() != _KEYS[source]:
        return None
    found = Submission(
        session_id=session_id,
        delivery_id=delivery_id,
        source=Source(source),
        target=target,
        text=text,
        prompt_id=_text(params, "promptId"),
        task_id=_text(params, "taskId"),
        fired_at=_fired_at(params.get("firedAt")),
    )
    if found.source is Source.SCHEDULED and (not is_name(found.task_id) or found.fired_at <= 0):
        return None
    return found if found.consistent else None


def _text(params: dict[str, Any], key: str) -> str:
    found = params.get(key)
    return found if isinstance(found, str) else ""


def _fired_at(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
