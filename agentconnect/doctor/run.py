"""All checks, side by side and bounded; their lines in the order in which one mends them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import trio

from agentconnect import wiring
from agentconnect.config.settings import LoadedSettings
from agentconnect.core.doctor import Finding, Report, failure, report, warning
from agentconnect.doctor import agent, channels, daemon, folders, relay, service, setup, state
from agentconnect.doctor.setup import Setup

WITHIN_S = 14.0

T = TypeVar("T")
Check = Callable[[], Awaitable[Sequence[Finding]]]


async def examine(
    flag: str | None, environment: Mapping[str, str], child_umask: int = -1
) -> Report:
    """Look at everything. ``flag`` is the config file that was named. Raises nothing of its own."""
    first = await trio.to_thread.run_sync(setup.look, flag, environment, child_umask)
    findings = list(first.findings)
    if first.loaded is not None:
        findings += await _side_by_side(_checks(first, first.loaded))
    return report(findings, first.secrets)


def _checks(first: Setup, loaded: LoadedSettings) -> list[tuple[str, Check]]:
    where = wiring.layout(loaded.settings)

    async def about_the_agent() -> Sequence[Finding]:
        unit, found = await _in_thread(lambda: service.find(loaded))
        return [*found, *await agent.look(loaded, where, unit)]

    async def about_the_service() -> Sequence[Finding]:
        unit, _ = await _in_thread(lambda: service.find(loaded))
        return await service.look(unit, loaded)

    return [
        ("relay", lambda: relay.look(first.credential)),
        ("workdir", lambda: _in_thread(lambda: folders.look_at_workdir(loaded))),
        ("agent", about_the_agent),
        ("workspace", lambda: _in_thread(lambda: state.look(loaded, where, first.credential))),
        ("daemon", lambda: _in_thread(lambda: daemon.look(loaded, where))),
        (
            "channels",
            lambda: _in_thread(lambda: channels.look(loaded, where, first.credential)),
        ),
        ("egress", lambda: _in_thread(lambda: folders.look_at_egress(loaded))),
        ("service", about_the_service),
    ]


async def _side_by_side(checks: Sequence[tuple[str, Check]]) -> list[Finding]:
    found: dict[str, Sequence[Finding]] = {}

    async def one(name: str, check: Check) -> None:
        with trio.move_on_after(WITHIN_S):  # may end: a disk or a program that hangs
            try:
                found[name] = await check()
            except Exception as error:  # noqa: BLE001 - one check's fault costs no other
                text = f"could not be checked: {type(error).__name__}: {error}"
                found[name] = [failure(name, text, "this is a fault of ours: please report it")]
        if name not in found:
            text = f"not checked: it took longer than {WITHIN_S:g} s"
            found[name] = [warning(name, text, "a disk or a program hangs; look at it by hand")]

    async with trio.open_nursery() as nursery:
        for name, check in checks:
            nursery.start_soon(one, name, check)
    return [finding for name, _ in checks for finding in found[name]]


async def _in_thread(look: Callable[[], T]) -> T:
    return await trio.to_thread.run_sync(look, abandon_on_cancel=True)
