"""``agent-connect relay``: the embedded relay alone, and agents for it (relay-wire.md §20.1)."""

from pathlib import Path

import trio

from agentconnect.cli.options import Options
from agentconnect.cli.places import listen_at, made_folder, user
from agentconnect.core.errors import SettingsError, WorkspaceHeldError
from agentconnect.embedded.local import add_agent_beside
from agentconnect.embedded.server import open_embedded
from agentconnect.status import logs
from agentconnect.stopping import Stop, watch_signals
from agentconnect.store.lock import WorkspaceLock


def run_relay(options: Options) -> int:
    """The embedded relay alone."""
    home = made_folder(options.directory, "relay")
    try:
        lock = WorkspaceLock.acquire(home / "lock", mend="--dir")
    except WorkspaceHeldError:
        if options.add_agent is None:
            raise
        return trio.run(_add_to_running, options.add_agent, home)
    logs.configure("text")
    with lock:
        return trio.run(_relay_session, options, home)


async def _relay_session(options: Options, home: Path) -> int:
    host, port = listen_at(options.listen, default=("127.0.0.1", 8460))
    public = (options.public_url or "").rstrip("/")
    stop = Stop()
    async with (
        trio.open_nursery() as root,
        open_embedded(home, host=host, port=port, public_url=public) as relay,
    ):
        await root.start(watch_signals, stop, root.cancel_scope)
        _owner, link = await relay.ensure_owner(user())
        (home / "address").write_text(relay.base + "\n")
        print(f"relay: {relay.base}\nroom page: {relay.page_url(link)}", flush=True)
        if options.add_agent is not None:
            _show_agent(*await relay.add_agent(options.add_agent.strip() or "agent"))
        await stop.wait()
        root.cancel_scope.cancel(reason="asked to stop")
    return 128 + stop.second_signal if stop.second_signal else 0


async def _add_to_running(name: str, home: Path) -> int:
    """The relay runs in another process: make the identity in its database."""
    try:
        base = (home / "address").read_text().strip()
    except FileNotFoundError:
        raise SettingsError("the relay is still starting: try again in a moment") from None
    _show_agent(*await add_agent_beside(home, base, name.strip() or "agent"))
    return 0


def _show_agent(user_id: str, token: str, command: str) -> None:
    print(f"\n{user_id} is made. Its token and command are shown this once:\n")
    print(f"  {token}\n\n  {command}\n", flush=True)
