"""The channels file on disk, and its secrets where it says they are (channel-delivery.md §15.1).

Blocking. Whoever may read this file may send as the owner's bots, so one that others can read is
refused whole; each refusal is a sentence without a value.
"""

import errno
import os
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agentconnect.core.channels.declared import (
    ChannelsFile,
    Declared,
    SecretRef,
    quoted,
    read,
)
from agentconnect.core.channels.forms import Plain, address
from agentconnect.core.channels.ipc import Channel
from agentconnect.core.daemon.workspaces import PRIMARY_ID
from agentconnect.core.destination import Target
from agentconnect.core.relay import credential
from agentconnect.store.layout import Layout
from agentconnect.store.owners import read_owners

MOST_BYTES = 1024 * 1024
_SECRET_BYTES = 16 * 1024


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A source of webhooks (§14), its secret in hand."""

    secret: str
    targets: Mapping[str, Target]

    def __repr__(self) -> str:
        return f"Source({len(self.targets)} targets)"


class Channels(msgspec.Struct, frozen=True, kw_only=True):
    """The channels of one workspace, ready for its worker; and what to say about the rest."""

    channels: Mapping[str, Channel] = {}
    refusals: tuple[str, ...] = ()
    secret_variables: frozenset[str] = frozenset()
    """Variables that no agent's environment may have."""
    webhooks: Mapping[str, Mapping[str, Source]] = {}
    """By channel, then by source. A refused channel has none."""

    @property
    def secrets(self) -> frozenset[str]:
        """What no line of a log may hold."""
        held = {secret for one in self.channels.values() for secret in one.all_secrets}
        hooks = {source.secret for named in self.webhooks.values() for source in named.values()}
        return frozenset(held | hooks)

    def __repr__(self) -> str:
        return f"Channels({len(self.channels)} channels, {len(self.refusals)} refusals)"


def load(path: Path, environment: Mapping[str, str], own_token: str = "") -> Channels:
    """What ``path`` gives; a file that is not there gives nothing. Never raises.

    ``own_token`` is the worker's own, ``<relay address>|<secret>``, for ``room`` channels that
    name none.
    """
    try:
        data = _read(path)
    except FileNotFoundError:
        return Channels()
    except _Refused as refused:
        return Channels(refusals=(f"{path}: {refused}",))
    except OSError as error:
        return Channels(refusals=(f"{path} cannot be read: {error.strerror}",))
    return _resolved(path, read(data), environment, own_token)


def files(where: Layout, chosen: Path | None) -> dict[str, Path]:
    """The channels file of each workspace, the primary's first and even where it is missing.

    ``chosen`` is AGENT_CONNECT_CHANNELS_FILE, the primary's. Blocking.
    """
    found = where.channel_files()
    found.pop(PRIMARY_ID, None)
    return {PRIMARY_ID: chosen or where.channels(PRIMARY_ID), **found}


def names(path: Path) -> frozenset[str]:
    """The channels that ``path`` declares, their secrets not looked for. Never raises."""
    try:
        return frozenset(one.name for one in read(_read(path)).channels)
    except (OSError, _Refused):
        return frozenset()


class _Refused(Exception):
    """Why the file, or a channel of it, is not used."""


def _read(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(handle)  # of what was opened, not of what lies there by now
        if not stat.S_ISREG(found.st_mode):
            raise _Refused("it is no file")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise _Refused(f"others can use it: chmod 600 {shlex.quote(str(path))}")
        if found.st_size > MOST_BYTES:
            raise _Refused("it is larger than 1 MiB")
        return os.read(handle, MOST_BYTES + 1)
    finally:
        os.close(handle)


def _resolved(
    path: Path, file: ChannelsFile, environment: Mapping[str, str], own_token: str
) -> Channels:
    usable: dict[str, Channel] = {}
    webhooks: dict[str, Mapping[str, Source]] = {}
    refusals = [f"{path}: {sentence}" for sentence in file.refusals]
    for declared in file.channels:
        try:
            usable[declared.name] = _channel(declared, environment, own_token)
            webhooks[declared.name] = {
                source: Source(
                    secret=_secret(ingress.secret, environment, f"webhooks.{quoted(source)}"),
                    targets=ingress.targets,
                )
                for source, ingress in declared.webhooks.items()
            }
        except _Refused as refused:
            usable.pop(declared.name, None)
            refusals.append(f"{path}: channel {quoted(declared.name)} is left out: {refused}")
    return Channels(
        channels=usable,
        refusals=tuple(refusals),
        secret_variables=file.secret_variables,
        webhooks={name: sources for name, sources in webhooks.items() if sources},
    )


def _channel(declared: Declared, environment: Mapping[str, str], own_token: str) -> Channel:
    secrets = {name: _secret(ref, environment, name) for name, ref in declared.secrets.items()}
    options: dict[str, Plain] = dict(declared.options)
    if declared.type == "room":
        _split(secrets, options, own_token)
    targets = {
        label: {
            name: _secret(ref, environment, f"targets.{quoted(label)}.{name}")
            for name, ref in refs.items()
        }
        for label, refs in declared.targets.items()
    }
    for at, url in (("url", secrets.get("url", "")), *_urls(declared, targets)):
        if url and (problem := address(url)):
            raise _Refused(f"{at} {problem}")
    return Channel(
        type=declared.type,
        markdown=declared.markdown,
        options=options,
        secrets=secrets,
        targets=targets,
    )


def _urls(declared: Declared, targets: Mapping[str, Mapping[str, str]]) -> list[tuple[str, str]]:
    if declared.type == "apprise":  # addresses of the library's own kind
        return []
    return [(f"targets.{quoted(label)}.url", target["url"]) for label, target in targets.items()]


def _split(secrets: dict[str, str], options: dict[str, Plain], own_token: str) -> None:
    """A relay's token is an address and a secret in one."""
    token = secrets.get("token") or own_token
    if not token:
        raise _Refused("token_env or token_file is missing, and the worker has no token either")
    try:
        made = credential.build(token=token)
    except credential.CredentialError:
        raise _Refused("token must be <relay address>|<secret>") from None
    options["base"] = made.gateway
    secrets.update(token=token, secret=made.secret.reveal())


def _secret(ref: SecretRef, environment: Mapping[str, str], at: str) -> str:
    if ref.env:
        value = environment.get(ref.env, "").strip()
        if not value:
            raise _Refused(f"{at}_env names {ref.env}, which is not set")
    else:
        value = _from_file(ref.file, environment, at)
    if not value.isprintable() or not value.isascii():
        raise _Refused(f"{at} holds a character that no secret has")
    return value


def _from_file(name: str, environment: Mapping[str, str], at: str) -> str:
    path = Path(name)
    if name.startswith("~/"):
        path = Path(environment.get("HOME", "/")) / name[2:]
    try:
        data = read_owners(path)
        value = (data or b"").decode("utf-8").strip()
    except OSError as error:
        raise _Refused(f"{at}_file cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _Refused(f"{at}_file is no text") from None
    except ValueError as error:
        raise _Refused(f"{at}_file cannot be read: {error}") from None
    if data is None:
        raise _Refused(f"{at}_file cannot be read: {os.strerror(errno.ENOENT)}")
    if not value or len(data) > _SECRET_BYTES:
        raise _Refused(f"{at}_file is empty or too large")
    return value
