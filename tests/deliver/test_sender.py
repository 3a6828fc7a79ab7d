"""The sender's decisions: what is sent again, when, where, and what ends."""

import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentconnect.deliver import DELIVER, Outbox, Sender
from agentconnect.deliver.outbox import Claim
from agentconnect.deliver.sender import LOOK_ANYWAY_S, LOOK_LAST_S, Stop, Wait
from tests.deliver.support import BINDING, OTHER, Clock, claimed, delivered, final, retry, waits

assert DELIVER == "_ag2/deliver"


@pytest.fixture
def sender(outbox: Outbox, clock: Clock) -> Sender:
    """A sender on one connection."""
    return Sender(outbox, monotonic=clock)


def test_delivered_and_told(outbox: Outbox, sender: Sender) -> None:
    """Sent as it was stored, ended, told, done."""
    outbox.put("x", BINDING, "hello")
    claim = claimed(sender)
    assert {"id": "x", "binding": BINDING, "text": "hello"} == claim.params
    sender.succeeded(claim, delivered())
    end = claimed(sender)
    assert ("delivered", "$e0") == (end.entry.state, end.entry.delivered[0].event_id)
    sender.told(end)
    assert waits(sender)
    entry = outbox.get("x")
    assert entry is not None
    assert entry.told


@pytest.mark.parametrize("reason", ["unknown", "conflict", "rejected", "expired", "of tomorrow"])
def test_a_final_ends_it(outbox: Outbox, sender: Sender, reason: str) -> None:
    """A Final is never sent again, under no binding."""
    outbox.put("x", BINDING, "hello")
    sender.refused(claimed(sender), -32011, final(reason, binding=OTHER, detail="why"))
    end = claimed(sender)
    assert ("final", reason, "why", BINDING) == (
        end.entry.state, end.entry.reason, end.entry.detail, end.entry.binding,
    )  # fmt: skip
    sender.told(end)
    assert waits(sender)


def test_a_retry_is_sent_again_exactly(outbox: Outbox, sender: Sender, clock: Clock) -> None:
    """After the pause that was asked for, the same request goes out again, key for key."""
    outbox.put("x", BINDING, "hello", ["file:///a"])
    first = claimed(sender)
    sender.refused(first, -32010, retry(90))
    clock.at += 89
    assert waits(sender)
    clock.at += 1
    again = claimed(sender)
    assert list(first.params.items()) == list(again.params.items())
    assert 2 == again.entry.attempts


@pytest.mark.parametrize(
    "answer", [None, {}, delivered(1), {"outcome": "delivered", "delivered": "all"}]
)
def test_a_half_delivered_is_sent_again(
    outbox: Outbox, sender: Sender, clock: Clock, answer: object
) -> None:
    """A success that does not name every part is no end; the pauses grow to a quarter hour."""
    outbox.put("x", BINDING, "hello", ["file:///a"])
    for least, most in ((24, 30), (48, 60), (96, 120), (192, 240), (384, 480), (720, 900)):
        sender.succeeded(claimed(sender), answer)
        clock.at += least - 1
        assert waits(sender)
        clock.at += most - least + 1
    assert "waiting" == claimed(sender).entry.state


def test_a_client_without_deliveries(outbox: Outbox, sender: Sender, clock: Clock) -> None:
    """After -32601 nothing more is sent on this connection, and another takes it up at once."""
    outbox.put("x", BINDING, "hello")
    outbox.put("y", BINDING, "hello")
    sender.refused(claimed(sender), -32601, None)
    assert isinstance(sender.next(), Stop)
    assert isinstance(sender.next(), Stop)
    assert "x" == claimed(Sender(outbox, monotonic=clock)).entry.id


def test_a_lost_connection(outbox: Outbox, sender: Sender, clock: Clock) -> None:
    """The next connection sends it a second later; a sender on a dead one slows down."""
    outbox.put("x", BINDING, "hello")
    for pause in (1.0, 2.0, 4.0):
        sender.lost(claimed(sender))
        step = sender.next()
        assert isinstance(step, Wait)
        assert pause == step.seconds
        clock.at += pause
    assert "x" == claimed(Sender(outbox, monotonic=clock)).entry.id


def test_not_mine_waits_for_the_right_client(outbox: Outbox, sender: Sender, clock: Clock) -> None:
    """Another worker's delivery is left to its own connection, and this one asks no more."""
    outbox.put("x", BINDING, "hello")
    outbox.put("z", OTHER, "hello")
    sender.refused(claimed(sender), -32011, final("not_mine"))
    assert "z" == claimed(sender).entry.id
    outbox.put("y", BINDING, "hello")
    clock.at += 600
    assert waits(sender)
    right = Sender(outbox, monotonic=clock)
    assert {"x", "y"} == {claimed(right).entry.id, claimed(right).entry.id}


def test_not_mine_for_good(outbox: Outbox, sender: Sender, clock: Clock) -> None:
    """If no client is the right one for 23 hours, that is its end, and says so."""
    outbox.put("x", BINDING, "hello")
    sender.refused(claimed(sender), -32011, final("not_mine"))
    clock.at += 23 * 3600
    entry = claimed(sender).entry
    assert ("final", "not_mine") == (entry.state, entry.reason)


def test_a_cancelled_sender_gives_back(outbox: Outbox, sender: Sender, clock: Clock) -> None:
    """What was being sent when the run was cancelled can be sent by the next one at once."""
    outbox.put("x", BINDING, "hello")
    sender.dropped(claimed(sender))
    assert "x" == claimed(Sender(outbox, monotonic=clock)).entry.id


def test_telling_fails(outbox: Outbox, sender: Sender, clock: Clock) -> None:
    """An end that could not be told is told again a minute later."""
    outbox.put("x", BINDING, "hello")
    sender.succeeded(claimed(sender), delivered())
    sender.untold(claimed(sender))
    assert waits(sender)
    clock.at += 60
    sender.told(claimed(sender))
    assert waits(sender)


def test_an_idle_sender_looks_ever_less_often(outbox: Outbox, sender: Sender, clock: Clock) -> None:
    """It looks ten times a second at first, once a second later, and at once after news."""
    waited = []
    for _ in range(8):
        step = sender.next()
        assert isinstance(step, Wait)
        waited.append(step.seconds)
        clock.at += step.seconds
    assert waited == sorted(waited)
    assert [0.1, LOOK_LAST_S] == [waited[0], waited[-1]]
    with Outbox(outbox.path, clock=clock) as other:
        other.put("x", BINDING, "hello")
    assert "x" == claimed(sender).entry.id


class Crowded(Outbox):
    """Somebody stores a delivery just after the first look has found none."""

    crowd = 1

    def claim(self, holder: str, not_for: frozenset[str] = frozenset()) -> Claim | None:
        claim = super().claim(holder, not_for)
        if claim is None and self.crowd:
            self.crowd = 0
            with Outbox(self.path, clock=self.now) as other:
                other.put("x", BINDING, "hello")
        return claim


def test_news_while_it_looks(path: Path, clock: Clock) -> None:
    """What is stored between finding nothing and going to sleep is seen at the next look."""
    with Crowded(path, clock=clock) as outbox:
        sender = Sender(outbox, monotonic=clock)
        step = sender.next()
        assert isinstance(step, Wait)
        clock.at += min(step.seconds, LOOK_LAST_S)
        assert "x" == claimed(sender).entry.id


def test_an_idle_sender_leaves_the_file_alone(outbox: Outbox, sender: Sender, clock: Clock) -> None:
    """While nothing changes it asks the database only each half minute."""
    assert waits(sender)
    asked: list[str] = []
    outbox._connection.set_trace_callback(asked.append)
    until = clock.at + LOOK_ANYWAY_S - 1
    while clock.at < until:
        step = sender.next()
        assert isinstance(step, Wait)
        clock.at += step.seconds
    assert {"PRAGMA data_version"} == set(asked)


@pytest.fixture
def locked(outbox: Outbox) -> Iterator[sqlite3.Connection]:
    """A stranger that can hold the file's lock."""
    outbox._connection.execute("PRAGMA busy_timeout=0")
    raw = sqlite3.connect(outbox.path, isolation_level=None)
    yield raw
    raw.close()


def test_an_answer_outlives_a_disk_that_fails(
    outbox: Outbox, sender: Sender, clock: Clock, locked: sqlite3.Connection
) -> None:
    """An answer that cannot be recorded is kept and recorded when it can be; nothing is sent."""
    outbox.put("x", BINDING, "hello")
    outbox.put("y", BINDING, "hello")
    claim = claimed(sender)
    locked.execute("BEGIN IMMEDIATE")
    sender.succeeded(claim, delivered())
    for _ in range(5):
        step = sender.next()
        assert isinstance(step, Wait)
        clock.at += step.seconds
    locked.execute("ROLLBACK")
    clock.at += 60
    assert "delivered" == claimed(sender).entry.state


class Histories(RuleBasedStateMachine):
    """Random histories of two connections over one outbox, against a model of a worker."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._clock = Clock()
        self._outbox = Outbox(Path(self._folder.name) / "outbox.db", clock=self._clock)
        self._senders = [Sender(self._outbox, monotonic=self._clock) for _ in range(2)]
        self._open: list[tuple[Sender, Claim]] = []
        self._put: dict[str, dict[str, object]] = {}
        self._told: dict[str, str] = {}

    def teardown(self) -> None:
        self._outbox.close()
        self._folder.cleanup()

    @rule(number=st.integers(0, 5), files=st.integers(0, 2))
    def put(self, number: int, files: int) -> None:
        ident = f"x{number}"
        if ident not in self._put:
            uris = [f"file:///{n}" for n in range(files)]
            self._put[ident] = {"id": ident, "binding": BINDING, "text": "hello"}
            if uris:
                self._put[ident]["files"] = [{"uri": uri} for uri in uris]
            assert self._outbox.put(ident, BINDING, "hello", uris)

    @rule(which=st.integers(0, 1))
    def step(self, which: int) -> None:
        step = self._senders[which].next()
        if isinstance(step, Stop):
            self._senders[which] = Sender(self._outbox, monotonic=self._clock)
        if not isinstance(step, Claim):
            return
        ident = step.entry.id
        assert ident not in {claim.entry.id for _, claim in self._open}, "held twice"
        if step.entry.state == "waiting":
            assert self._put[ident] == step.params, "not what was stored"
            assert ident not in self._told, "sent after its end was told"
        self._open.append((self._senders[which], step))

    @precondition(lambda self: self._open)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        sender, claim = self._open.pop(data.draw(st.integers(0, len(self._open) - 1)))
        ident = claim.entry.id
        if claim.entry.state != "waiting":
            if data.draw(st.booleans()):
                assert claim.entry.state == self._told.setdefault(ident, claim.entry.state)
                sender.told(claim)
            else:
                sender.untold(claim)
            return
        kind = data.draw(st.sampled_from(["ok", "short", "retry", "final", "lost", "none", "drop"]))
        match kind:
            case "ok":
                sender.succeeded(claim, delivered(claim.parts))
            case "short":
                sender.succeeded(claim, delivered(claim.parts - 1))
            case "retry":
                sender.refused(claim, -32010, retry(data.draw(st.integers(0, 2000))))
            case "final":
                sender.refused(claim, -32011, final("rejected"))
            case "lost":
                sender.lost(claim)
            case "none":
                sender.refused(claim, -32601, None)
            case _:
                sender.dropped(claim)

    @rule(seconds=st.sampled_from([0.1, 1, 30, 600]))
    def wait(self, seconds: float) -> None:
        if not self._open:  # a claim that outlives its lease may be taken over, that is shown above
            self._clock.at += seconds

    @invariant()
    def nothing_is_lost(self) -> None:
        known = {entry.id: entry for entry in self._outbox.entries()}
        assert set(self._put) == set(known)
        for ident, state in self._told.items():
            assert state == known[ident].state, "an end changed"


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=max(30, settings().max_examples // 12), stateful_step_count=40
)
