"""Cases of the task envelope: :mod:`agentconnect.core.relay.envelope`."""

from agentconnect.core.relay import envelope
from tests.support.cases.case import Given, by_op

_FIELDS = [
    "id",
    "body",
    "room_id",
    "user_id",
    "access_tier",
    "requested_access_tier",
    "collaborator",
    "sensitive_data_filter",
    "priority",
    "timestamp",
    "room_name",
    "sender_name",
    "reply_to_event",
    "reply_to_me",
    "source_message_id",
    "attempt",
    "metadata_stripped",
]


def _parse_task(given: Given) -> object:
    task = envelope.parse_task(given["raw"])
    return None if task is None else {name: getattr(task, name) for name in _FIELDS}


def _strip_meta(given: Given) -> object:
    body, stripped, _ = envelope.strip_metadata(given["body"])
    return {"body": body, "stripped": stripped}


cases = by_op(
    {
        "parse_task": _parse_task,
        "strip_meta": _strip_meta,
        "wire_id": lambda given: envelope.is_wire_id(given["id"]),
        "error_code": lambda given: envelope.error_code(given["reason"]),
        "presence": lambda given: envelope.presence_text(given["value"]),
        "not_leased": lambda given: envelope.is_not_leased(given["body"]),
        "event_id": lambda given: envelope.event_id_of(given["answer"]),
        "room_id": lambda given: envelope.is_room_id(given["room"]),
        "mentions": lambda given: envelope.valid_mentions(given["mentions"]),
        "filename": lambda given: envelope.upload_filename(given["name"]),
    }
)
