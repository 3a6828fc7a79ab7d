"""Channels: each workspace's file, read as the worker and ``channels check`` read it. Blocking.

Nothing is tried. No line holds a secret, and none a target's id, which labels are too.
"""

import re
import shlex
from collections.abc import Set as AbstractSet
from pathlib import Path

from agentconnect.channels import file
from agentconnect.config.settings import LoadedSettings
from agentconnect.core.doctor import Finding, failure, ok, warning
from agentconnect.core.relay.credential import Credential
from agentconnect.doctor.folders import working_directory
from agentconnect.store.layout import Layout
from agentconnect.store.workspaces import read_workspaces

_MEND = (
    "correct it (docs/channels.md), then restart the worker; agent-connect channels check "
    "tries each channel"
)
_LABEL = re.compile(r'targets\.".*"')
_TWICE = re.compile(r'^".*"(?= stands there twice)')


def look(loaded: LoadedSettings, where: Layout, credential: Credential | None) -> list[Finding]:
    """The lines about channels; none where the API is off and no channel is configured."""
    settings = loaded.settings
    files = file.files(where, settings.channels_file)
    served = _served(loaded, where) if settings.daemon_listen else files.keys()
    own = f"{credential.gateway}|{credential.secret.reveal()}" if credential is not None else ""
    findings: list[Finding] = []
    for workspace, path in files.items():
        if workspace in served:
            findings += _file(path, loaded, own)
        else:
            text = f"{path} is not used: no trusted workspace has the id {workspace}"
            mend = f"correct the folder's name or {where.workspaces}, then restart the worker"
            findings.append(warning("channels", text, mend))
    if not settings.daemon_listen:
        return [*findings, _unused()] if findings else []
    return findings or [ok("channels", "no channels are configured")]


def _served(loaded: LoadedSettings, where: Layout) -> AbstractSet[str]:
    found = read_workspaces(where.workspaces, working_directory(loaded))
    return {each.id for each in found.workspaces if each.trusted}


def _unused() -> Finding:
    mend = "set AGENT_CONNECT_DAEMON_LISTEN, for example to 127.0.0.1:4170, or take the file away"
    return warning("channels", "nothing is sent by a channel: the worker's API is off", mend)


def _file(path: Path, loaded: LoadedSettings, own: str) -> list[Finding]:
    found = file.load(path, loaded.environment, own)
    findings = [_refused(path, sentence) for sentence in found.refusals]
    if number := len(found.channels):
        text = f"{path}: {number} channel{'s' if number > 1 else ''} can be used"
        findings.append(ok("channels", text))
    if not findings and _is_missed(path, loaded):
        text = f"AGENT_CONNECT_CHANNELS_FILE names {path}, which is not there"
        mend = "put it there, or take the setting out; then restart the worker"
        findings.append(failure("channels", text, mend))
    return findings


def _is_missed(path: Path, loaded: LoadedSettings) -> bool:
    """It is not there, and the worker is told to read it."""
    settings = loaded.settings
    return bool(settings.daemon_listen) and path == settings.channels_file and not path.exists()


def _refused(path: Path, sentence: str) -> Finding:
    command = f"chmod 600 {shlex.quote(str(path))}"
    if sentence.endswith(f": {command}"):
        text = sentence.removesuffix(f": {command}")
        return failure("channels", text, f"{command} (it is read at the next start)")
    place = f"{path}: " if sentence.startswith(f"{path}: ") else ""
    said = _TWICE.sub("a name", sentence.removeprefix(place))
    return failure("channels", place + _LABEL.sub('targets."…"', said), _MEND)
