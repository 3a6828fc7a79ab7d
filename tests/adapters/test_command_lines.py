"""omnigent, cline and kilo: every argument, and how the answer is found."""

from __future__ import annotations

import json

import pytest

from agentconnect.adapters.cline import Cline
from agentconnect.adapters.kilo import Kilo
from agentconnect.adapters.omnigent import Omnigent
from agentconnect.core.turns.events import Reason
from tests.adapters.rig import Bench


async def test_omnigent(bench: Bench) -> None:
    """The default harness, no model, the prompt behind ``-p``."""
    fake = bench.fake("omnigent", {"out": "done"})
    await bench.ask(Omnigent(), "hi")
    *options, prompt = fake.run.argv
    assert ["run", "--harness", "claude", "-p"] == options
    assert prompt.endswith("]\n\nhi")


async def test_omnigent_with_its_settings(bench: Bench) -> None:
    """Another program, harness and model."""
    fake = bench.fake("omni", {"out": "done"})
    await bench.ask(Omnigent(binary=str(fake.path), harness="goose", model="big"), "hi")
    assert ["run", "--harness", "goose", "--model", "big", "-p"] == fake.run.argv[:-1]


@pytest.mark.parametrize(
    ("message", "harness", "rest"),
    [
        ("[codex] fix it\nnow", "codex", "fix it\nnow"),
        ("[harness: mine] fix it", "mine", "fix it"),
        ("[todo] fix it", "claude", "[todo] fix it"),
        ("[harness: --help] fix it", "claude", "[harness: --help] fix it"),
    ],
)
async def test_a_message_chooses_the_harness(
    bench: Bench, message: str, harness: str, rest: str
) -> None:
    """Matched on the message, so the preamble in front of it is no obstacle."""
    fake = bench.fake("omnigent", {"out": "done"})
    await bench.ask(Omnigent(), message)
    assert harness == fake.run.argv[2]
    assert fake.run.argv[-1].endswith(f"]\n\n{rest}")
    assert fake.run.argv[-1].startswith("[sandbox:")


async def test_cline(bench: Bench) -> None:
    """No provider and no model unless they are set."""
    fake = bench.fake("cline", {"out": '{"type":"run_result","text":"done"}\n'})
    await bench.ask(Cline(), "hi")
    assert ["--json", "-y"] == fake.run.argv[:-1]


async def test_cline_with_its_settings(bench: Bench) -> None:
    """Program, provider and model."""
    fake = bench.fake("cl", {"out": '{"type":"run_result","text":"done"}\n'})
    await bench.ask(Cline(binary=str(fake.path), provider="openai", model="big"), "hi")
    assert ["--json", "-y", "-P", "openai", "-m", "big"] == fake.run.argv[:-1]


async def test_an_error_that_cline_reports_is_no_answer(bench: Bench) -> None:
    """Its result may be the text of an error: then the turn has failed."""
    result = {"type": "run_result", "finishReason": "error", "text": "no key [file: /x]"}
    bench.fake("cline", {"out": json.dumps(result) + "\n"})
    heard = await bench.ask(Cline())
    assert (Reason.FAILED, True) == (heard.ending.reason, heard.ending.told)
    assert "cline reported an error: no key (file: /x]" in heard.ending.text


async def test_kilo(bench: Bench) -> None:
    """One run, all of stdout without colours."""
    fake = bench.fake("kilo", {"out": "\x1b[1mdone\x1b[0m\n"})
    heard = await bench.ask(Kilo(), "hi")
    assert ["run", "--auto"] == fake.run.argv[:-1]
    assert "done" == heard.ending.text


async def test_kilo_is_asked_for_its_events_when_it_wrote_nothing(bench: Bench) -> None:
    """The last text among the events is the answer."""
    events = [
        {"type": "step_start"},
        {"type": "text", "part": {"type": "text", "text": "first"}},
        {"type": "text", "part": {"type": "text", "text": "last"}},
        {"type": "step_finish", "part": {"type": "step-finish"}},
    ]
    out = "".join(json.dumps(event) + "\n" for event in events)
    fake = bench.fake("kilo", {}, {"out": out})
    heard = await bench.ask(Kilo(), "hi")
    assert ("last", Reason.COMPLETED) == (heard.ending.text, heard.ending.reason)
    first, second = fake.runs
    assert ["run", "--auto"] == first.argv[:-1]
    assert ["run", "--auto", "--format", "json"] == second.argv[:-1]


async def test_kilo_is_not_asked_again_after_an_error(bench: Bench) -> None:
    """A failed run is told; its work is not done twice."""
    fake = bench.fake("kilo", {"code": 1, "err": "no login"}, {"out": "never"})
    heard = await bench.ask(Kilo())
    assert "no login" in heard.ending.text
    assert 1 == len(fake.runs)
