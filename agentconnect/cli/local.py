"""``agent-connect local``: relay, page, worker and agent in one process (design.md §5)."""

import os
import shlex
import shutil
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import trio

from agentconnect.acp import PRESETS
from agentconnect.app import run_worker
from agentconnect.cli.console import complain, hush, say
from agentconnect.cli.loading import load_settings
from agentconnect.cli.options import Options, UsageError
from agentconnect.cli.places import listen_at, made_folder, user
from agentconnect.daemon.board import Board
from agentconnect.embedded.server import EmbeddedRelay, LocalSetup, open_embedded
from agentconnect.stopping import Stop
from agentconnect.store.delivery_record import posting_keys
from agentconnect.store.layout import Layout
from agentconnect.store.lock import WorkspaceLock

BUNDLED = (sys.executable, "-m", "agentconnect.demo")
"""The demonstration agent: a child process like any other."""

_SAY_LIMIT_S = 60.0


def run_local(options: Options) -> int:
    """Relay, page, worker and agent in one process."""
    if options.say is not None and not options.say.strip():
        raise UsageError("--say needs a message")
    home = made_folder(options.directory, "local")
    with WorkspaceLock.acquire(home / "lock", mend="--dir"):
        return trio.run(_local_session, options, home)


async def _local_session(options: Options, home: Path) -> int:
    host, port = listen_at(options.listen, default=("127.0.0.1", _last_port(home)))
    late, board = _LateKeys(), Board()
    async with open_embedded(
        home / "relay", host=host, port=port, extras=board, is_late=late
    ) as relay:
        _keep_port(home, relay.origin)
        setup = await relay.ensure_local(agent_name="helper", owner_name=user())
        loaded = load_settings(options, _local_fixed(setup.agent_token, home), _local_defaults)
        late.store = Layout(state_dir=loaded.settings.workspace).deliveries
        stop = Stop()
        answered: list[bool] = []
        async with trio.open_nursery() as nursery:

            async def ready() -> None:
                if options.say is None:
                    print(f"\nOpen the room in a browser:\n\n  {setup.page_url}\n")
                    print(_other_agent(loaded.settings.acp_command), end="")
                    print("Ctrl-C stops everything.", flush=True)
                else:
                    nursery.start_soon(_say, relay, setup, options.say, stop, answered)

            if options.say is not None:
                nursery.start_soon(_give_up, stop)
            speak = say if options.say is None else hush
            code = await run_worker(loaded, stop, say=speak, ready=ready, board=board)
            nursery.cancel_scope.cancel(reason="the worker ended")
    return code if options.say is None or answered or code else 1


class _LateKeys:
    """Whether the worker posts a late result under a key: its record says so before it posts."""

    def __init__(self) -> None:
        self.store: Path | None = None

    def __call__(self, key: str) -> bool:
        """Blocking. Raises: StoreUnreadableError."""
        return self.store is not None and key in posting_keys(self.store)


async def _say(
    relay: EmbeddedRelay, setup: LocalSetup, text: str, stop: Stop, answered: list[bool]
) -> None:
    """``--say``: one message; its final answer on stdout, a failure's reason on stderr."""
    event_id = await relay.post(setup.room_id, setup.owner_id, text)
    answer = await relay.answer_to(event_id)
    if await relay.failed(event_id):
        complain(answer)
    else:
        print(answer, flush=True)
        answered.append(True)
    stop.ask("said")


async def _give_up(stop: Stop) -> None:
    """``--say`` promises an end within a minute, whatever does not start or answer."""
    await trio.sleep(_SAY_LIMIT_S)
    if not stop.asked:
        complain(f"no answer came within {_SAY_LIMIT_S:.0f} s")
        stop.ask("no answer came")


def _local_fixed(token: str, home: Path) -> dict[str, str]:
    """What ``local`` decides: its own token, and a state folder that no other worker uses."""
    fixed = {"AGENT_CONNECT_TOKEN": token}
    if not os.environ.get("AGENT_CONNECT_WORKSPACE", "").strip():
        fixed["AGENT_CONNECT_WORKSPACE"] = str(home / "workspace")
    return fixed


def _local_defaults(chosen: Mapping[str, str]) -> dict[str, str]:
    """What ``local`` uses where nobody chose an agent: the bundled one, over ACP."""
    defaults = {"AGENT_CONNECT_ADAPTER": "acp"}
    named = ("AGENT_CONNECT_ACP_AGENT", "AGENT_CONNECT_ACP_COMMAND", "AGENT_CONNECT_ACP_URL")
    if not any(chosen.get(name, "").strip() for name in named):
        defaults["AGENT_CONNECT_ACP_COMMAND"] = shlex.join(BUNDLED)
    return defaults


def _other_agent(command: tuple[str, ...]) -> str:
    """A hint at a real agent that is installed; it is never started unasked: it costs money."""
    if command != BUNDLED:
        return ""
    found = [name for name, preset in PRESETS.items() if shutil.which(preset.binary)]
    if not found:
        return ""
    return f"A real agent is installed: AGENT_CONNECT_ACP_AGENT={found[0]} answers with it.\n"


def _last_port(home: Path) -> int:
    """The port of the last run if it is free, so that open pages find the room again; 0 = any."""
    try:
        port = int((home / "port").read_text().strip())
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except (OSError, ValueError, OverflowError):
        return 0
    return port


def _keep_port(home: Path, origin: str) -> None:
    (home / "port").write_text(origin.rpartition(":")[2] + "\n")
