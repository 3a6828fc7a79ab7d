"""The real codex and cline command lines through our adapters, against the scripted model."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from agentconnect.adapters.cline import Cline
from agentconnect.adapters.codex import Codex
from agentconnect.adapters.oneshot import OneShotAdapter, OneShotSettings, Program
from agentconnect.core.task import Tier
from agentconnect.core.turns.events import Reason
from tests.adapters.rig import Heard, context, turn
from tests.agents.conftest import Model
from tests.support.adapters import running
from tests.support.worker import alive, children_of, until

pytestmark = [pytest.mark.agents, pytest.mark.timeout(300)]

_CODEX = """
model = "fake-model"
model_provider = "fake"
[model_providers.fake]
name = "Fake"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
"""
_READ_ONLY = "Read-only file system"


class Stage:
    """One program with a home of its own, pointed at the scripted model."""

    def __init__(self, binaries: Path, home: Path, work: Path, port: int) -> None:
        self.home = home
        self.work = work
        self.port = port
        self.environment = {
            "HOME": str(home),
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_PROXY": "127.0.0.1,localhost",
            "FAKE_KEY": "fake",
        }

    def adapter(self, program: Program) -> OneShotAdapter:
        """Our adapter for it."""
        settings = OneShotSettings(cwd=str(self.work))
        return OneShotAdapter(program, settings, environment=self.environment)

    async def ask(self, program: Program, message: str, tier: Tier = Tier.OWNER) -> Heard:
        """One message."""
        async with running(self.adapter(program)) as adapter:
            return await turn(adapter, context(message, cwd=str(self.work), tier=tier))


Staged = Callable[[str], Stage]


@pytest.fixture
def stage(installed: Callable[[str], Path], model: Model, home: Path, tmp_path: Path) -> Staged:
    """Given ``codex-cli`` or ``cline-cli``: the program, installed and set up."""

    def made(name: str) -> Stage:
        work = tmp_path / "work"
        work.mkdir()
        found = Stage(installed(name), home, work, model.port)
        if name == "codex-cli":
            (home / ".codex").mkdir()
            (home / ".codex" / "config.toml").write_text(_CODEX.format(port=model.port))
        else:
            url = f"http://127.0.0.1:{model.port}/v1"
            words = ["-p", "openai", "-k", "fake", "-m", "fake-model", "-b", url]
            subprocess.run(
                ["cline", "auth", *words],
                env=found.environment,
                cwd=work,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=120,
                check=True,
            )
        return found

    return made


async def test_codex_answers(stage: Staged) -> None:
    """stdout of ``codex exec`` is the answer and nothing else."""
    heard = await stage("codex-cli").ask(Codex(), "#say hello there")
    assert ("hello there", Reason.COMPLETED) == (heard.ending.text, heard.ending.reason)
    assert [] == heard.events


async def test_codex_takes_a_long_message_from_stdin(stage: Staged, model: Model) -> None:
    """200 KiB reach the model."""
    message = f"#say all read\n{'x ' * 100 * 1024}"
    heard = await stage("codex-cli").ask(Codex(), message)
    assert "all read" == heard.ending.text


async def test_codex_confines_by_tier(stage: Staged) -> None:
    """The owner's command writes in the working directory; the guest's cannot."""
    here = stage("codex-cli")
    await here.ask(Codex(), "#run touch owner.txt")
    assert (here.work / "owner.txt").exists()
    heard = await here.ask(Codex(network=True), "#run touch guest.txt", Tier.GUEST)
    assert not (here.work / "guest.txt").exists()
    assert _READ_ONLY in heard.ending.text


@pytest.mark.parametrize("network", [False, True])
async def test_codex_has_no_network_unless_the_owner_says_so(stage: Staged, network: bool) -> None:
    """A command of the owner's reaches a loopback port only with the setting."""
    here = stage("codex-cli")
    url = f"http://127.0.0.1:{here.port}/v1/models"
    code = f"import urllib.request as u; print('rea'+'ched', u.urlopen('{url}').status)"
    heard = await here.ask(Codex(network=network), f'#run python3 -c "{code}"')
    assert network == ("reached 200" in heard.ending.text)


async def test_codex_tells_what_failed(stage: Staged) -> None:
    """An error of the model service: the exit code and codex's own line, without its banner."""
    heard = await stage("codex-cli").ask(Codex(), "#error 400 bad thing")
    assert (Reason.FAILED, True) == (heard.ending.reason, heard.ending.told)
    assert "exit code 1" in heard.ending.text
    assert "ERROR" in heard.ending.text
    assert "workdir" not in heard.ending.text


async def test_codex_is_ended_with_its_group(stage: Staged, model: Model) -> None:
    """It hangs on the model; the interrupt leaves none of its processes."""
    here = stage("codex-cli")
    async with running(here.adapter(Codex())) as adapter:
        ctx = context("#hang", cwd=str(here.work))
        heard = Heard()
        async with adapter.session(ctx.key) as session, trio.open_nursery() as nursery:

            async def run() -> None:
                heard.done = await session.turn(ctx, heard.events.append)

            before = set(children_of(os.getpid()))
            nursery.start_soon(run)
            await until(lambda: "hang" in model.log.read_text(), "the question to the model", 60)
            pids = set(children_of(os.getpid())) - before
            assert pids
            await session.interrupt()
        await until(lambda: not any(map(alive, pids)), "its end")
    assert Reason.TIMEOUT is heard.ending.reason


async def test_cline_answers(stage: Staged) -> None:
    """The text of its ``run_result`` event is the answer."""
    submit = json.dumps({"summary": "The work is done as asked.", "verified": True})
    heard = await stage("cline-cli").ask(
        Cline(provider="openai-compatible", model="fake-model"), f"#call submit_and_exit {submit}"
    )
    assert Reason.COMPLETED is heard.ending.reason, heard.ending
    assert heard.ending.text.endswith("The work is done as asked.")
    assert "{" not in heard.ending.text
