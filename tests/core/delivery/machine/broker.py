"""A relay with keyed posts as §11 has them, and every way in which a post of ours can go wrong."""

import hashlib
import random
from dataclasses import dataclass, field

from agentconnect.core.delivery.effects import PostFile, PostText
from agentconnect.core.delivery.posting import Reply

LIFE_S = 86_400.0
LEASE_S = 60.0


@dataclass
class Claim:
    """A key: ``running`` until its lease ends, then what became of it."""

    digest: str
    since: float
    state: str = "running"
    event_id: str = ""


@dataclass
class Event:
    """One message in a room."""

    at: float
    room: str
    key: str
    body: str
    event_id: str
    keyed: bool = True


@dataclass
class Broker:
    """``mood``: healthy, flaky, down or keyless (it ignores keys, and echoes nothing)."""

    rng: random.Random
    mood: str = "healthy"
    events: list[Event] = field(default_factory=list)
    claims: dict[str, Claim] = field(default_factory=dict)
    closed_rooms: set[str] = field(default_factory=set)

    def post(self, post: PostText | PostFile, now: float) -> tuple[Reply, Event | None]:
        """What the worker is told, and the room event it made, if it did."""
        trouble = self._trouble()
        if trouble == "refused":
            return Reply(sent=False), None
        if trouble == "cooling":
            return Reply(sent=False, cooling_s=self.rng.choice([2.0, 300.0])), None
        if trouble in ("429", "503", "401", "408"):
            wait_s = self.rng.choice([0.0, 5.0, 60.0]) if trouble == "429" else 0.0
            return Reply(status=int(trouble), retry_after_s=wait_s), None
        if trouble == "lost on the way":
            return Reply(), None
        if post.room in self.closed_rooms:
            return Reply(status=self.rng.choice([403, 404])), None
        if self.mood == "keyless":
            event = self._say(post, now)
            event.keyed = False
            return Reply(status=200, event_id=event.event_id), event
        reply, made = self._keyed(post, now, dies=trouble == "dies")
        if trouble == "lost on the way back":
            return Reply(status=self.rng.choice([None, 502, 504, 500, 200])), made
        return reply, made

    def _trouble(self) -> str:
        if self.mood == "down":
            return self.rng.choice(["refused", "503", "lost on the way"])
        if self.mood != "flaky" or self.rng.random() < 0.35:
            return ""
        return self.rng.choice(
            [
                "refused",
                "cooling",
                "429",
                "503",
                "401",
                "408",
                "lost on the way",
                "lost on the way back",
                "lost on the way back",
                "dies",
            ]
        )

    def _keyed(
        self, post: PostText | PostFile, now: float, *, dies: bool
    ) -> tuple[Reply, Event | None]:
        digest = hashlib.sha256(repr((type(post), post.room, _body(post))).encode()).hexdigest()
        claim = self.claims.get(post.key)
        if claim is not None and now - claim.since >= LIFE_S:
            claim = None
        if claim is None:
            claim = self.claims[post.key] = Claim(digest=digest, since=now)
            if dies and self.rng.random() < 0.5:
                return Reply(), None
            event = self._say(post, now)
            if dies:  # before it could note the outcome
                return Reply(), event
            claim.state, claim.event_id = "done", event.event_id
            return Reply(status=200, event_id=event.event_id, echo="created"), event
        if claim.digest != digest:
            return Reply(status=409, state="conflict"), None
        if claim.state == "done":
            return Reply(status=200, event_id=claim.event_id, echo="replayed"), None
        running = now - claim.since < LEASE_S
        return Reply(status=409, state="running" if running else "unknown"), None

    def _say(self, post: PostText | PostFile, now: float) -> Event:
        name = f"${len(self.events)}"
        event = Event(now, post.room, post.key, _body(post), name)
        self.events.append(event)
        return event


def _body(post: PostText | PostFile) -> str:
    return post.text or "" if isinstance(post, PostText) else f"{post.part.name}:{post.part.sha256}"
