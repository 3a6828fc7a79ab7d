"""``agent-connect channels check``: each channel, tried without sending (§15)."""

import logging
import os
import time
from collections.abc import Mapping
from functools import cache

import trio

from agentconnect.channels import file, http
from agentconnect.channels.file import Channels
from agentconnect.channels.registry import World, build
from agentconnect.checks import bearer
from agentconnect.cli.console import complain, say
from agentconnect.cli.options import SENTENCE_CHARS, Options, printable
from agentconnect.config import envfile, settings
from agentconnect.config.settings import LoadedSettings, Settings
from agentconnect.core.channels.diagnostic import diagnostic
from agentconnect.core.channels.ipc import Channel
from agentconnect.core.channels.sending import DeliveryError
from agentconnect.core.daemon.workspaces import PRIMARY_ID
from agentconnect.core.errors import SettingsError
from agentconnect.store.layout import Layout

WITHIN_S = 20.0


def run_channels(options: Options) -> int:
    """Try each channel without sending anything, one line each; 1 where one cannot be used."""
    logging.disable(logging.CRITICAL)  # the lines say it, in their own words
    loaded = _settings(options)
    where = Layout(state_dir=loaded.settings.workspace)
    files = file.files(where, loaded.settings.channels_file)
    own = _own_token(loaded.settings)
    found = {
        workspace: file.load(path, loaded.environment, own) for workspace, path in files.items()
    }
    if not any(one.channels or one.refusals for one in found.values()):
        raise SettingsError(
            f"no channels are configured: {files[PRIMARY_ID]} is not there (docs/channels.md)"
        )
    refusals = [refusal for one in found.values() for refusal in one.refusals]
    for refusal in refusals:
        complain(refusal)
    good = trio.run(_tried, found)
    return 0 if good and not refusals else 1


def _settings(options: Options) -> LoadedSettings:
    path = envfile.locate(options.config, os.environ)
    values = envfile.read(path).parsed.values if path is not None else {}
    return settings.load(os.environ, values, config_file=path)


def _own_token(chosen: Settings) -> str:
    """The worker's own, address and secret in one; "" where there is none that can be used."""
    if not chosen.credential[0]:
        return ""
    try:
        made = bearer(chosen)
    except SettingsError:
        return ""
    return f"{made.gateway}|{made.secret.reveal()}"


async def _tried(found: Mapping[str, Channels]) -> bool:
    """Whether all are good; the lines come in the files' order."""
    trust = cache(http.trust)
    world = World(lambda: http.HttpDoor(trust()), trust, time.time)
    good = True
    for workspace, one in found.items():
        place = "" if workspace == PRIMARY_ID else f"{printable(workspace)}/"
        for name, channel in one.channels.items():
            fine, told = await _try(channel, world)
            good = good and fine
            named = f"{place}{printable(name)} ({channel.type})"
            say(f"{'ok  ' if fine else 'FAIL'}  {named}: {printable(told, SENTENCE_CHARS)}")
    return good


async def _try(channel: Channel, world: World) -> tuple[bool, str]:
    try:
        with trio.fail_after(WITHIN_S):
            return True, await build(channel, world).check()
    except DeliveryError as error:
        told = diagnostic(error, "", channel.all_secrets)
        if error.disposition == "permanent":
            return False, f"refused ({told}): look at what the channels file says of it"
        return False, f"it does not work now ({told})"
    except trio.TooSlowError:
        return False, f"no answer within {WITHIN_S:g} s"
    except Exception as error:  # noqa: BLE001 - one channel's fault is one line
        return False, type(error).__name__
