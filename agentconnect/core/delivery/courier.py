"""One delivery from its request, or from where a run before left it, to its end.

A generator of ``effects``: the Trio shell and the simulation run the same one. First-seen is
committed before the first relay call, each part's outcome before the next part begins, and a part
is marked ``trying`` before its post leaves, so that a crash anywhere is known for what it was.
"""

from collections.abc import Generator
from typing import Any, TypeVar

import msgspec

from agentconnect.core.delivery import deciding, keys, ledger, posting
from agentconnect.core.delivery.answers import Retry, stored_answer
from agentconnect.core.delivery.deciding import Known, Unreadable
from agentconnect.core.delivery.effects import (
    Consult,
    Effect,
    Idle,
    Judge,
    Judged,
    PostFile,
    PostText,
    Recorded,
    Save,
    Scan,
    Tell,
    Wait,
    Withdraw,
    World,
)
from agentconnect.core.delivery.ledger import (
    Entry,
    Notice,
    Part,
    PartKind,
    PartState,
    Reason,
    with_part,
)
from agentconnect.core.delivery.posting import Meaning, Reply, Step

T = TypeVar("T")
Run = Generator[Effect, Any, T]

RECHECK_S = 60.0
"""How often the broker is probed while its keys are not trusted."""
STOPPING = "the worker is stopping; it goes on when it is started again"
UNTRUSTED = "the relay does not confirm that it keeps keys; asked again every minute"
CHANGED = "a file is not the one that was accepted"


class _GoneError(Exception):
    """No more can be done here: the entry is gone, or the store is and the worker stops."""


class _Pause(msgspec.Struct, frozen=True, kw_only=True):
    """A run that ends in Retry, and when the next one begins."""

    why: str
    wait_s: float = 0.0
    nudgeable: bool = True
    failed: bool = False
    """Counts towards the next wait."""
    stop: bool = False


class Courier:
    """The life of one recorded entry in this process, which may be a day: its text stays on disk.

    ``unsure``: the parts of which an attempt may have landed without our hearing of it.
    """

    def __init__(self, entry: Entry, world: World, unsure: set[int]) -> None:
        self.entry = entry = msgspec.structs.replace(entry, text=None)
        self._world = world
        self._unsure = unsure
        self._mono_start = world.mono_now()
        self._aged_start_s = self._wall_age_s()
        self._on_disk = entry
        self._judged = self._told_end = False

    def run(self) -> Run[None]:
        """To the end, and to the end of the notice; between runs it idles."""
        try:
            while self.entry.in_progress:
                pause = yield from self._once()
                if pause is not None:
                    yield from self._paused(pause)
                    if pause.stop:
                        return
            yield Tell(answer=stored_answer(self.entry))
            self._told_end = True
            yield from self._notify_room()
        except _GoneError:
            return

    # one run

    def _once(self) -> Run[_Pause | None]:
        """Post what can be posted. None: the entry has an end, or the loop has to look again."""
        while (index := self.entry.next_part()) is not None:
            held = yield from self._held_up()
            if held is not None:
                return held
            if not self.entry.in_progress:
                return None
            if not self._judged and not (yield from self._judge()):
                return None
            pause = yield from self._part(index)
            if pause is not None or not self.entry.in_progress:
                return pause
        return None

    def _held_up(self) -> Run[_Pause | None]:
        """What stands against a post now; past the deadline the entry ends."""
        circumstances = self._world.circumstances()
        if self._age_s() >= ledger.STOP_AFTER_S:
            yield from self._end(Reason.EXPIRED, "it could not be posted within 23 hours")
            return None
        if circumstances.stopping:
            return _Pause(why=STOPPING, wait_s=RECHECK_S, stop=True)
        if not circumstances.keyed:
            return _Pause(why=UNTRUSTED, wait_s=RECHECK_S, nudgeable=False)
        return None

    def _judge(self) -> Run[bool]:
        """Judge every file that is not posted yet; False: one is unfit, and that is the end."""
        indexes = [i for i in file_indexes(self.entry) if not _posted(self.entry.parts[i])]
        self._judged = True
        if not indexes:
            return True
        parts = tuple(self.entry.parts[i] for i in indexes)
        folder = self.entry.folder
        # accepted before anybody was listed, and never opened until now
        unseen = self._world.circumstances().guarded and not all(p.sha256 for p in parts)
        found: Judged = yield (
            Scan(folder=folder, text=None, parts=parts)
            if unseen
            else Judge(folder=folder, parts=parts)
        )
        unfit, at = found.unfit, found.at
        for place, (part, (size, sha256)) in enumerate(zip(parts, found.found, strict=False)):
            if part.sha256 and (part.size, part.sha256) != (size, sha256):
                unfit, at = CHANGED, place
                break
        if unfit:
            yield from self._unfit(indexes[at], unfit)
            return False
        self.entry = digested(self.entry, indexes, found.found)
        return True

    def _part(self, index: int) -> Run[_Pause | None]:
        """Post one part, several times if need be."""
        trying = with_part(self.entry, index, state=PartState.TRYING)
        if trying.parts != self._on_disk.parts and not (yield from self._save(trying)):
            return None
        attempt = 0
        while True:
            held = yield from self._held_up()  # again: time has passed since it was asked
            if held is not None or not self.entry.in_progress:
                return held
            reply: Reply | Unreadable = yield self._post(index)
            if isinstance(reply, Unreadable):
                if (yield from self._until_readable(reply.reason)) is None:
                    raise _GoneError
                return None
            found = posting.settled(posting.meaning(reply), unsure_before=index in self._unsure)
            if found.unsure:
                self._unsure.add(index)
            match found.step:
                case Step.POSTED | Step.UNECHOED:
                    return (yield from self._posted(index, reply, found))
                case Step.END:
                    reason = found.reason or Reason.REJECTED
                    yield from self._end(reason, f"{self._named(index)}: {found.why}")
                    return None
            wait_s = posting.wait_within_run_s(attempt, found.wait_s, self._world.unit())
            if wait_s is None:
                asked_s = posting.retry_after_s(self.entry.attempts, found.wait_s)
                return _Pause(
                    why=found.why, wait_s=asked_s, nudgeable=not found.wait_s, failed=True
                )
            attempt += 1
            yield Wait(seconds=min(wait_s, self._left_s(ledger.STOP_AFTER_S)))

    def _posted(self, index: int, reply: Reply, found: Meaning) -> Run[_Pause | None]:
        echoed = found.step is Step.POSTED
        if not echoed:
            yield Withdraw()
        self._unsure.discard(index)
        status = reply.echo if echoed else "unechoed"
        entry = with_part(
            self.entry, index, state=PartState.POSTED, event_id=reply.event_id, status=status
        )
        following = entry.next_part()
        if following is None:
            entry = ledger.ended(entry, self._world.wall_now())
        elif echoed:
            entry = with_part(entry, following, state=PartState.TRYING)
        saved = yield from self._save(entry)
        if saved and not echoed and following is not None:
            return _Pause(why=UNTRUSTED, wait_s=RECHECK_S, nudgeable=False)
        return None

    def _post(self, index: int) -> PostText | PostFile:
        entry, part = self.entry, self.entry.parts[index]
        key = keys.key_of(entry, index)
        if part.kind is PartKind.TEXT:
            return PostText(room=entry.room, key=key, id=entry.id)
        return PostFile(room=entry.room, key=key, folder=entry.folder, part=part)

    # between runs

    def _paused(self, pause: _Pause) -> Run[None]:
        """Record the Retry, say it, idle."""
        counted = msgspec.structs.replace(
            self._known_states(self.entry), attempts=self.entry.attempts + pause.failed
        )
        changed = (counted.parts, counted.attempts) != (
            self._on_disk.parts,
            self._on_disk.attempts,
        )
        if changed and not (yield from self._save(counted)):
            return  # told already
        self.entry = counted
        yield Tell(
            answer=Retry(
                retry_after_s=pause.wait_s, reason=pause.why, expires_at=self.entry.expires_at
            )
        )
        if not pause.stop:
            left_s = self._left_s(ledger.STOP_AFTER_S)
            yield Idle(seconds=min(pause.wait_s, left_s), nudgeable=pause.nudgeable)

    def _notify_room(self) -> Run[None]:
        attempt = 0
        while self.entry.notice is Notice.OWED:
            if self._age_s() >= ledger.NOTICE_UNTIL_S:
                yield from self._settle_notice(Notice.GIVEN_UP)
                continue
            circumstances = self._world.circumstances()
            if circumstances.stopping:
                return
            if not circumstances.keyed:
                yield Idle(seconds=min(RECHECK_S, self._left_s(ledger.NOTICE_UNTIL_S)))
                continue
            reply: Reply = yield PostText(
                room=self.entry.room,
                key=keys.key_of(self.entry, keys.NOTICE),
                id=self.entry.id,
                text=self._notice_text(),
            )
            found = posting.meaning(reply)
            if found.step is Step.AGAIN:
                wait_s = posting.wait_within_run_s(attempt, found.wait_s, self._world.unit())
                runs = max(0, attempt - len(posting.WITHIN_RUN_S))
                wait_s = wait_s or posting.retry_after_s(runs, found.wait_s)
                attempt += 1
                yield Idle(
                    seconds=min(wait_s, self._left_s(ledger.NOTICE_UNTIL_S)), nudgeable=False
                )
                continue
            if found.step is Step.UNECHOED:
                yield Withdraw()
            lost = found.step is Step.END
            yield from self._settle_notice(Notice.GIVEN_UP if lost else Notice.POSTED)

    def _settle_notice(self, notice: Notice) -> Run[None]:
        yield from self._save(msgspec.structs.replace(self.entry, notice=notice))

    def _notice_text(self) -> str:
        parts = [part for part in self.entry.parts if not _posted(part)]
        unsure = self.entry.reason is Reason.UNKNOWN or self.entry.unsure
        return posting.notice_text([part.name for part in parts], unsure=unsure)

    # ends, and the record

    def _unfit(self, index: int, why: str) -> Run[None]:
        yield from self._end(Reason.REJECTED, f"{self._named(index)}: {why}")

    def _end(self, reason: Reason, detail: str) -> Run[None]:
        entry = self._known_states(self.entry)
        if reason in (Reason.EXPIRED, Reason.REJECTED) and entry.unsure:
            reason = Reason.UNKNOWN
        yield from self._save(ledger.ended(entry, self._world.wall_now(), reason, detail))

    def _save(self, entry: Entry) -> Run[bool]:
        """Commit; where that fails, wait until it can be done, and return False: look again.

        Raises: _GoneError.
        """
        self.entry = entry = msgspec.structs.replace(entry, aged_s=self._age_s())
        clean = True
        while True:
            recorded: Recorded | Unreadable = yield Save(entry=entry)
            if isinstance(recorded, Recorded):
                self._on_disk = entry
                return clean
            clean = False
            if (yield from self._until_readable(recorded.reason)) is None:
                raise _GoneError

    def _until_readable(self, why: str) -> Run[Entry | None]:
        while True:
            if not self._told_end:
                yield Tell(
                    answer=Retry(retry_after_s=deciding.UNREADABLE_S, reason=why, expires_at=None)
                )
            if self._world.circumstances().stopping:
                raise _GoneError  # the next start finds the part marked as being tried
            yield Idle(seconds=deciding.UNREADABLE_S)
            known: Known | Unreadable = yield Consult(id=self.entry.id, binding=self.entry.binding)
            if isinstance(known, Known):
                return known.entry
            why = known.reason

    # small things

    def _known_states(self, entry: Entry) -> Entry:
        """``trying`` only where an attempt may really have landed."""
        for index, part in enumerate(entry.parts):
            if not _posted(part):
                state = PartState.TRYING if index in self._unsure else PartState.WAITING
                entry = with_part(entry, index, state=state)
        return entry

    def _wall_age_s(self) -> float:
        return max(0.0, self._world.wall_now() - self.entry.first_seen, self.entry.aged_s)

    def _age_s(self) -> float:
        """By the wall clock, but never less than what this process has seen pass."""
        seen_s = self._aged_start_s + self._world.mono_now() - self._mono_start
        return max(self._wall_age_s(), seen_s)

    def _left_s(self, until_s: float) -> float:
        return max(0.0, until_s - self._age_s())

    def _named(self, index: int) -> str:
        return f"part {index} ({self.entry.parts[index].name or 'the text'})"


def _posted(part: Part) -> bool:
    return part.state is PartState.POSTED


def file_indexes(entry: Entry) -> list[int]:
    return [i for i, part in enumerate(entry.parts) if part.kind is PartKind.FILE]


def digested(entry: Entry, indexes: list[int], found: tuple[tuple[int, str], ...]) -> Entry:
    for index, (size, sha256) in zip(indexes, found, strict=False):
        entry = with_part(entry, index, size=size, sha256=sha256)
    return entry
