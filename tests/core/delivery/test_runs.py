"""Never two runs of an id, and every caller gets an answer."""

from agentconnect.core.delivery import runs
from agentconnect.core.delivery.answers import Delivered, Final, Retry
from agentconnect.core.delivery.deciding import Known, Unreadable
from agentconnect.core.delivery.effects import Consult, Idle, Tell
from agentconnect.core.delivery.ledger import Reason
from agentconnect.core.delivery.runs import Answered, Joined, Other, Runs, Started
from tests.core.delivery.entries import WORKER, entry, request
from tests.core.delivery.test_courier import known, world

DONE = Delivered(delivered=(), expires_at=None)
LATER = Retry(retry_after_s=30.0, reason="busy")


def started(table: Runs[str], caller: str = "first") -> Started[str]:
    found = table.arrive(request(), caller)
    assert isinstance(found, Started)
    return found


def test_a_resend_waits_for_the_run_that_there_is() -> None:
    """Both callers get its answer, once each."""
    table: Runs[str] = Runs()
    active = started(table).active
    assert isinstance(table.arrive(request("y"), "other id"), Started)
    joined = table.arrive(request(), "second")
    assert Joined(active, nudge=False) == joined
    assert ["first", "second"] == table.told(active, LATER)
    assert [] == table.told(active, LATER)
    assert 2 == len(table)


def test_a_resend_wakes_an_idle_run() -> None:
    """Unless the relay asked for the pause: then it is told the same again."""
    table: Runs[str] = Runs()
    active = started(table).active
    table.told(active, LATER)
    active.idle = Idle(seconds=30.0)
    assert Joined(active, nudge=True) == table.arrive(request(), "second")
    table.told(active, LATER)
    active.idle = Idle(seconds=300.0, nudgeable=False)
    assert Answered(LATER) == table.arrive(request(), "third")


def test_a_run_that_only_owes_a_notice_has_its_answer() -> None:
    """Nobody waits for the line in the room."""
    table: Runs[str] = Runs()
    active = started(table).active
    table.told(active, DONE)
    assert Answered(DONE) == table.arrive(request(), "second")


def test_other_content_does_not_join() -> None:
    """Nor start a run beside it."""
    table: Runs[str] = Runs()
    started(table)
    assert Other() == table.arrive(request(text="other"), "second")
    assert 1 == len(table)


def test_what_is_left_when_a_run_is_over() -> None:
    """The callers it never answered; then the id is free."""
    table: Runs[str] = Runs()
    active = started(table).active
    assert ["first"] == table.over(active)
    assert isinstance(table.arrive(request(), "again"), Started)


def test_a_start_does_not_run_what_runs() -> None:
    """A resend that came first is the run."""
    table: Runs[str] = Runs()
    started(table)
    assert table.resume(entry()) is None
    resumed = table.resume(entry("z"))
    assert resumed is not None
    assert Joined(resumed, nudge=False) == table.arrive(request("z"), "caller")


def test_a_clash_is_a_conflict_as_soon_as_the_other_is_recorded() -> None:
    """Before that it may try again in a moment; an unreadable store answers Retry."""
    other = request(text="other")
    told = []
    for found in (known(entry()), Known(worker_id=WORKER), known(), Unreadable()):
        run = runs.clash(other, world())
        assert isinstance(next(run), Consult)
        effect = run.send(found)
        assert isinstance(effect, Tell)
        told.append(effect.answer)
    assert isinstance(told[0], Final)
    assert Reason.CONFLICT is told[0].reason
    assert isinstance(told[1], Final)
    assert [1.0, 30.0] == [answer.retry_after_s for answer in told[2:] if isinstance(answer, Retry)]
