"""What the broker's answer means: every row of §10's table, and the waits."""

import pytest

from agentconnect.core.delivery.ledger import Reason
from agentconnect.core.delivery.posting import (
    Reply,
    Step,
    meaning,
    notice_text,
    retry_after_s,
    settled,
    wait_within_run_s,
)


@pytest.mark.parametrize("echo", ["created", "replayed"])
def test_posted(echo: str) -> None:
    """200 with an event id and the echo."""
    assert Step.POSTED == meaning(Reply(status=200, event_id="$e", echo=echo)).step


@pytest.mark.parametrize("echo", ["", "maybe"])
def test_posted_without_the_echo(echo: str) -> None:
    """It did post, and nothing more is to be posted."""
    assert Step.UNECHOED == meaning(Reply(status=200, event_id="$e", echo=echo)).step


@pytest.mark.parametrize(
    ("reply", "unsure"),
    [
        (Reply(status=200), True),
        (Reply(status=200, echo="created"), True),
        (Reply(status=409, state="running"), True),
        (Reply(status=409, state=""), True),
        (Reply(status=401), False),
        (Reply(status=408), False),
        (Reply(status=425), False),
        (Reply(status=429), False),
        (Reply(status=503), False),
        (Reply(status=500), True),
        (Reply(status=502), True),
        (Reply(status=504), True),
        (Reply(status=302), True),
        (Reply(), True),
        (Reply(sent=False), False),
        (Reply(sent=False, cooling_s=9.0), False),
    ],
)
def test_again(reply: Reply, unsure: bool) -> None:
    """Retry, never rejected; whether it may have landed is another matter."""
    found = meaning(reply)
    assert (Step.AGAIN, unsure) == (found.step, found.unsure)
    assert found.why
    assert reply.cooling_s == found.wait_s


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(status=409, state="unknown"), Reason.UNKNOWN),
        (Reply(status=409, state="conflict"), Reason.CONFLICT),
        (Reply(status=413), Reason.REJECTED),
        (Reply(status=403), Reason.REJECTED),
        (Reply(status=404), Reason.REJECTED),
        (Reply(status=400), Reason.REJECTED),
        (Reply(status=422), Reason.REJECTED),
        (Reply(status=405), Reason.REJECTED),
        (Reply(sent=False, unfit="it has changed"), Reason.REJECTED),
    ],
)
def test_the_end(reply: Reply, reason: Reason) -> None:
    """Final; after a lost response a refusal is ``unknown``, since the first may have landed."""
    found = meaning(reply)
    assert (Step.END, reason) == (found.step, found.reason)
    assert found == settled(found, unsure_before=False)
    after = settled(found, unsure_before=True).reason
    assert after == (Reason.CONFLICT if reason is Reason.CONFLICT else Reason.UNKNOWN)


def test_waits_within_a_run() -> None:
    """1, 4 and 15 s, a fifth more or less; what is asked for is kept, if a run waits that long."""
    assert [0.8, 3.2, 12.0, None] == [
        wait if wait is None else round(wait, 6)
        for wait in (wait_within_run_s(attempt, 0.0, 0.0) for attempt in range(4))
    ]
    assert 1.2 == pytest.approx(wait_within_run_s(0, 0.0, 1.0))
    assert 9.0 == wait_within_run_s(0, 9.0, 0.5)
    assert wait_within_run_s(0, 60.0, 0.5) is None


def test_retry_after() -> None:
    """30 s doubling to 15 min, or what the relay asked for if that is longer."""
    assert [30, 60, 120, 240, 480, 900, 900, 900] == [retry_after_s(n, 0.0) for n in range(8)]
    assert 900.0 == retry_after_s(10**6, 0.0)
    assert 300.0 == retry_after_s(0, 300.0)


def test_the_notice() -> None:
    """Which file or text, in one line; “may not” where nobody knows."""
    assert "the file “a.pdf” could not be sent." in notice_text(["a.pdf"], unsure=False)
    told = notice_text(["a", "b", ""], unsure=True)
    assert "the file “a”, the file “b” and the text may not have been sent." in told
    hostile = notice_text(["x”\n**@room** `[a](b)`" + "y" * 500], unsure=False)
    assert "\n" not in hostile
    assert not set("*`[]") & set(hostile)
    assert len(hostile) < 250
