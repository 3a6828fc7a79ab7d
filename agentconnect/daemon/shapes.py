"""The bodies of the API as types: what its OpenAPI document says of them.

What is accepted is decided by ``core/daemon``, stricter than a schema can say; a test holds the two
together.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType


class TargetShape(msgspec.Struct, forbid_unknown_fields=True):
    """One explicit place."""

    channelName: str
    type: Literal["user", "chat"]
    id: str


class DeliveryShape(msgspec.Struct, forbid_unknown_fields=True):
    """Where a final answer or a text is sent."""

    kind: Literal["channel"]
    target: TargetShape


class NotifyBody(msgspec.Struct, forbid_unknown_fields=True):
    """A text and where it goes."""

    text: str
    delivery: DeliveryShape


class NotifyAnswer(msgspec.Struct):
    """The adapter's send returned; nobody knows more."""

    delivered: Literal[True]
    deliveryId: str


class SessionBody(msgspec.Struct):
    """``cwd``: id or path of a workspace; the primary one by default."""

    cwd: str | UnsetType | None = UNSET


class SessionAnswer(msgspec.Struct):
    """A session that is open."""

    sessionId: str
    workspaceCwd: str


class PromptBody(msgspec.Struct):
    """Content blocks for the agent; ``delivery`` never reaches it."""

    prompt: list[dict[str, Any]]
    delivery: DeliveryShape | UnsetType = UNSET


class PromptAnswer(msgspec.Struct):
    """It is queued; read events from after ``lastEventId``."""

    promptId: str
    lastEventId: int


class TaskBody(msgspec.Struct):
    """A new scheduled task."""

    cron: str
    prompt: str
    name: str | UnsetType = UNSET
    recurring: bool = True
    enabled: bool = True
    delivery: DeliveryShape | UnsetType = UNSET


class TaskPatchBody(msgspec.Struct):
    """At least one of the six; ``null`` clears the name or the delivery."""

    cron: str | UnsetType = UNSET
    prompt: str | UnsetType = UNSET
    name: str | UnsetType | None = UNSET
    recurring: bool | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    delivery: DeliveryShape | UnsetType | None = UNSET


class RunShape(msgspec.Struct):
    """What came of a slot."""

    at: int
    kind: Literal["scheduled", "catchup", "skipped"]


class OutcomeShape(msgspec.Struct):
    """What came of the newest fire, in sentences; ``delivery`` is "" where nothing is delivered."""

    at: int | None
    result: str
    delivery: str
    failed: bool


class TaskAnswer(msgspec.Struct):
    """A scheduled task. Times are milliseconds since 1970."""

    id: str
    name: str | None
    cron: str
    prompt: str
    recurring: bool
    enabled: bool
    createdAt: int
    lastFiredAt: int | None
    nextRunAt: int | None
    sessionId: str
    runs: list[RunShape]
    outcome: OutcomeShape | UnsetType = UNSET
    delivery: DeliveryShape | UnsetType = UNSET


class TasksAnswer(msgspec.Struct):
    """All tasks of a workspace."""

    v: Literal[1]
    tasks: list[TaskAnswer]


class RemovedAnswer(msgspec.Struct):
    """A task that is no more."""

    deleted: Literal[True]
    id: str


class FiredAnswer(msgspec.Struct):
    """A task was fired out of turn."""

    taskId: str
    firedAt: int


class WorkspaceShape(msgspec.Struct):
    """One registered workspace."""

    id: str
    cwd: str
    primary: bool
    trusted: bool


class LimitsShape(msgspec.Struct):
    """Bounds that a client meets."""

    maxPendingPromptsPerSession: int


class CapabilitiesAnswer(msgspec.Struct):
    """What the protocol offers, not how anything is."""

    v: Literal[1]
    features: list[str]
    workspaceCwd: str
    workspaces: list[WorkspaceShape]
    limits: LimitsShape


class HealthAnswer(msgspec.Struct):
    """It lives."""

    status: Literal["ok"]


class HookBody(msgspec.Struct):
    """An event from outside."""

    eventType: str
    targetRef: str
    title: str
    payload: Any = None


class HookAnswer(msgspec.Struct):
    """The turn is queued; nothing is delivered yet."""

    accepted: Literal[True]


class ErrorAnswer(msgspec.Struct):
    """Every refusal. ``code`` is missing where a check before the route failed."""

    error: str
    code: str | UnsetType = UNSET
    sessionId: str | UnsetType = UNSET
    workspaceCount: int | UnsetType = UNSET
