"""A room of the relay: one op, and what its answers mean (channel-delivery.md §15.7)."""

import msgspec

from agentconnect.core.channels.sending import (
    DELIVERED,
    Ask,
    Reply,
    Verdict,
    bad_target,
    bearer,
    json_ask,
    refused,
)
from agentconnect.core.destination import Target

CUT_CHARS = 12_000
_MAX_ID_CHARS = 512
_PERMANENT = frozenset((400, 401, 403, 404, 405, 413))


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """One identity at one relay."""

    base: str
    secret: str
    user_agent: str

    def __repr__(self) -> str:
        return "Room()"

    def message(self, room: str, text: str) -> Ask:
        content = {"op": "message", "room_id": room, "body": text}
        return json_ask(f"{self.base}/v1/room", content, self._headers())

    def capabilities(self) -> Ask:
        """A question that needs the token and changes nothing."""
        return Ask(method="GET", url=f"{self.base}/v1/capabilities", headers=self._headers())

    def _headers(self) -> dict[str, str]:
        return {**bearer(self.secret), "User-Agent": self.user_agent}


def checked(target: Target) -> Target:
    """Raises: DeliveryError for what is no room."""
    if target.type != "chat":
        raise bad_target("a room channel has no target of type user")
    if len(target.id) > _MAX_ID_CHARS or not target.id.isprintable():
        raise bad_target("the id is no room id")
    return target


def judge(reply: Reply) -> Verdict:
    if 200 <= reply.status < 300:
        fields = reply.fields
        event = fields.get("event_id")
        if fields.get("ok") is not False and isinstance(event, str) and event:
            return DELIVERED
        return refused(reply, "transient", "no_event_id")
    return refused(reply, "permanent" if reply.status in _PERMANENT else "transient")
