"""Matrix: requests and what the answers mean (channel-delivery.md §15.2, measured on Synapse)."""

import re
from collections.abc import Mapping
from urllib.parse import quote

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

CUT_BYTES = 32_000
CONTENT_BYTES = 60_000
"""Synapse takes events of 64,000 bytes, not of 65,000."""

_SERVER = r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
_ROOM = re.compile(r"![^\s\x00-\x20\x7f]{1,254}")
_ALIAS = re.compile(rf"#[^\s:\x00-\x20\x7f]{{1,250}}:{_SERVER}")
_USER = re.compile(rf"@[^\s:\x00-\x20\x7f]{{1,250}}:{_SERVER}")


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """One bot on one homeserver."""

    homeserver: str
    token: str
    msgtype: str = "m.text"

    def __repr__(self) -> str:
        return "Matrix()"

    def checked(self, target: Target) -> Target:
        """Raises: DeliveryError for an id that no target of this type has."""
        forms = (_USER,) if target.type == "user" else (_ROOM, _ALIAS)
        if not any(form.fullmatch(target.id) for form in forms):
            raise bad_target("the id is no Matrix id of this type")
        return target

    def whoami(self) -> Ask:
        return self._get("account/whoami")

    def resolve(self, alias: str) -> Ask:
        return self._get(f"directory/room/{_segment(alias)}")

    def encryption(self, room: str) -> Ask:
        return self._get(f"rooms/{_segment(room)}/state/m.room.encryption")

    def member(self, room: str, user: str) -> Ask:
        return self._get(f"rooms/{_segment(room)}/state/m.room.member/{_segment(user)}")

    def direct(self, me: str) -> Ask:
        return self._get(f"user/{_segment(me)}/account_data/m.direct")

    def remember_direct(self, me: str, rooms: Mapping[str, object]) -> Ask:
        path = f"user/{_segment(me)}/account_data/m.direct"
        return json_ask(self._url(path), rooms, bearer(self.token), "PUT")

    def create_direct(self, user: str) -> Ask:
        content = {"preset": "trusted_private_chat", "is_direct": True, "invite": [user]}
        return json_ask(self._url("createRoom"), content, bearer(self.token))

    def message(self, room: str, txn: str, text: str, html: str) -> Ask:
        """``html`` is left out where it is "" or the whole would be too large."""
        content: dict[str, str] = {"msgtype": self.msgtype, "body": text}
        if html:
            shown = {**content, "format": "org.matrix.custom.html", "formatted_body": html}
            content = shown if len(msgspec.json.encode(shown)) <= CONTENT_BYTES else content
        path = f"rooms/{_segment(room)}/send/m.room.message/{_segment(txn)}"
        return json_ask(self._url(path), content, bearer(self.token), "PUT")

    def _get(self, path: str) -> Ask:
        return Ask(method="GET", url=self._url(path), headers=bearer(self.token))

    def _url(self, path: str) -> str:
        return f"{self.homeserver.rstrip('/')}/_matrix/client/v3/{path}"


def txn(delivery_id: str, chunk: int) -> str:
    """The same one from the same device answers with the first event again."""
    return f"ag2-{delivery_id}-{chunk}"


def judge(reply: Reply, success: str = "event_id") -> Verdict:
    """What an answer means; ``success`` is the member that a good one has ("" for none)."""
    fields = reply.fields
    word = fields.get("errcode")
    if reply.status == 200:
        value = fields.get(success)
        if not success or (isinstance(value, str) and value):
            return DELIVERED
        return refused(reply, "transient", f"without {success}")
    if reply.status == 401:
        known = word in ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN")
        soft = fields.get("soft_logout") is True
        return refused(reply, "permanent" if known and not soft else "transient", word)
    if reply.status in (400, 403, 404, 413):
        return refused(reply, "permanent", word)
    return refused(reply, "transient", word)


def encrypted(reply: Reply) -> bool:
    """Whether a room is: then a plain text must not be sent. Raises: DeliveryError if unknown."""
    if reply.status == 404:
        return False
    if reply.status == 200:
        return True
    judge(reply, "").require()
    return False


def direct_rooms(reply: Reply) -> dict[str, list[str]]:
    """Whom each direct room is with, from the account's own data; empty before the first."""
    if reply.status != 404:
        judge(reply, "").require()
    return {
        user: [room for room in rooms if isinstance(room, str)]
        for user, rooms in reply.fields.items()
        if isinstance(rooms, list) and reply.status == 200
    }


def membership(reply: Reply) -> str:
    """``join``, ``invite``, …; "" where there is none, or it may not be known."""
    found = reply.fields.get("membership")
    return found if reply.status == 200 and isinstance(found, str) else ""


def _segment(text: str) -> str:
    return quote(text, safe="")
