"""One delivery, effect by effect: what is recorded before what leaves."""

import gc
import random
import weakref
from collections.abc import Generator
from typing import Any

import msgspec
import pytest

from agentconnect.core.delivery import intake
from agentconnect.core.delivery.answers import Delivered, Final, Retry
from agentconnect.core.delivery.bindings import Binding
from agentconnect.core.delivery.deciding import Known, Unreadable
from agentconnect.core.delivery.effects import (
    Begin,
    Consult,
    Effect,
    Full,
    Idle,
    Judge,
    Judged,
    PostFile,
    PostText,
    Recorded,
    Save,
    Scan,
    Stale,
    Tell,
    Wait,
    Withdraw,
)
from agentconnect.core.delivery.keys import NOTICE, part_key
from agentconnect.core.delivery.ledger import Entry, Notice, PartState, Reason, with_part
from agentconnect.core.delivery.posting import Reply
from agentconnect.core.task import Tier
from tests.core.delivery.entries import BINDING, WORKER, entry, request
from tests.core.delivery.machine.world import ModelWorld

HOUR_S = 3600.0
GOOD = Reply(status=200, event_id="$e", echo="created")
BUSY = Reply(status=503)
LOST = Reply()


def world(**changes: Any) -> ModelWorld:
    """A healthy one without collaborators."""
    return ModelWorld(random.Random(1), listed=frozenset(), **changes)


def known(found: Entry | None = None) -> Known:
    binding = Binding(
        id=BINDING,
        room="!r:h",
        tier=Tier.OWNER,
        created=0.0,
        last_turn=0.0,
        expires=1e12,
        folder=BINDING,
    )
    return Known(worker_id=WORKER, entry=found, binding=binding)


class Play:
    """Feeds a run; ``replies`` are what the relay says in turn, the last one for ever."""

    def __init__(
        self, run: Generator[Effect, Any, None], now: ModelWorld, *replies: Reply, **answers: Any
    ) -> None:
        self.run, self.now = run, now
        self.replies = list(replies) or [GOOD]
        self.answers = answers
        self.seen: list[Effect] = []

    def to_end(self, until: type[Any] | None = None) -> list[Effect]:
        """All effects up to the end, or up to the first of a kind."""
        reply: Any = None
        while True:
            try:
                effect = self.run.send(reply)
            except StopIteration:
                return self.seen
            self.seen.append(effect)
            if until is not None and isinstance(effect, until):
                return self.seen
            reply = self._reply(effect)

    def _reply(self, effect: Effect) -> Any:
        match effect:
            case Consult():
                return self.answers.get("consult", known())
            case Begin():
                return self.answers.get("begin", Recorded())
            case Save():
                return Recorded()
            case Judge() | Scan():
                found = tuple((1, f"sha{p.name}") for p in effect.parts)
                return self.answers.get("judged", Judged(found=found))
            case PostText() | PostFile():
                return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
            case Wait() | Idle():
                self.now.real += effect.seconds
        return None

    def kinds(self) -> list[str]:
        return [type(effect).__name__ for effect in self.seen]

    def of(self, kind: type[Any]) -> list[Any]:
        return [effect for effect in self.seen if isinstance(effect, kind)]

    def told(self) -> list[Any]:
        return [effect.answer for effect in self.of(Tell)]

    def end(self) -> Entry:
        saved: Entry = self.of(Save)[-1].entry
        return saved


def play(*replies: Reply, files: int = 0, text: str | None = "done", **answers: Any) -> Play:
    now = world()
    return Play(intake.deliver(request(files=files, text=text), now), now, *replies, **answers)


def resumed(found: Entry, *replies: Reply, now: ModelWorld | None = None, **answers: Any) -> Play:
    now = now or world()
    found = msgspec.structs.replace(found, first_seen=now.wall_now())
    return Play(intake.resume(found, now), now, *replies, consult=known(found), **answers)


def test_a_text_takes_two_commits() -> None:
    """First-seen, already marked as being tried; then its outcome."""
    run = play()
    run.to_end()
    assert ["Consult", "Begin", "PostText", "Save", "Tell"] == run.kinds()
    begun = run.of(Begin)[0].entry
    assert (PartState.TRYING, "done") == (begun.parts[0].state, begun.text)
    assert isinstance(run.told()[0], Delivered)
    assert run.end().text is None
    assert part_key(WORKER, "x", 0) == run.of(PostText)[0].key


def test_files_go_first_and_each_outcome_is_recorded_before_the_next_part() -> None:
    """And every file is judged before the first post."""
    run = play(files=2)
    run.to_end()
    assert [
        *("Consult", "Begin", "Judge", "Save"),
        *("PostFile", "Save", "PostFile", "Save", "PostText", "Save", "Tell"),
    ] == run.kinds()
    states = [[p.state.value for p in save.entry.parts] for save in run.of(Save)]
    assert [
        ["trying", "waiting", "waiting"],
        ["posted", "trying", "waiting"],
        ["posted", "posted", "trying"],
        ["posted", "posted", "posted"],
    ] == states
    assert [0, 1, 2] == [p.part for p in run.told()[0].delivered]
    assert [part_key(WORKER, "x", n) for n in range(3)] == [
        post.key for post in run.seen if isinstance(post, PostText | PostFile)
    ]


def test_a_bad_file_ends_it_with_nothing_posted() -> None:
    """Final ``rejected``, recorded, and no line in the room."""
    run = play(files=2, judged=Judged(found=((1, "sha0"),), unfit="it is a folder", at=1))
    run.to_end()
    (told,) = run.told()
    assert (Reason.REJECTED, ()) == (told.reason, told.delivered)
    assert "part 1" in told.detail
    assert not run.of(PostFile)
    assert Notice.NONE is run.end().notice


@pytest.mark.parametrize(
    ("begin", "kind"), [(Unreadable(), Retry), (Full(), Retry), (Stale(), Final)]
)
def test_nothing_is_posted_without_first_seen(begin: Any, kind: type[Any]) -> None:
    """A failed commit, a full ledger, a binding dropped meanwhile."""
    run = play(begin=begin)
    run.to_end()
    assert ["Consult", "Begin", "Tell"] == run.kinds()
    assert isinstance(run.told()[0], kind)
    assert run.told()[0].expires_at is None


def test_three_retries_then_the_agent_is_told() -> None:
    """Waits of about 1, 4 and 15 s, Retry with 30 s, and it goes on by itself after that."""
    run = play(BUSY)
    run.to_end(until=Idle)
    assert 4 == len(run.of(PostText))
    bounds = [(0.8, 1.2), (3.2, 4.8), (12, 18)]
    for wait, (low, high) in zip(run.of(Wait), bounds, strict=True):
        assert low <= wait.seconds <= high
    (told,) = run.told()
    assert isinstance(told, Retry)
    assert (30.0, 1_000_000.0 + 23 * HOUR_S) == (told.retry_after_s, told.expires_at)
    assert PartState.WAITING is run.end().parts[0].state
    assert (30.0, True) == (run.of(Idle)[0].seconds, run.of(Idle)[0].nudgeable)


def test_a_broker_that_stays_away_ends_in_expired() -> None:
    """At 23 hours, with a line owed in the room; at 24 hours that is given up too."""
    run = play(BUSY)
    run.to_end()
    last = run.told()[-1]
    assert (Final, Reason.EXPIRED) == (type(last), last.reason)
    waits = [told.retry_after_s for told in run.told()[:-1]]
    assert [30, 60, 120, 240, 480, 900] == waits[:6]
    assert {900} == set(waits[6:])
    parts = [post for post in run.of(PostText) if post.key == part_key(WORKER, "x", 0)]
    notices = [post for post in run.of(PostText) if post.key == part_key(WORKER, "x", NOTICE)]
    assert len(parts) + len(notices) == len(run.of(PostText))
    assert notices
    assert Notice.GIVEN_UP is run.end().notice
    assert "could not be sent" in notices[0].text


@pytest.mark.parametrize(
    "said", [LOST, Reply(status=409, state="running"), Reply(status=502), Reply(status=200)]
)
def test_what_may_have_been_posted_ends_in_unknown(said: Reply) -> None:
    """A lost response, or “running” to the last; a later 503 does not make it unsaid."""
    run = play(said, BUSY)
    run.to_end()
    assert Reason.UNKNOWN is run.told()[-1].reason
    assert "may not have been sent" in run.of(PostText)[-1].text


def test_a_refusal_after_a_lost_response_is_unknown() -> None:
    """The refusal says nothing of the attempt before it."""
    run = play(LOST, Reply(status=403), GOOD)
    run.to_end()
    assert Reason.UNKNOWN is run.told()[0].reason
    assert Notice.POSTED is run.end().notice


def test_a_refusal_after_a_posted_part_is_told_in_the_room() -> None:
    """Under the key of the notice, and once."""
    run = play(GOOD, Reply(status=413), GOOD, files=1)
    run.to_end()
    (told,) = run.told()
    assert (Reason.REJECTED, 1) == (told.reason, len(told.delivered))
    assert part_key(WORKER, "x", NOTICE) == run.of(PostText)[-1].key
    assert "the text could not be sent" in run.of(PostText)[-1].text
    owed, settled = (save.entry.notice for save in run.of(Save)[-2:])
    assert (Notice.OWED, Notice.POSTED) == (owed, settled)


def test_an_unechoed_last_part_is_delivered() -> None:
    """It did post; the declaration is withdrawn."""
    run = play(Reply(status=200, event_id="$e"))
    run.to_end()
    assert ["Consult", "Begin", "PostText", "Withdraw", "Save", "Tell"] == run.kinds()
    assert "unechoed" == run.told()[0].delivered[0].status


def test_after_an_unechoed_part_the_others_wait_for_a_probe() -> None:
    """Retry, no post while keys are not trusted, and on with the next part after that."""
    run = play(Reply(status=200, event_id="$e"), GOOD, files=1)
    run.to_end(until=Withdraw)
    run.now.keyed = False
    run.to_end(until=Idle)
    assert isinstance(run.told()[0], Retry)
    assert not run.of(Idle)[0].nudgeable
    assert not run.of(PostText)
    assert ["posted", "waiting"] == [part.state.value for part in run.end().parts]
    run.now.keyed = True
    run.to_end()
    assert ["unechoed", "created"] == [part.status for part in run.told()[-1].delivered]


def test_a_cooldown_of_ours_is_waited_for() -> None:
    """Nothing was sent: Retry after it, and no sooner, whatever the agent does."""
    run = play(Reply(sent=False, cooling_s=300.0))
    run.to_end(until=Idle)
    assert 300.0 == run.told()[0].retry_after_s
    assert (300.0, False) == (run.of(Idle)[0].seconds, run.of(Idle)[0].nudgeable)
    assert 1 == len(run.of(PostText))


def test_a_restart_goes_on_under_the_stored_worker_id() -> None:
    """With the parts that are missing; a part that was being tried is posted again."""
    found = with_part(entry(files=1), 0, state=PartState.POSTED, event_id="$0", status="created")
    found = msgspec.structs.replace(with_part(found, 1, state=PartState.TRYING), worker_id="0" * 32)
    run = resumed(found)
    run.to_end()
    assert ["PostText", "Save", "Tell"] == run.kinds()
    assert part_key("0" * 32, "x", 1) == run.of(PostText)[0].key


@pytest.mark.parametrize(
    ("state", "reason"), [(PartState.WAITING, Reason.REJECTED), (PartState.TRYING, Reason.UNKNOWN)]
)
def test_a_file_that_changed_since_it_was_accepted(state: PartState, reason: Reason) -> None:
    """``rejected``, or ``unknown`` where it may have been posted."""
    found = with_part(entry(files=1), 0, state=state, size=1, sha256="other")
    run = resumed(found)
    run.to_end()
    assert reason is run.told()[0].reason
    assert not run.of(PostFile)


def test_an_owed_notice_is_posted_after_a_restart() -> None:
    """And nothing else is."""
    half = msgspec.structs.replace(
        entry(), outcome="final", reason=Reason.EXPIRED, notice=Notice.OWED, finished_at=1.0
    )
    run = resumed(msgspec.convert(msgspec.to_builtins(half), Entry))
    run.to_end()
    assert [part_key(WORKER, "x", NOTICE)] == [post.key for post in run.of(PostText)]
    assert Notice.POSTED is run.end().notice


def test_a_worker_that_stops_leaves_the_rest_for_the_next_start() -> None:
    """Retry for whoever waits, the state on disk, and no end."""
    run = play(GOOD, files=1)
    run.to_end(until=PostFile)
    run.now.stopping = True
    run.seen.pop()
    reply: Any = GOOD
    while True:
        try:
            effect = run.run.send(reply)
        except StopIteration:
            break
        run.seen.append(effect)
        reply = run._reply(effect)
    assert isinstance(run.told()[-1], Retry)
    assert ["posted", "waiting"] == [part.state.value for part in run.end().parts]
    assert run.end().in_progress


def test_the_guard_comes_before_first_seen() -> None:
    """A hit is Final ``rejected`` and leaves nothing; else its digests bind the files."""
    now = ModelWorld(random.Random(1))
    held = Play(intake.deliver(request(), now), now, judged=Judged(unfit="a secret"))
    held.to_end()
    assert ["Consult", "Scan", "Tell"] == held.kinds()
    assert Reason.REJECTED is held.told()[0].reason
    now = ModelWorld(random.Random(1))
    run = Play(intake.deliver(request(files=1), now), now)
    run.to_end()
    assert ["Consult", "Scan", "Begin", "Judge"] == run.kinds()[:4]
    assert run.of(Begin)[0].entry.parts[0].sha256.startswith("sha")
    assert ("done",) == tuple(scan.text for scan in run.of(Scan))


def test_a_file_that_changes_between_guard_and_post_goes_nowhere() -> None:
    """What was scanned is what may be posted."""
    now = ModelWorld(random.Random(1))
    run = Play(intake.deliver(request(files=1), now), now)
    run.to_end(until=Begin)
    run.answers["judged"] = Judged(found=((1, "swapped"),))
    run.answers["begin"] = Recorded()
    reply: Any = Recorded()
    while not run.told():
        effect = run.run.send(reply)
        run.seen.append(effect)
        reply = run._reply(effect)
    assert Reason.REJECTED is run.told()[0].reason
    assert not run.of(PostFile)


def test_a_file_that_nobody_has_seen_yet_is_scanned_after_a_restart() -> None:
    """Accepted while nobody was listed, killed before it was judged, and now somebody is."""
    now = ModelWorld(random.Random(1))
    run = resumed(entry(files=1), now=now, judged=Judged(unfit="a secret"))
    run.to_end()
    assert ["Scan", "Save", "Tell"] == run.kinds()
    assert Reason.REJECTED is run.told()[0].reason
    judged = with_part(entry(files=1), 0, size=1, sha256="shaf0")
    run = resumed(judged, now=ModelWorld(random.Random(1)))
    run.to_end()
    assert ["Judge", "Save", "PostFile"] == run.kinds()[:3]


def test_a_failed_record_stops_everything_until_the_store_is_back() -> None:
    """Retry without ``expires_at``; then the outcome is written and told, with no second post."""
    run = play()
    run.to_end(until=Save)
    reply: Any = Unreadable()
    effects = []
    for _ in range(3):
        effects.append(run.run.send(reply))
        reply = None
    assert ["Tell", "Idle", "Consult"] == [type(effect).__name__ for effect in effects]
    assert isinstance(effects[0], Tell)
    assert effects[0].answer.expires_at is None
    run.seen += [run.run.send(known(entry()))]
    reply = Recorded()
    tell = run.run.send(reply)
    assert isinstance(tell, Tell)
    assert isinstance(tell.answer, Delivered)
    assert 1 == len(run.of(PostText))


def test_a_worker_that_stops_does_not_wait_for_its_store() -> None:
    """Whoever asked is told Retry; the mark on disk says that the part may have been posted."""
    run = play()
    run.to_end(until=Save)
    run.now.stopping = True
    assert isinstance(run.run.send(Unreadable()), Tell)
    with pytest.raises(StopIteration):
        run.run.send(None)


def test_an_end_that_was_told_is_not_taken_back() -> None:
    """The store fails while the notice is posted: nobody is told Retry any more."""
    run = play(GOOD, Reply(status=413), GOOD, files=1)
    run.to_end(until=Tell)
    run.to_end(until=Save)
    effects = [run.run.send(Unreadable()), run.run.send(None)]
    assert ["Idle", "Consult"] == [type(effect).__name__ for effect in effects]


def test_a_store_that_comes_back_without_the_entry_ends_the_run() -> None:
    """Nothing is posted, and nothing is made anew."""
    run = play(files=1)
    run.to_end(until=Save)
    run.run.send(Unreadable())
    run.run.send(None)
    run.run.send(None)
    with pytest.raises(StopIteration):
        run.run.send(known(None))


@pytest.mark.parametrize("step_s", [-5 * HOUR_S, -24 * HOUR_S])
def test_a_clock_set_back_buys_no_time(step_s: float) -> None:
    """In this process time is what has passed; 23 hours stay 23 hours."""
    run = play(BUSY)
    run.to_end(until=Idle)
    began = 1_000_000.0
    run.now.step_s = step_s
    run.to_end()
    last = max(save.entry.finished_at or 0.0 for save in run.of(Save)) - step_s
    assert last - began <= 23 * HOUR_S + 1


def test_a_clock_set_forward_expires() -> None:
    """Deadlines are wall time, since they have to survive restarts."""
    run = play(BUSY)
    run.to_end(until=Idle)
    run.now.step_s = 23 * HOUR_S
    run.to_end()
    assert Reason.EXPIRED is run.told()[-1].reason


def test_a_first_seen_in_the_future_counts_as_now() -> None:
    """Less the age that the entry surely has."""
    now = world()
    found = msgspec.structs.replace(entry(), first_seen=now.real + 9e6, aged_s=22 * HOUR_S)
    run = Play(intake.resume(found, now), now, BUSY)
    run.to_end(until=Idle)
    assert now.real + HOUR_S - run.told()[0].expires_at == pytest.approx(
        sum(wait.seconds for wait in run.of(Wait))
    )


def test_nothing_is_posted_while_keys_are_not_trusted() -> None:
    """Of a known delivery either: a repeat would be a second message."""
    run = resumed(entry(), now=world(keyed=False))
    run.to_end(until=Idle)
    assert not run.of(PostText)
    assert isinstance(run.told()[0], Retry)


class Large(str):
    """A text that says when nobody holds it any more."""


@pytest.mark.parametrize("known_before", [True, False], ids=["resent", "new"])
def test_a_delivery_that_waits_holds_no_text(known_before: bool) -> None:
    """It may wait for a day, and ten thousand may: their texts are on disk alone."""
    text = Large("done")
    gone = weakref.ref(text)
    now = world()
    asked = request(text=text)
    answers: dict[str, Any] = {}
    if known_before:
        found = msgspec.structs.replace(
            entry("x", first_seen=now.wall_now()), fingerprint=asked.fingerprint, text=text
        )
        answers["consult"] = known(found)
        del found
    run = Play(intake.deliver(asked, now), now, Reply(status=429, retry_after_s=600), **answers)
    del text, asked, answers
    run.to_end(until=Idle)
    assert [None] == [post.text for post in run.of(PostText)]
    run.seen.clear()
    run.answers.clear()
    gc.collect()
    assert gone() is None


def test_a_text_that_cannot_be_read_is_not_posted_as_another() -> None:
    """The store broke between first-seen and the post: Retry, and the text goes out later."""
    broken: Any = Unreadable(reason="it broke")
    run = resumed(entry("x"), broken, broken, GOOD)
    run.to_end(until=Idle)
    assert [("it broke", None)] == [(told.reason, told.expires_at) for told in run.told()]
    run.to_end()
    assert isinstance(run.told()[-1], Delivered)
