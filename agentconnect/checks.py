"""Every refusal that settings can give, all at once (worker.md §3; §4, steps 4 to 7).

Looks at the disk, makes nothing and calls nobody: the start asks before it builds its parts, and
``doctor`` asks without a start. A wrong setting comes before a missing one.
"""

import logging
import os
from collections.abc import Callable

from agentconnect.acp import PRESETS, dialler
from agentconnect.adapters import registry
from agentconnect.config import settings as config
from agentconnect.config import workdir
from agentconnect.config.settings import LoadedSettings, Settings
from agentconnect.core.acp.endpoint import Endpoint, endpoint, remote_cwd, usable_token
from agentconnect.core.doctor import overlap_sentence, overlaps
from agentconnect.core.errors import AgentConnectError, SettingsError, first_cause
from agentconnect.core.relay import credential
from agentconnect.core.relay.credential import Credential, CredentialError
from agentconnect.core.turns import cli_text
from agentconnect.core.turns import wording_acp as wording
from agentconnect.daemon.setup import refusals as daemon_refusals

log = logging.getLogger("agentconnect")

_TOKEN_MENDS = {
    "no_token": " Paste the whole token: <relay address>|<secret>.",
    "no_gateway": " Paste the whole token, <relay address>|<secret>, or set REMOTE_TASK_URL.",
}


def refuse_wrong(loaded: LoadedSettings) -> None:
    """Stop the start where a setting is wrong or missing.

    Raises: SettingsError with a sentence a line.
    """
    sentences = refusals(loaded)
    if sentences:
        raise SettingsError("\n".join(sentences))


def refusals(loaded: LoadedSettings) -> tuple[str, ...]:
    """A sentence for each setting that stops the start, the wrong ones first. Blocking.

    Which agent runs is the preflight's to refuse (worker.md §8.3); it is said here only where the
    start is refused anyway.
    """
    settings = loaded.settings
    wrong = list(loaded.refusals)
    missing: list[str] = []
    if not settings.adapter:
        missing.append(registry.MISSING)
    elif settings.adapter not in registry.NAMES:
        wrong.append(registry.unknown(settings.adapter))
    else:
        wrong += _adapter_refusals(loaded)
    wrong += daemon_refusals(
        settings.daemon_listen, settings.daemon_token, settings.daemon_allow_origin
    )
    if problem := workdir.problem(settings.repo, loaded.environment):
        wrong.append(problem)
    if not settings.credential[0]:
        missing.append(config.NEEDS_CREDENTIAL)
    else:
        wrong += _told(lambda: bearer(settings))
    found = (*wrong, *missing)
    return (*found, *_unnamed_agent(loaded)) if found else ()


def bearer(settings: Settings) -> Credential:
    """The credential that the settings give.

    Raises: SettingsError that names the setting, never a value.
    """
    text, source = settings.credential
    try:
        return credential.build(token=text, base_url=settings.remote_task_url, source=source)
    except CredentialError as error:
        where = source
        bare = not credential.parse_token(text)[0].strip()
        if error.code == "bad_gateway" and bare and str(error) != credential.BAD_START:
            where = "REMOTE_TASK_URL"
        sentence = f"{where}: {error}{_TOKEN_MENDS.get(error.code, '')}"
        raise SettingsError(sentence) from None


def dialled(settings: Settings) -> Endpoint | None:
    """Where an agent is dialled; None where one is started.

    Raises: SettingsError.
    """
    if not settings.acp_url:
        return None
    return endpoint(
        settings.acp_url,
        allow_remote=settings.acp_allow_remote,
        command=bool(settings.acp_command),
    )


def private_places(loaded: LoadedSettings) -> tuple[str, ...]:
    """What is never sent as a file: the workspace, the config file; resolved. Blocking."""
    places = (loaded.settings.workspace, loaded.config_file)
    return tuple(os.path.realpath(place) for place in places if place is not None)


def warn_of_roots(
    dropped: tuple[str, ...], roots: tuple[str, ...], loaded: config.LoadedSettings
) -> None:
    """Say which egress roots are no usable folder, and which touch what is never sent (§10.1)."""
    for root in dropped:
        log.warning("egress root %s is not a usable folder: nothing is sent from there", root)
    for pair in overlaps(roots, private_places(loaded)):
        log.warning("egress root %s", overlap_sentence(pair))


def sentence(error: BaseException) -> str:
    """What the status file says of an ending: ours verbatim, anything else with its type."""
    first = first_cause(error)
    if isinstance(first, AgentConnectError):
        return str(first)
    return f"{type(first).__name__}: {first}"


def _adapter_refusals(loaded: LoadedSettings) -> list[str]:
    settings = loaded.settings
    if settings.adapter == "ollama":
        return _told(lambda: cli_text.ollama_base(settings.ollama_host))
    if settings.adapter != "acp" or not settings.acp_url:
        return []
    found = _told(lambda: _dialler(settings))
    found += _told(lambda: remote_cwd(settings.acp_remote_cwd, "/"))
    if not usable_token(settings.acp_token):
        found.append(wording.bad_acp_token())
    return found


def _dialler(settings: Settings) -> None:
    """The address may be dialled, and what dials is installed."""
    where = dialled(settings)
    if where is not None:
        dialler(where, _no_token)


async def _no_token() -> str:
    return ""


def _unnamed_agent(loaded: LoadedSettings) -> tuple[str, ...]:
    settings = loaded.settings
    if settings.adapter != "acp" or settings.acp_url or settings.acp_command:
        return ()
    if loaded.environment.get("AGENT_CONNECT_ACP_COMMAND", "").strip():
        return ()  # it names the agent, and is wrong: that is said already
    if not settings.acp_agent:
        return (wording.no_agent(tuple(PRESETS)),)
    if settings.acp_agent not in PRESETS:
        return (wording.unknown_preset(settings.acp_agent, tuple(PRESETS)),)
    return ()


def _told(check: Callable[[], object]) -> list[str]:
    try:
        check()
    except AgentConnectError as error:
        return [str(error)]
    return []
