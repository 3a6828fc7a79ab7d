"""The task envelope: from the broker's wire object to a :class:`Task` (relay-wire.md §3, §4).

Owns every field rule, the id and room grammars, and the small readings of other answers. Parsed
once here; no raw object and no unstripped body goes further. Never raises on any input; an
unknown word becomes the safest value.
"""

import json
import re
from collections.abc import Mapping

import msgspec

from agentconnect.core.relay import wirejson
from agentconnect.core.relay.media import (
    STRIP_PASSES,
    has_media,
    read_media,
    remove_blocks,
    split_extension,
)
from agentconnect.core.relay.wirejson import DeepArray
from agentconnect.core.repeating import repeats
from agentconnect.core.surrogates import replace_surrogates
from agentconnect.core.task import MediaMarker, PlatformCard, Task, TaskId

MAX_BODY_CHARS = 65_536
MAX_TEXT_CHARS = 256
MAX_TIER_CHARS = 64
MAX_MENTIONS = 10
MAX_MEMBERS = 64
MAX_PRESENCE_CHARS = 500
INVALID_TASK_SCHEMA = "INVALID_TASK_SCHEMA"

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LINE_BREAK = re.compile("[\r\n]")
_WIRE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ROOM_ID = re.compile(r"[!#][^\s/\x00-\x1f\x7f]{1,254}")
_HOST_END = r"(?:\[[0-9A-Fa-f:.]+\]|{name})(?::[0-9]{{1,5}})?"  # a server may have a port
_USER_ID = re.compile(r"@[^\s:@]+:" + _HOST_END.format(name=r"[^\s:@/]+"))
_MEMBER = re.compile(r"(?<![\w.\-])@[^\s:@,]+:" + _HOST_END.format(name=r"[^\s:@/,;()]+"))
_META_TAG = re.compile(r"\[room-ops metadata:", re.I)
_NOT_CODE = re.compile(r"[^A-Za-z0-9]")
_NOT_NAME = re.compile(r"[^A-Za-z0-9._-]")
_EXTENSION = re.compile(r"[A-Za-z0-9]{1,16}")
_SMALL_NUMBER = re.compile(r"[0-9]{1,6}")
_ANSWER_WORDS = ("error", "detail", "message", "reason", "title")
_CARD_KEYS = ("card_url", "card_sha256", "sig", "key_id", "alg")
_ESCAPED_NAME = (b"\\u005", b"\\u006", b"\\u007")  # may spell a letter or `_` of a member's name
_AMBIGUOUS_IF_TWICE = (  # a task that says one of these twice is granted nothing (★14)
    "access_tier",
    "user_id",
    "channel_id",
    "id",
    "requested_access_tier",
    "collaborator",
    "sensitive_data_filter",
)


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """A poll's answer. ``anomaly``: it held no list of tasks; ``malformed``: it was no JSON.

    ``rejects`` are ids to reject as INVALID_TASK_SCHEMA; ``unusable`` counts items that cannot
    even be rejected by name.
    """

    tasks: tuple[Task, ...] = ()
    rejects: tuple[str, ...] = ()
    unusable: int = 0
    anomaly: bool = False
    malformed: bool = False


class _Answer(msgspec.Struct):
    tasks: list[msgspec.Raw]


def decode_batch(body: bytes) -> Batch:
    """Read the answer to ``GET /v1/tasks``; one bad item never costs the others (§1.3, §7)."""
    try:
        items = [_raw_item(bytes(raw)) for raw in msgspec.json.decode(body, type=_Answer).tasks]
    except (ValueError, RecursionError):
        document = wirejson.decode_text(body.decode("utf-8-sig", "replace"))
        listed = _listed(document.value)
        if listed is None:
            return Batch(anomaly=True, malformed=document.malformed)
        items = listed
    tasks: list[Task] = []
    rejects: list[str] = []
    unusable = 0
    for item in items:
        task = parse_task(item)
        name = item.get("id") if isinstance(item, Mapping) else None
        if task is not None:
            tasks.append(task)
        elif isinstance(name, str) and 1 <= len(name) <= MAX_TEXT_CHARS:
            rejects.append(replace_surrogates(name))
        else:
            unusable += 1
    return Batch(tasks=tuple(tasks), rejects=tuple(rejects), unusable=unusable)


def parse_task(raw: object) -> Task | None:
    """One wire object as a Task by the table of §4.1; None if it cannot be one."""
    if not isinstance(raw, Mapping):
        return None
    task_id = raw.get("id")
    if not isinstance(task_id, str) or not is_wire_id(task_id):
        return None
    clear = not repeats(raw).intersection(_AMBIGUOUS_IF_TWICE)
    body = read_body(raw.get("task"))
    return Task(
        id=TaskId(task_id),
        body=body.text,
        body_cut=body.cut,
        metadata_stripped=body.metadata_stripped,
        media=body.media,
        room_id=_text(raw.get("channel_id")),
        user_id=_text(raw.get("user_id")),
        access_tier=_tier(raw.get("access_tier")) if clear else "",
        requested_access_tier=_tier(raw.get("requested_access_tier")) if clear else "",
        collaborator=clear and raw.get("collaborator") is True,
        sensitive_data_filter=not clear or raw.get("sensitive_data_filter") is not False,
        priority=_priority(raw.get("priority")),
        timestamp=_text(raw.get("timestamp")),
        room_name=_text(raw.get("room_name")),
        sender_name=_text(raw.get("sender_name")),
        reply_to_event=_text(raw.get("reply_to_event")),
        reply_to_me=raw.get("reply_to_me") is True,
        source_message_id=_text(raw.get("source_message_id") or raw.get("source_event_id")),
        attempt=_count(raw.get("attempt")),
        lease_id=_lease_id(raw.get("lease_id")),
        reply_to_sender=_text(raw.get("reply_to_sender")),
        addressed_to=_text(raw.get("addressed_to")),
        session_scope=_text(raw.get("session_scope")),
        source=_text(raw.get("source")),
        interaction_type=_text(raw.get("interaction_type")),
        thread_root=_text(raw.get("thread_root")),
        source_room_id=_text(raw.get("source_room_id")),
        room_member_count=_count(raw.get("room_member_count")),
        room_members=_members(raw.get("room_members")),
        platform_card=_card(raw.get("platform_card")),
    )


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """A task's text with nothing in it that a consumer must not see."""

    text: str = ""
    cut: bool = False
    metadata_stripped: bool = False
    media: tuple[MediaMarker, ...] = ()


def read_body(value: object) -> Body:
    """Clean, read and strip media markers, strip metadata, and only then cut (§4.1, ★23, ★24).

    Stripping one kind of block can re-form the other, so both repeat until neither is found.
    """
    if not isinstance(value, str):
        return Body()
    first = read_media(_CONTROL.sub("", replace_surrogates(value)))
    text, stripped, spent = first.body, False, first.overflow
    for _ in range(STRIP_PASSES):
        text, found, restless = strip_metadata(text)
        stripped = stripped or found
        spent = spent or restless
        if spent or not has_media(text):
            break
        again = read_media(text)
        text, spent = again.body, again.overflow
    else:
        spent = True
    if spent:  # never came to rest: nothing of it is shown and nothing fetched
        return Body(metadata_stripped=True)
    return Body(
        text=text[:MAX_BODY_CHARS],
        cut=len(text) > MAX_BODY_CHARS,
        metadata_stripped=stripped,
        media=first.markers,
    )


def strip_metadata(body: str) -> tuple[str, bool, bool]:
    """The body without ``[room-ops metadata: …]`` blocks (§4.4), and whether there were any.

    Third: whether it never came to rest and was dropped.
    """
    if not _META_TAG.search(body):
        return body, False, False
    for _ in range(STRIP_PASSES):
        text = remove_blocks(body, _META_TAG)
        if text == body:
            return text.strip(), True, False
        body = text
    return "", True, True


def is_wire_id(value: object) -> bool:
    """Whether ``value`` can be a task id: it becomes a path piece and goes back on the wire."""
    return isinstance(value, str) and bool(_WIRE_ID.fullmatch(value)) and value not in (".", "..")


def is_room_id(value: object) -> bool:
    """Whether ``value`` is a room id or alias."""
    return isinstance(value, str) and bool(_ROOM_ID.fullmatch(value))


def is_user_id(value: object) -> bool:
    """Whether ``value`` is a full user id."""
    return isinstance(value, str) and bool(_USER_ID.fullmatch(value))


def error_code(reason: object) -> str:
    """A rejection's reason as a code of ASCII capitals, digits and underscores (§3.3)."""
    if not isinstance(reason, str):
        return INVALID_TASK_SCHEMA
    return _NOT_CODE.sub("_", reason[:64]).upper().strip("_") or INVALID_TASK_SCHEMA


def presence_text(value: object) -> str:
    """A heartbeat's ``status`` or ``step`` as one line; ``""``: leave the member out (§3.4)."""
    return _text(value, 4 * MAX_PRESENCE_CHARS).strip()[:MAX_PRESENCE_CHARS]


def is_not_leased(body: str) -> bool:
    """Whether a 404 on an ack says that this one lease is gone (§3.2)."""
    return _says(body, "not leased")


def event_id_of(answer: object) -> str:
    """The event id in a room op's answer, wherever the broker put it; ``""`` if nowhere (§3.6)."""
    waiting = [answer]
    while waiting:
        found = waiting.pop()
        if not isinstance(found, Mapping):
            continue
        for key in ("event_id", "eventId", "id"):
            value = found.get(key)
            if isinstance(value, str) and value:
                return value
        waiting += [found.get("data"), found.get("result")]
    return ""


def valid_mentions(value: object) -> tuple[str, ...]:
    """The full user ids among ``value``, at most ten; others are dropped (§3.6)."""
    if not isinstance(value, (list, tuple)):
        return ()
    return tuple(item for item in value if is_user_id(item))[:MAX_MENTIONS]


def upload_filename(name: object) -> str:
    """The file name sent with an upload; its extension decides the mime (§11.2)."""
    whole = name.rpartition("/")[2] if isinstance(name, str) else ""
    stem, extension = split_extension(whole)
    if not _EXTENSION.fullmatch(extension):
        stem, extension = whole, ""
    stem = _NOT_NAME.sub("_", stem).lstrip(".")[:100] or "file"
    return f"{stem}.{extension}" if extension else stem


def _raw_item(raw: bytes) -> object:
    try:
        item: object = msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        return _text_item(raw.decode("utf-8", "replace"))
    if isinstance(item, dict) and _may_repeat(raw):
        return _text_item(raw.decode("utf-8", "replace"))
    return item


def _may_repeat(raw: bytes) -> bool:
    """Whether a member that matters may stand twice: msgspec silently keeps the last."""
    return any(escape in raw for escape in _ESCAPED_NAME) or any(
        raw.count(b'"%s"' % name.encode()) > 1 for name in _AMBIGUOUS_IF_TWICE
    )


def _text_item(text: str) -> object:
    return wirejson.decode_text(text).value


def _listed(value: object) -> list[object] | None:
    """The ``tasks`` list of an answer read leniently."""
    if not isinstance(value, Mapping):
        return None
    tasks = value.get("tasks")
    if isinstance(tasks, list):
        return tasks
    if isinstance(tasks, DeepArray):
        parts = wirejson.elements(tasks)
        return None if parts is None else [_text_item(part) for part in parts]
    return None


def _text(value: object, limit: int = MAX_TEXT_CHARS) -> str:
    if not isinstance(value, str):
        return ""
    return _CONTROL.sub("", _LINE_BREAK.sub(" ", replace_surrogates(value)))[:limit]


def _tier(value: object) -> str:
    """The word verbatim; a value that cleaning had to change says nothing (★14)."""
    return value if isinstance(value, str) and _text(value, MAX_TIER_CHARS) == value else ""


def _priority(value: object) -> str:
    return value if isinstance(value, str) and value in ("urgent", "normal", "low") else "normal"


def _count(value: object) -> int:
    if isinstance(value, str) and _SMALL_NUMBER.fullmatch(value):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1_000_000:
        return value
    return 0


def _lease_id(value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT_CHARS:
        return ""
    return value if replace_surrogates(value) == value else ""


def _members(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        found = [match.group().rstrip(".") for match in _MEMBER.finditer(value)]
    elif isinstance(value, list):
        found = [item for item in value if isinstance(item, str)]
    else:
        return ()
    members = [item for item in dict.fromkeys(found) if is_user_id(item)]
    return tuple(_text(item) for item in members[:MAX_MEMBERS] if len(item) <= MAX_TEXT_CHARS)


def _card(value: object) -> PlatformCard | None:
    if not isinstance(value, Mapping) or set(value) != set(_CARD_KEYS):
        return None
    words = {key: _text(value[key], 4096) for key in _CARD_KEYS}
    return PlatformCard(**words) if all(word.strip() for word in words.values()) else None


def _says(body: object, words: str) -> bool:
    if not isinstance(body, str):
        return False
    if words in body.lower():
        return True
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if not isinstance(answer, dict):
        return False
    told = [answer.get(key) for key in _ANSWER_WORDS]
    return any(isinstance(text, str) and words in text.lower() for text in told)
