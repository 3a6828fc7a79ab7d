"""A bearer that is rejected while the worker runs: held, looked up anew, and the work goes on."""

from pathlib import Path

import trio

from agentconnect.embedded.timing import Timing
from tests.e2e.faults.stand import POLL, Stand, stand
from tests.support.worker import until


async def test_a_401_does_not_end_the_worker_and_a_new_token_in_its_file_is_used(
    tmp_path: Path,
) -> None:
    """The running turn's answer arrives under the new secret; no restart, nothing lost."""
    config = trio.Path(tmp_path / "config.env")
    async with stand(tmp_path, timing=Timing(wait_cap_s=2.0)) as case:
        await config.write_text(f"AGENT_CONNECT_TOKEN={case.relay.token}\n")
        await config.chmod(0o600)
        await case.start(AGENT_CONNECT_TOKEN="", AGENT_CONNECT_CONFIG=str(config))
        pid = case.worker.process.pid
        source = await case.relay.say("wait go and say this")
        await case.asked("wait go and say this")
        setup = await case.relay.relay.ensure_local("Helper", "Olivia")  # the old secret ends here
        case.let("go")
        await until(lambda: case.of_relay("state") == "auth-wait", "an honest status")
        assert case.of_relay("inflight") == 1
        await config.write_text(f"AGENT_CONNECT_TOKEN={setup.agent_token}\n")
        await case.closed(source)
        await case.settled()
        assert case.worker.process.pid == pid
        assert await case.texts() == ["wait go and say this"]
        assert setup.agent_token.partition("|")[2] not in case.worker.output()


async def test_one_401_on_a_poll_does_not_end_the_process(tmp_path: Path) -> None:
    """An edge's hiccup without a token file: asked again within seconds, the task is answered."""
    async with stand(tmp_path) as case:
        await case.start()
        await hiccup(case, 401)
        await hiccup(case, 403)


async def hiccup(case: Stand, status: int) -> None:
    """The next poll is refused once; what is asked meanwhile is answered."""
    fault = case.plan(POLL, method="GET", status=status)
    await case.closed(await case.relay.say(f"echo before {status}"))
    await until(lambda: fault.times <= 0, "the refused poll")
    await case.closed(await case.relay.say(f"echo after {status}"))
    await case.settled()
    assert case.worker.connected()
