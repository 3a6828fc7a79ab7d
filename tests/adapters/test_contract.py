"""What every one-shot adapter keeps, whatever its agent is (worker.md §7.1): one suite for all."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
import trio.testing

from agentconnect.adapters.ollama import OllamaAdapter, OllamaSettings
from agentconnect.core.errors import PreflightError
from agentconnect.core.task import Attachment, Tier
from agentconnect.core.turns.events import Notice, Reason
from tests.adapters.ollama_double import ollama_double
from tests.adapters.rig import PROGRAMS, SECRETS, Bench, Heard, context, spoken, turn
from tests.support.adapters import running
from tests.support.fake_cli import FakeCli
from tests.support.waits import count_only_waits
from tests.support.worker import alive, until

COMMAND_LINES = pytest.mark.parametrize("name", sorted(PROGRAMS))
ALL = pytest.mark.parametrize("name", [*sorted(PROGRAMS), "ollama"])

MESSAGES = {
    "option": "--help",
    "end of options": "-- --version",
    "quotes": "a \"b\" 'c' $HOME `id` \\ %s {x}",
    "lines": "first\n\n\tsecond  \nthird",
    "typographic": "naïve “quotes” – ⏳ 日本語",
    "bracket": "[file: /etc/passwd]",
}


async def answered(bench: Bench, name: str, message: str, answer: str) -> tuple[Heard, str]:
    """One message to any adapter; the ending, and the prompt as its agent got it."""
    if name == "ollama":
        async with ollama_double() as double:
            double.answers(200, {"response": answer})
            settings = OllamaSettings(cwd=str(bench.work), host=double.host, model="m")
            async with running(OllamaAdapter(settings)) as adapter:
                heard = await turn(adapter, context(message, cwd=str(bench.work)))
            return heard, double.asked["prompt"]
    fake = bench.fake(name, {"out": spoken(name, answer)})
    heard = await bench.ask(PROGRAMS[name](), message)
    return heard, fake.run.argv[-1]


@ALL
@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES.keys())
async def test_the_message_is_last_and_verbatim(bench: Bench, name: str, message: str) -> None:
    """One bracketed line, a blank one, the message; nothing a person types can be an option."""
    heard, prompt = await answered(bench, name, message, "fine")
    preamble, _, rest = prompt.partition("\n\n")
    assert message == rest
    assert preamble.startswith("[sandbox: workspace-write;")
    assert preamble.endswith("]")
    assert "\n" not in preamble
    assert ("fine", Reason.COMPLETED) == (heard.ending.text, heard.ending.reason)
    assert [] == heard.events


@ALL
async def test_nothing_stands_between_placeholder_and_answer(bench: Bench, name: str) -> None:
    """No step, no partial text, no notice: only the ending."""
    heard, _ = await answered(bench, name, "hello", "line one\nline two")
    assert [] == heard.events
    assert "line one\nline two" == heard.ending.text
    assert ("", False) == (heard.ending.note, heard.ending.told)


@ALL
def test_guests_are_served_where_something_confines_them(bench: Bench, name: str) -> None:
    """codex has a sandbox and a chat model touches nothing; the others refuse guests."""
    if name == "ollama":
        settings = OllamaSettings(cwd="/", host="localhost", model="m")
        assert OllamaAdapter(settings).serves_guests
    else:
        adapter = bench.adapter(PROGRAMS[name]())
        assert (name == "codex") == adapter.serves_guests
        assert name == adapter.name
        assert not adapter.remote


@ALL
async def test_attachments_are_named_once_before_the_run(bench: Bench, name: str) -> None:
    """One notice: label, type and reason of each; never a path, and nothing of it in the prompt."""
    files = (
        Attachment(path="/tmp/secret place/a.png", mime="image/png", name="a.png", ok=True),
        Attachment(name="b.bin", reason="it is larger than the relay gives"),
    )
    async with ollama_double() as double:
        double.answers(200, {"response": "ok"})
        if name == "ollama":
            ollama = OllamaSettings(cwd=str(bench.work), host=double.host, model="m")
            adapter = OllamaAdapter(ollama)
        else:
            fake = bench.fake(name, {"out": spoken(name, "ok")})
            adapter = bench.adapter(PROGRAMS[name]())  # type: ignore[assignment]
        async with running(adapter) as ready:
            ctx = context("look", cwd=str(bench.work), attachments=files)
            heard = await turn(ready, ctx)
        prompt = double.asked["prompt"] if name == "ollama" else fake.run.argv[-1]
    [notice] = heard.notices
    assert [Notice(text=notice)] == heard.events
    for words in ("a.png", "image/png", "text only", "b.bin", "larger than the relay gives"):
        assert words in notice
    assert "secret place" not in notice + prompt
    assert prompt.endswith("]\n\nlook")


@COMMAND_LINES
async def test_the_child_gets_our_environment_without_our_secrets(bench: Bench, name: str) -> None:
    """None of our credentials, all of the rest; the working directory; the umask of our starter."""
    fake = bench.fake(name, {"out": spoken(name, "ok")})
    async with running(bench.adapter(PROGRAMS[name](), MODEL_KEY="theirs")) as adapter:
        await turn(adapter, context("hi", cwd=str(bench.work)))
    assert not set(SECRETS) & set(fake.run.env)
    assert "planted" not in str(fake.run.env)
    assert "theirs" == fake.run.env["MODEL_KEY"]
    assert str(bench.work.resolve()) == fake.run.cwd
    assert 0o027 == fake.run.umask
    assert fake.run.null


@COMMAND_LINES
async def test_bytes_that_are_no_text_are_replaced(bench: Bench, name: str) -> None:
    """One bad byte costs one character, not the turn."""
    out = spoken(name, "good XX end").encode().replace(b"XX", b"\xff\xfe")
    bench.fake(name, {"out_hex": out.hex(), "err_hex": "fffe"})
    heard = await bench.ask(PROGRAMS[name]())
    assert "good �� end" == heard.ending.text


@COMMAND_LINES
async def test_an_error_without_an_answer_is_a_failure(bench: Bench, name: str) -> None:
    """The exit code and stderr, inert and without secrets; no line about the ending is added."""
    err = "boom [file: /etc/passwd]\x1b[31m key=sk-abcdefghijklmnopqrstuv ```\n"
    bench.fake(name, {"err": err, "code": 3})
    heard = await bench.ask(PROGRAMS[name]())
    assert (Reason.FAILED, True) == (heard.ending.reason, heard.ending.told)
    assert name in heard.ending.text
    assert "exit code 3" in heard.ending.text
    assert "boom (file: /etc/passwd]" in heard.ending.text
    assert "sk-abc" not in heard.ending.text
    assert "\x1b" not in heard.ending.text


@COMMAND_LINES
async def test_an_error_with_an_answer_keeps_the_answer(bench: Bench, name: str) -> None:
    """stdout is the answer, its end says that the exit code was not 0."""
    bench.fake(name, {"out": spoken(name, "half of it"), "err": "boom", "code": 9})
    heard = await bench.ask(PROGRAMS[name]())
    assert ("half of it", Reason.FAILED) == (heard.ending.text, heard.ending.reason)
    assert "exit code 9" in heard.ending.note
    assert not heard.ending.told


@COMMAND_LINES
async def test_no_output_is_said(bench: Bench, name: str) -> None:
    """Exit 0 and nothing at all."""
    bench.fake(name, {})
    heard = await bench.ask(PROGRAMS[name]())
    assert (Reason.FAILED, True) == (heard.ending.reason, heard.ending.told)
    assert f"{name} finished and produced no output" in heard.ending.text


@COMMAND_LINES
async def test_a_child_that_was_killed_is_named_so(bench: Bench, name: str) -> None:
    """Its end by a signal is told as that."""
    bench.fake(name, {"kill": True})
    heard = await bench.ask(PROGRAMS[name]())
    assert "signal 9" in heard.ending.text


@COMMAND_LINES
async def test_a_flood_is_kept_in_bounds(bench: Bench, name: str) -> None:
    """32 MiB on stderr hold nobody up and are not all kept."""
    bench.fake(name, {"flood": 512, "code": 1})
    heard = await bench.ask(PROGRAMS[name]())
    assert len(heard.ending.text) < 3000


@COMMAND_LINES
async def test_a_missing_program_is_said_at_start(bench: Bench, name: str) -> None:
    """The name of the program and how to get it; nothing is run."""
    adapter = bench.adapter(PROGRAMS[name](), PATH=str(bench.bin))
    with pytest.raises(PreflightError, match="nstall") as refused:
        await adapter.preflight()
    assert f"“{name}”" in str(refused.value)


@COMMAND_LINES
async def test_the_check_at_start_runs_nothing(bench: Bench, name: str) -> None:
    """A program on PATH is enough; the description names it."""
    fake = bench.fake(name)
    assert f"{name}: {fake.path}" == await bench.adapter(PROGRAMS[name]()).preflight()
    assert [] == fake.runs


@COMMAND_LINES
async def test_a_program_that_vanished_fails_the_turn(bench: Bench, name: str) -> None:
    """The turn says what is missing and how to get it back."""
    adapter = bench.adapter(PROGRAMS[name](), PATH=str(bench.bin))
    async with running(adapter) as ready:
        heard = await turn(ready, context("hi", cwd=str(bench.work)))
    assert (Reason.FAILED, True) == (heard.ending.reason, heard.ending.told)
    assert "not found" in heard.ending.text
    assert "nstall" in heard.ending.text


@COMMAND_LINES
async def test_the_owner_is_told_of_a_turn_that_failed(bench: Bench, name: str) -> None:
    """One line for the status file, with what the program said; an answer is no trouble."""
    fine, bad = {"out": spoken(name, "fine")}, {"err": "no\nlogin", "code": 3}
    bench.fake(name, fine, bad, {**fine, "code": 4}, fine)
    for _ in range(3):
        await bench.ask(PROGRAMS[name]())
    failed, partly = bench.problems
    assert f"{name} ended with exit code 3 and gave no answer. It said: no login" == failed
    assert f"{name} ended with exit code 4" in partly
    await bench.ask(PROGRAMS[name](), "x" * 200 * 1024)
    assert [failed, partly] == bench.problems, "a long message is no fault of the machine's"


@COMMAND_LINES
async def test_the_owner_is_told_of_a_program_that_vanished(bench: Bench, name: str) -> None:
    """Guests and owners ask alike; the owner can mend it."""
    async with running(bench.adapter(PROGRAMS[name](), PATH=str(bench.bin))) as ready:
        await turn(ready, context("hi", cwd=str(bench.work)))
    assert ["not found" in problem for problem in bench.problems] == [True]


@COMMAND_LINES
async def test_a_program_that_may_not_be_executed_is_not_sought_on_path(
    bench: Bench, name: str
) -> None:
    """Named by its path there is nothing to look for."""
    program = PROGRAMS[name]()
    program.binary = str(bench.work / "there")  # type: ignore[misc]
    (bench.work / "there").write_text("no program")
    with pytest.raises(PreflightError, match="may not be executed") as refused:
        await bench.adapter(program).preflight()
    assert "on PATH" not in str(refused.value)


@COMMAND_LINES
async def test_a_folder_that_vanished_is_not_a_missing_program(bench: Bench, name: str) -> None:
    """The kernel reports both alike; the room reads the right one."""
    bench.fake(name)
    adapter = bench.adapter(PROGRAMS[name]())
    bench.work.rmdir()
    async with running(adapter) as ready:
        heard = await turn(ready, context("hi", cwd=str(bench.work)))
    assert "working directory" in heard.ending.text


@COMMAND_LINES
async def test_a_program_that_cannot_be_run_is_said(bench: Bench, name: str) -> None:
    """Neither a script nor a binary."""
    bench.fake(name).path.write_bytes(b"\x7fELF not really")
    heard = await bench.ask(PROGRAMS[name]())
    assert "could not be started" in heard.ending.text


@COMMAND_LINES
async def test_a_message_too_long_for_a_word(bench: Bench, name: str) -> None:
    """200 KiB: through stdin where the program takes it, else a sentence and no run."""
    fake = bench.fake(name, {"out": spoken(name, "read")})
    heard = await bench.ask(PROGRAMS[name](), "x" * 200 * 1024)
    if name == "codex":
        assert "read" == heard.ending.text
        assert fake.run.stdin.endswith("x" * 200 * 1024)
    else:
        assert "too long" in heard.ending.text
        assert (Reason.FAILED, True) == (heard.ending.reason, heard.ending.told)
        assert [] == fake.runs


async def gone(fake: FakeCli) -> None:
    """Its processes have ended: they were told to."""
    await until(lambda: not any(map(alive, fake.run.pids)), "the end of the group")


async def interrupted(
    bench: Bench,
    name: str,
    fake: FakeCli,
    *,
    kill: bool = False,
    stopping: Callable[[], None] = lambda: None,
) -> Heard:
    """A turn that is stopped once its program runs; returns when the turn has ended."""
    heard = Heard()
    async with running(bench.adapter(PROGRAMS[name]())) as adapter:
        ctx = context("work", cwd=str(bench.work))
        async with adapter.session(ctx.key) as session, trio.open_nursery() as nursery:

            async def run() -> None:
                heard.done = await session.turn(ctx, heard.events.append)

            nursery.start_soon(run)
            await until(lambda: bool(fake.runs), "the program's start")
            stopping()
            await (session.kill() if kill else session.interrupt())
            await session.interrupt()
        await gone(fake)
    return heard


@COMMAND_LINES
async def test_an_interrupt_ends_the_group(bench: Bench, name: str) -> None:
    """The program and what it has started are gone when the turn ends; the time is told."""
    fake = bench.fake(name, {"sleep": 600, "grandchild": True})
    heard = await interrupted(bench, name, fake)
    assert 2 == len(fake.run.pids)
    assert (Reason.TIMEOUT, True) == (heard.ending.reason, heard.ending.told)
    assert f"{name} did not finish within " in heard.ending.text


async def test_what_was_written_before_an_interrupt_is_kept(bench: Bench) -> None:
    """The answer so far; the turn adds that it is partial."""
    fake = bench.fake("kilo", {"out": "the first half", "sleep": 600})
    heard = await interrupted(bench, "kilo", fake)
    assert ("the first half", False) == (heard.ending.text, heard.ending.told)


async def test_a_stubborn_program_is_killed(
    bench: Bench, mock_clock: trio.testing.MockClock
) -> None:
    """It ignores SIGTERM: a kill ends it at once, its group too."""
    mock_clock.rate = 1.0
    fake = bench.fake("codex", {"sleep": 600, "stubborn": True, "grandchild": True})
    began: list[float] = []

    def stopping() -> None:
        count_only_waits(mock_clock)
        began.append(trio.current_time())

    await interrupted(bench, "codex", fake, kill=True, stopping=stopping)
    assert trio.current_time() - began[0] < 4


async def test_after_five_seconds_the_kernel_ends_it(bench: Bench) -> None:
    """SIGTERM, five seconds, SIGKILL."""
    fake = bench.fake("codex", {"sleep": 600, "stubborn": True})
    await interrupted(bench, "codex", fake)


@COMMAND_LINES
async def test_a_cancelled_turn_ends_its_group(bench: Bench, name: str) -> None:
    """Nobody waits for the turn any more; the adapter still ends what it began."""
    fake = bench.fake(name, {"sleep": 600, "grandchild": True})
    async with running(bench.adapter(PROGRAMS[name]())) as adapter:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(turn, adapter, context("work", cwd=str(bench.work)))
            await until(lambda: bool(fake.runs), "the program's start")
            nursery.cancel_scope.cancel()
        await gone(fake)


@COMMAND_LINES
async def test_the_end_of_the_adapter_ends_every_group(bench: Bench, name: str) -> None:
    """The worker stops: no program is left as an orphan."""
    fake = bench.fake(name, {"sleep": 600, "grandchild": True})
    async with running(bench.adapter(PROGRAMS[name]())) as adapter, trio.open_nursery() as nursery:
        nursery.start_soon(turn, adapter, context("work", cwd=str(bench.work)))
        await until(lambda: bool(fake.runs), "the program's start")
        nursery.cancel_scope.cancel()
    await gone(fake)


async def test_rooms_run_side_by_side(bench: Bench) -> None:
    """A slow run in one room costs another none of its time."""
    fake = bench.fake("codex", {"sleep": 600}, {"out": "quick"})
    adapter = bench.adapter(PROGRAMS["codex"]())
    async with running(adapter), trio.open_nursery() as nursery:
        nursery.start_soon(turn, adapter, context("slow", cwd=str(bench.work)))
        await until(lambda: bool(fake.runs), "the slow run")
        heard = await turn(adapter, context("fast", cwd=str(bench.work), tier=Tier.GUEST))
        nursery.cancel_scope.cancel()
    assert "quick" == heard.ending.text
