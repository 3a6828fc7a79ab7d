"""The host callback: from a submission to its one result (§9.2, §10, §12, §13).

Consume first, then blank, then the worker: :func:`decide` gives a result at once or the one attempt
to make; :func:`attempted` names what came of it. The shell carries the attempt out and publishes
``result.event_data()``. Who makes attempts logs them; a result without one is logged by
``result.log_line()``. A failure to publish or log changes nothing.
"""

from enum import StrEnum
from typing import Any

import msgspec

from agentconnect.core.daemon.authorizations import Authorizations
from agentconnect.core.daemon.refusals import delivery_code
from agentconnect.core.daemon.reverse import Submission, correlation
from agentconnect.core.daemon.target import Target
from agentconnect.core.daemon.text import cut
from agentconnect.core.destination import PUBLIC_TEXT, Code, blank


class Status(StrEnum):
    """How a delivery ended; a turn that was never eligible has no result at all."""

    DELIVERED = "delivered"
    SKIPPED = "skipped"
    FAILED = "failed"


class WorkerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is asked: the channel's name has left the target. Never blank, never longer."""

    delivery_id: str
    channel_name: str
    target_type: str
    target_id: str
    text: str

    def __repr__(self) -> str:
        return f"WorkerRequest({self.delivery_id!r}, {self.channel_name!r})"

    def as_object(self) -> dict[str, Any]:
        """The ``request`` member of the message to the worker."""
        return {
            "deliveryId": self.delivery_id,
            "channelName": self.channel_name,
            "target": {"type": self.target_type, "id": self.target_id},
            "text": self.text,
        }


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What one submission came to; ``code`` is None unless it failed."""

    submission: Submission
    status: Status
    code: Code | None = None

    def event_data(self) -> dict[str, Any]:
        """``data`` of the ``channel_delivery_result`` event, with exactly the members of §12."""
        of = self.submission
        data: dict[str, Any] = {
            "sessionId": of.session_id,
            "deliveryId": of.delivery_id,
            "source": of.source.value,
            "status": self.status.value,
        }
        if self.code:
            data |= {"code": self.code.value, "error": PUBLIC_TEXT[self.code]}
        return data | correlation(of)

    def log_line(self, duration_ms: int) -> str:
        """The one line of the log; a diagnostic, if there is one, goes behind it."""
        of = self.submission
        return log_line(
            self.status,
            delivery_id=of.delivery_id,
            source=of.source.value,
            channel_name=of.target.channel_name,
            code=self.code or "",
            duration_ms=duration_ms,
        )


def log_line(
    status: Status,
    *,
    delivery_id: str,
    source: str,
    channel_name: str,
    code: str,
    duration_ms: int,
) -> str:
    """What may be said of an attempt (§13): no text, no target, no secret."""
    return (
        f"channel delivery {status.value} deliveryId={delivery_id} source={source}"
        f" channelName={channel_name!r} code={code or '-'} ms={duration_ms}"
    )


def worker_request(delivery_id: str, target: Target, text: str) -> WorkerRequest:
    """The public target turned into the worker's, at the trust boundary; the text is cut."""
    return WorkerRequest(
        delivery_id=delivery_id,
        channel_name=target.channel_name,
        target_type=target.type.value,
        target_id=target.id,
        text=cut(text),
    )


def decide(
    authorizations: Authorizations, workspace: str, submission: Submission
) -> Result | WorkerRequest:
    """Steps 1 and 2: refused, skipped, or the attempt to make. The authorization is gone then."""
    if not authorizations.consume(workspace, submission):
        return Result(submission=submission, status=Status.FAILED, code=Code.INVALID)
    if blank(submission.text):
        return Result(submission=submission, status=Status.SKIPPED)
    return worker_request(submission.delivery_id, submission.target, submission.text)


def attempted(submission: Submission, code: str | None) -> Result:
    """Step 4: ``code`` is None where the send returned; one that we do not know is a failure."""
    if code is None:
        return Result(submission=submission, status=Status.DELIVERED)
    return Result(submission=submission, status=Status.FAILED, code=delivery_code(code))
