"""codex: its command line, the sandbox of each tier, where the prompt goes, what comes back."""

import pytest

from agentconnect.adapters.codex import Codex
from agentconnect.core.task import Tier
from agentconnect.core.turns.events import Reason
from tests.adapters.rig import Bench


async def test_the_owner_writes_in_the_working_directory(bench: Bench) -> None:
    """Every argument, in order; the preamble and the message are the last one."""
    fake = bench.fake("codex", {"out": "all done\n", "err": "[log] session 1\n"})
    heard = await bench.ask(Codex(), "fix the flaky test")
    assert Reason.COMPLETED is heard.ending.reason
    assert "all done" == heard.ending.text
    *options, prompt = fake.run.argv
    assert [
        "exec",
        "--sandbox",
        "workspace-write",
        "--skip-git-repo-check",
        "--cd",
        str(bench.work),
    ] == options
    preamble, blank, message = prompt.split("\n")
    assert preamble.startswith("[")
    assert preamble.endswith("]")
    for fact in ("workspace-write", "owner", "create and modify", "[file: <path>]"):
        assert fact in preamble
    assert ["", "fix the flaky test"] == [blank, message]
    assert fake.run.null


async def test_a_guest_reads_only_and_offline(bench: Bench) -> None:
    """The guest's sandbox, whatever the owner has allowed for the owner's turns."""
    fake = bench.fake("codex", {"out": "it is a parser"})
    await bench.ask(Codex(network=True), "explain", tier=Tier.GUEST)
    *options, prompt = fake.run.argv
    assert ["exec", "--sandbox", "read-only", "--skip-git-repo-check", "--cd"] == options[:-1]
    assert "read-only" in prompt
    assert "guest" in prompt
    assert "[file:" not in prompt


async def test_the_owner_may_let_codex_out(bench: Bench) -> None:
    """The network setting adds its pair for the owner's turns."""
    fake = bench.fake("codex", {"out": "ok"})
    await bench.ask(Codex(network=True))
    assert ["-c", "sandbox_workspace_write.network_access=true"] == fake.run.argv[3:5]


async def test_a_long_message_goes_through_stdin(bench: Bench) -> None:
    """200 KiB arrive whole, and are on no command line."""
    fake = bench.fake("codex", {"out": "read"})
    message = "überlang " * 23_000
    heard = await bench.ask(Codex(), message)
    assert Reason.COMPLETED is heard.ending.reason
    assert "-" == fake.run.argv[-1]
    assert fake.run.stdin.endswith(f"]\n\n{message}")


async def test_a_message_with_a_nul_goes_through_stdin(bench: Bench) -> None:
    """A command line cannot hold it; nothing is changed."""
    fake = bench.fake("codex", {"out": "read"})
    await bench.ask(Codex(), "a\0b")
    assert fake.run.stdin.endswith("\n\na\0b")


async def test_a_long_message_to_one_that_does_not_read_it(bench: Bench) -> None:
    """A program that ends without reading is no error of ours."""
    bench.fake("codex", {"out": "enough", "deaf": True})
    heard = await bench.ask(Codex(), "x" * 900_000)
    assert ("enough", Reason.COMPLETED) == (heard.ending.text, heard.ending.reason)


@pytest.mark.parametrize(("err", "shown"), [("only a log line", True), ("", False)])
async def test_without_an_answer_stderr_speaks(bench: Bench, err: str, shown: bool) -> None:
    """Empty stdout and exit 0: what stderr says, else that there was no output."""
    bench.fake("codex", {"err": err})
    heard = await bench.ask(Codex())
    assert Reason.FAILED is heard.ending.reason
    assert heard.ending.told
    assert shown == ("only a log line" in heard.ending.text)
    assert "no output" in heard.ending.text


async def test_the_first_of_stderr_is_told(bench: Bench) -> None:
    """codex says what is wrong at the beginning: 1500 characters of it."""
    bench.fake("codex", {"err": "BEGIN" + "x" * 3000 + "END", "code": 2})
    heard = await bench.ask(Codex())
    assert "exit code 2" in heard.ending.text
    assert "BEGIN" in heard.ending.text
    assert "END" not in heard.ending.text
