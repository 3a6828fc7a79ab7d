"""``agent-connect channels check``: each channel, tried without sending (§15)."""

import logging
import os
import time
from functools import cache

import trio

from agentconnect.channels import file, http
from agentconnect.channels.file import Channels
from agentconnect.channels.registry import World, build
from agentconnect.cli.console import complain, say
from agentconnect.cli.options import Options, printable
from agentconnect.config import envfile, settings
from agentconnect.config.settings import LoadedSettings
from agentconnect.core.channels.diagnostic import diagnostic
from agentconnect.core.channels.ipc import Channel
from agentconnect.core.channels.sending import DeliveryError
from agentconnect.core.errors import SettingsError
from agentconnect.store.layout import Layout

WITHIN_S = 20.0


def run_channels(options: Options) -> int:
    """Try each channel without sending anything, one line each; 1 where one cannot be used."""
    logging.disable(logging.CRITICAL)  # the lines say it, in their own words
    loaded = _settings(options)
    chosen = loaded.settings
    path = chosen.channels_file or Layout(state_dir=chosen.workspace).channels("main")
    found = file.load(path, loaded.environment, chosen.credential[0])
    if not found.channels and not found.refusals:
        raise SettingsError(f"no channels are configured: {path} is not there (docs/channels.md)")
    for refusal in found.refusals:
        complain(refusal)
    good = trio.run(_tried, found)
    return 0 if good and not found.refusals else 1


def _settings(options: Options) -> LoadedSettings:
    path = envfile.locate(options.config, os.environ)
    values = envfile.read(path).parsed.values if path is not None else {}
    return settings.load(os.environ, values, config_file=path)


async def _tried(found: Channels) -> bool:
    """Whether all are good; the lines come in the file's order."""
    trust = cache(http.trust)
    world = World(lambda: http.HttpDoor(trust()), trust, time.time)
    good = True
    for name, channel in found.channels.items():
        fine, told = await _try(channel, world)
        good = good and fine
        say(f"{'ok  ' if fine else 'FAIL'}  {printable(name)} ({channel.type}): {printable(told)}")
    return good


async def _try(channel: Channel, world: World) -> tuple[bool, str]:
    try:
        with trio.fail_after(WITHIN_S):
            return True, await build(channel, world).check()
    except DeliveryError as error:
        return False, diagnostic(error, "", channel.all_secrets)
    except trio.TooSlowError:
        return False, f"no answer within {WITHIN_S:g} s"
    except Exception as error:  # noqa: BLE001 - one channel's fault is one line
        return False, type(error).__name__
