"""What must hold in every history (§15.3), judged at the moment at which it could break.

Independent of the code under test wherever that matters: keys are computed here a second time.
"""

import hashlib
import json
from dataclasses import dataclass, field

from agentconnect.core.delivery.answers import Answer, Delivered, Retry, stored_answer
from agentconnect.core.delivery.effects import Begin, PostFile, PostText
from agentconnect.core.delivery.ledger import Entry, PartState, Reason
from agentconnect.core.delivery.request import DeliverRequest
from tests.core.delivery.machine.broker import Event
from tests.core.delivery.machine.store import Disk

DAY_S = 86_400.0


class Violation(AssertionError):
    """A history in which something that must hold did not."""


@dataclass
class Sent:
    """An id as the agent first sent it, and all that the room and the agent saw of it."""

    request: DeliverRequest
    room: str = ""
    folder: str = ""
    begun_at: float | None = None
    """Real time of first-seen on disk, of the record that is there now."""
    worker_id: str = ""
    events: dict[int | str, list[Event]] = field(default_factory=dict)
    digests: dict[int, str] = field(default_factory=dict)
    end: Answer | None = None
    ended_at: float = 0.0


class Checks:
    """Called by the simulation at each step that the world outside could see."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.sent: dict[str, Sent] = {}
        self.stepped_back = self.stepped_on = False

    def need(self, holds: bool, sentence: str) -> None:
        if not holds:
            raise Violation(sentence)

    def begins(
        self, effect: Begin, sent: Sent, real: float, *, allowed: bool, scanned: bool
    ) -> None:
        """First-seen was committed, for what is in ``sent`` now."""
        before = self.sent[effect.entry.id]
        self.need(allowed, "a new delivery was taken under a binding that is not in force")
        self.need(scanned, "a new delivery was taken without the guard while it is on")
        self.need(effect.entry.room == sent.room, "an entry names another room than its binding")
        young = before.end is not None and real - before.ended_at < DAY_S
        self.need(not young or self.stepped_on, "an ended delivery was forgotten within 24 h")
        lost = before.begun_at is not None and before.end is None
        self.need(not lost, "a delivery in progress was forgotten")
        sent.events = before.events
        sent.begun_at, sent.worker_id, sent.end = real, effect.entry.worker_id, None
        self.sent[effect.entry.id] = sent

    def posting(self, delivery_id: str, post: PostText | PostFile, real: float) -> int | str:
        """A post is about to leave: → which part it is."""
        sent = self.sent[delivery_id]
        entry = self.disk.entries.get(delivery_id)
        self.need(entry is not None, "a post left before first-seen was on disk")
        assert entry is not None
        self.need(post.room == sent.room, "a post went to another room than the binding's")
        part = self._part(entry, post)
        if part == "notice":
            self.need(not entry.in_progress, "a notice was posted before the end was on disk")
            self._truthful(sent, entry, post)
        else:
            assert isinstance(part, int)
            self._in_turn(sent, entry, part, post)
        limit = DAY_S if part == "notice" else DAY_S - 3600 + 1
        if not self.stepped_back and sent.begun_at is not None:
            self.need(real - sent.begun_at <= limit, f"part {part} was posted too late")
        return part

    def landed(self, delivery_id: str, part: int | str, event: Event, real: float) -> None:
        """The broker made a room event of it."""
        before = self.sent[delivery_id].events.setdefault(part, [])
        # a relay that stops keeping keys between two probes, with a response lost on either side
        # of it: no worker can know of that post (a stated limit)
        keyed = [e for e in before if e.keyed and event.keyed]
        again = [e for e in keyed if real - e.at < DAY_S]
        self.need(not again, f"part {part} of {delivery_id} was posted twice within 24 h")
        before.append(event)

    def told(self, request: DeliverRequest, answer: Answer, real: float, *, readable: bool) -> None:
        """An answer went to the agent, for this request (which may be a changed resend)."""
        sent = self.sent[request.id]
        if not readable:
            fail_closed = isinstance(answer, Retry) and answer.expires_at is None
            self.need(fail_closed, "something was answered out of a store that cannot be read")
        if request.fingerprint != sent.request.fingerprint:
            recorded = sent.begun_at is not None and isinstance(answer, Delivered)
            self.need(not recorded, "a request was answered with the end of another one")
            return
        if isinstance(answer, Delivered):
            count = len(request.files) + request.speaks
            self.need(
                [p.part for p in answer.delivered] == list(range(count))
                and all(sent.events.get(n) for n in range(count)),
                "Delivered was answered without all parts",
            )
        if isinstance(answer, Retry):
            self.need(answer.retry_after_s > 0, "a Retry that says at once")
            young = sent.end is not None and real - sent.ended_at < DAY_S
            self.need(
                not (young and readable) or self.stepped_on, "an ended delivery was answered Retry"
            )
            return
        if answer.expires_at is None and sent.begun_at is not None:  # out of no record
            old = sent.end is not None and real - sent.ended_at >= DAY_S
            self.need(old or self.stepped_on, "a recorded id was answered by its binding")
            sent.begun_at, sent.end = None, None
        elif sent.begun_at is not None:
            self.need(answer == sent.end, "an ended delivery was answered in another way")

    def saved(self, entry: Entry, real: float, wall_now: float) -> None:
        """An entry's state was committed, perhaps long after its end: the store was unreadable."""
        sent = self.sent[entry.id]
        for index, part in enumerate(entry.parts):
            same = sent.digests.setdefault(index, part.sha256) in ("", part.sha256)
            self.need(same, "a file was taken for the one that was accepted, and is another")
            sent.digests[index] = part.sha256
        if not entry.in_progress and sent.end is None:
            since_s = max(0.0, wall_now - (entry.finished_at or wall_now))
            sent.end, sent.ended_at = stored_answer(entry), real - since_s
            unheard = self._unheard(sent, entry)
            nothing = entry.reason in (Reason.REJECTED, Reason.EXPIRED)
            self.need(
                not (nothing and unheard), "a part is in the room, and its end says that it is not"
            )

    def lost(self) -> None:
        """The database was deleted, and the worker restarted: documented to lose its record."""
        for sent in self.sent.values():
            sent.begun_at, sent.end, sent.worker_id = None, None, ""

    def at_the_end(self) -> None:
        """Long after everything: each record has its end, and keeps no text."""
        for entry in self.disk.entries.values():
            self.need(not entry.in_progress, "an accepted delivery never reached an end")
            self.need(entry.notice != "owed", "a notice is owed for ever")
            self.need(entry.text is None, "the text was kept after the end")

    def _part(self, entry: Entry, post: PostText | PostFile) -> int | str:
        worker_id = self.sent[entry.id].worker_id
        parts: list[int | str] = [*range(len(entry.parts)), "notice"]
        for part in parts:
            plain = json.dumps(
                [worker_id, entry.id, part], ensure_ascii=False, separators=(",", ":")
            )
            if hashlib.sha256(plain.encode()).hexdigest() == post.key:
                return part
        raise Violation("a key is not that of worker id, id and part alone")

    def _in_turn(self, sent: Sent, entry: Entry, part: int, post: PostText | PostFile) -> None:
        self.need(entry.in_progress, "a part was posted after the end")
        states = [p.state for p in entry.parts]
        self.need(
            all(state is PartState.POSTED for state in states[:part]),
            "a part began before the outcome of the one before was on disk",
        )
        self.need(states[part] is PartState.TRYING, "a post left that the record knows nothing of")
        if isinstance(post, PostFile):
            mine = post.part.uri.startswith(f"file:///export/{sent.folder}/")
            self.need(post.folder == sent.folder and mine, "a file of another binding was posted")

    def _truthful(self, sent: Sent, entry: Entry, post: PostText | PostFile) -> None:
        """“Could not be sent” is not said of what is in the room."""
        assert isinstance(post, PostText)
        self.need(
            not self._unheard(sent, entry) or "may not have been sent" in (post.text or ""),
            "the room was told that something could not be sent, and it is there",
        )

    def _unheard(self, sent: Sent, entry: Entry) -> list[int]:
        """Parts that are in the room without our record saying so."""
        return [
            n
            for n, part in enumerate(entry.parts)
            if part.state is not PartState.POSTED
            and any(event.at >= (sent.begun_at or 0.0) for event in sent.events.get(n, ()))
        ]
