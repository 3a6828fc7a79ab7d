"""One command from its arguments to its exit code.

Trio, httpx and the servers are imported inside the functions that need them: ``--version`` and
``--export-config`` must start in a few milliseconds (design.md §6). Every refusal is one sentence
on stderr with ``agent-connect: `` in front, never a traceback (worker.md §1).
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from agentconnect.cli.console import ReaderGoneError, complain, put, say, speak_safely, warn
from agentconnect.core.errors import AgentConnectError, SettingsError, first_cause

if TYPE_CHECKING:
    from agentconnect.cli.options import Options


def main(argv: Sequence[str]) -> int:
    """Run one command; its exit code (design.md §3)."""
    speak_safely()
    try:
        if not {"-h", "--help"} & set(argv):
            return _version() if "--version" in argv else _parsed(argv)
        return _help()
    except KeyboardInterrupt:  # before the signal watcher is up, while modules are loaded too
        return 130
    except ReaderGoneError:
        return 1
    except Exception as error:  # noqa: BLE001 - the boundary of the program
        return _ended_by(first_cause(error))


def _help() -> int:
    from agentconnect.cli.options import USAGE

    put(USAGE.splitlines())
    return 0


def _version() -> int:
    from importlib.metadata import version  # half of what a short command would cost

    put([f"agent-connect {version('agentconnect')}"])
    return 0


def _parsed(argv: Sequence[str]) -> int:
    """The command that the arguments name."""
    from agentconnect.cli.options import HINT, UsageError, parse

    umask = os.umask(0o077)
    try:
        options = parse(argv)
        options.umask = umask
        if options.export:
            return _export(options)
        return _COMMANDS[options.command](options)
    except UsageError as error:
        complain(str(error))
        print(HINT, file=sys.stderr)
        return error.exit_code


def _ended_by(error: BaseException) -> int:
    """The sentence and the exit code of an error that ended the program."""
    import logging

    from agentconnect.status.logs import clean

    if isinstance(error, AgentConnectError):
        text = clean(str(error))
        whole = not isinstance(error, SettingsError)  # of those, each line is a refusal of its own
        for sentence in [text] if whole else text.splitlines():
            complain(sentence)
        return error.exit_code
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        complain(clean(f"{error.strerror or error}{where}"))
        return 1
    logging.getLogger("agentconnect").error("unexpected end", exc_info=error)
    complain(clean(f"unexpected error, {type(error).__name__}: {error}"))
    return 1


def _export(options: Options) -> int:
    from agentconnect.config.export import export_config

    lines, warnings = export_config(options.config, os.environ)
    warn(warnings)
    put(lines)
    return 0


def _run(options: Options) -> int:
    """The worker."""
    from agentconnect.cli.loading import load_settings

    loaded = load_settings(options)
    gc.disable()  # what is imported stays for good: looking through it again finds nothing
    import trio

    from agentconnect.app import run_worker
    from agentconnect.stopping import Stop

    gc.freeze()
    gc.enable()

    async def worker() -> int:
        return await run_worker(loaded, Stop(), say=say)

    return trio.run(worker)


def _local(options: Options) -> int:
    from agentconnect.cli.local import run_local

    return run_local(options)


def _relay(options: Options) -> int:
    from agentconnect.cli.relay import run_relay

    return run_relay(options)


def _status(options: Options) -> int:
    from agentconnect.cli.status import run_status

    return run_status(options)


def _deliveries(options: Options) -> int:
    from agentconnect.cli.deliveries import run_deliveries

    return run_deliveries(options)


def _service(options: Options) -> int:
    from agentconnect.cli.service import run_service

    return run_service(options)


def _channels(options: Options) -> int:
    from agentconnect.cli.channels import run_channels

    return run_channels(options)


def _notify(options: Options) -> int:
    from agentconnect.cli.notify import run_notify

    return run_notify(options)


def _schedule(options: Options) -> int:
    from agentconnect.cli.schedule import run_schedule

    return run_schedule(options)


def _channel_worker(_options: Options) -> int:
    """The child of the daemon; its pipes carry everything."""
    from agentconnect.channels.worker import run_channel_worker

    return run_channel_worker()


def _doctor(options: Options) -> int:
    from agentconnect.cli.doctor import run_doctor

    return run_doctor(options)


_COMMANDS: Mapping[str, Callable[[Options], int]] = {
    "": _run,
    "local": _local,
    "relay": _relay,
    "service": _service,
    "status": _status,
    "deliveries": _deliveries,
    "channels": _channels,
    "channel-worker": _channel_worker,
    "notify": _notify,
    "schedule": _schedule,
    "doctor": _doctor,
}
