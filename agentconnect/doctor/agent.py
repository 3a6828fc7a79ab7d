"""The agent: is its program there, does it start, would the service find it too.

Over ACP it is started as for a turn and asked who it is, nothing more: no session, no prompt, no
tokens. ``npx`` is kept from fetching anything.
"""

import os
import shutil
from collections.abc import Iterable

import msgspec
import trio

from agentconnect import wiring
from agentconnect.acp import PRESETS, Preset
from agentconnect.adapters import executables, registry
from agentconnect.adapters.childenv import child_environment
from agentconnect.adapters.cline import Cline
from agentconnect.adapters.codex import Codex
from agentconnect.adapters.contract import Adapter
from agentconnect.adapters.kilo import Kilo
from agentconnect.adapters.omnigent import Omnigent
from agentconnect.adapters.oneshot import Program
from agentconnect.config.envfile import expand_home
from agentconnect.config.settings import LoadedSettings, secret_names
from agentconnect.core.doctor import Finding, failure, interpreter, major, ok, warning
from agentconnect.core.errors import AgentConnectError, PreflightError, SettingsError
from agentconnect.doctor.folders import working_directory
from agentconnect.doctor.programs import ask, head
from agentconnect.doctor.service import Installed
from agentconnect.store.layout import Layout

PREFLIGHT_S = 10.0
VERSION_S = 5.0
NODE_MAJOR = 18
_NODE_WORDS = frozenset({"npx", "npm", "node"})
COMMAND = "AGENT_CONNECT_ACP_COMMAND"
_NOT_CHECKED = warning(
    "agent", "not checked: a setting about it is wrong", "mend the settings first"
)
_NODE_MEND = "install Node.js 18 or newer, so that node and npx are on PATH"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The program that the settings name: its word, how to get it, how to log in."""

    word: str
    install: str
    login: str = ""
    version: bool = False
    """It may be asked for its version: a known program, not a command of the owner's."""


async def look(loaded: LoadedSettings, where: Layout, unit: Installed | None) -> list[Finding]:
    """The lines about the agent."""
    if loaded.settings.adapter not in registry.NAMES:
        text = "not checked: no adapter says which agent it is"
        return [warning("agent", text, "set AGENT_CONNECT_ADAPTER first")]
    if loaded.environment.get(COMMAND, "").strip() and not loaded.settings.acp_command:
        return [_NOT_CHECKED]
    environment = child_environment(loaded.environment, secret_names())
    cwd = await trio.to_thread.run_sync(_cwd, loaded)
    wanted = await trio.to_thread.run_sync(_wanted, loaded)
    if wanted is None:
        return await _start(loaded, where, cwd, None)
    found = await trio.to_thread.run_sync(executables.find, wanted.word, environment, cwd)
    if found is None:
        text = f"the program {wanted.word} is not on PATH ({environment.get('PATH') or 'empty'})"
        if "/" in wanted.word:
            text = f"the program {wanted.word} is not there, or may not be executed (chmod +x)"
        return [failure("agent.program", text, wanted.install)]
    needed = [wanted.word, *await trio.to_thread.run_sync(_interpreters, found)]
    findings = await _program(wanted, found, environment, cwd)
    findings += await _node(needed, environment, cwd)
    findings += await trio.to_thread.run_sync(_as_a_service, needed, environment, unit)
    if loaded.settings.adapter == "acp":
        findings += await _start(loaded, where, cwd, wanted)
    return findings


def _cwd(loaded: LoadedSettings) -> str:
    """Where it would run; before the first start there may be no such folder."""
    place = working_directory(loaded)
    return str(place.resolve() if place.is_dir() else "/")


def _wanted(loaded: LoadedSettings) -> Wanted | None:
    """None where there is no program: dialled, ollama, or nothing named."""
    chosen = loaded.settings
    if chosen.adapter != "acp":
        return _one_shot(loaded)
    if chosen.acp_url:
        return None
    if chosen.acp_command:
        mend = "try AGENT_CONNECT_ACP_COMMAND in a shell, in the working directory"
        return Wanted(word=chosen.acp_command[0], install=mend)
    preset = PRESETS.get(chosen.acp_agent)
    if preset is None:
        return None
    word = preset.command(loaded.environment.get("PATH", os.defpath))[0]
    return Wanted(word=word, install=_install(preset, word), login=preset.login)


def _install(preset: Preset, word: str) -> str:
    return f"{_NODE_MEND}; then: {preset.install}" if word in _NODE_WORDS else preset.install


def _one_shot(loaded: LoadedSettings) -> Wanted | None:
    chosen = loaded.settings
    programs: dict[str, Program] = {
        "cline": Cline(binary=chosen.cline_bin, provider="", model=""),
        "codex": Codex(),
        "kilo": Kilo(binary=chosen.kilo_bin),
        "omnigent": Omnigent(binary=chosen.omnigent_bin, harness="", model=""),
    }
    program = programs.get(chosen.adapter)
    if program is None:
        return None
    word = expand_home(program.binary, loaded.environment)
    other = f"; or name it with {program.setting}" if program.setting else ""
    return Wanted(word=word, install=program.install + other, version=True)


def _interpreters(path: str) -> list[str]:
    """What a script needs beside itself."""
    found = interpreter(head(path))
    return [found] if found else []


async def _program(
    wanted: Wanted, found: str, environment: dict[str, str], cwd: str
) -> list[Finding]:
    if not wanted.version:
        return [ok("agent.program", found)]
    try:
        said = await ask([found, "--version"], environment, cwd, VERSION_S)
    except OSError as error:
        text = f"{found} cannot be run: {error.strerror}"
        return [failure("agent.program", text, wanted.install)]
    if said.code:
        text = f"{found} --version ended with code {said.code}: {said.line or 'nothing was said'}"
        return [
            warning("agent.program", text, f"try it in a shell; if it is broken: {wanted.install}")
        ]
    return [ok("agent.program", f"{found}, {said.line or 'which does not tell its version'}")]


async def _node(needed: list[str], environment: dict[str, str], cwd: str) -> list[Finding]:
    """Node.js, where the agent is one of its programs."""
    if not any(os.path.basename(word) in _NODE_WORDS for word in needed):  # noqa: PTH119
        return []
    node = shutil.which("node", path=environment.get("PATH", os.defpath))
    if node is None:
        return [failure("agent.node", "the agent needs node, which is not on PATH", _NODE_MEND)]
    try:
        said = await ask([node, "--version"], environment, cwd, VERSION_S)
    except OSError as error:
        return [failure("agent.node", f"{node} cannot be run: {error.strerror}", _NODE_MEND)]
    number = major(said.line)
    if number is not None and number < NODE_MAJOR:
        text = f"{node} is {said.line}, which is too old for agents"
        return [failure("agent.node", text, _NODE_MEND)]
    return [ok("agent.node", f"{node} {said.line}")]


def _as_a_service(
    needed: Iterable[str], environment: dict[str, str], unit: Installed | None
) -> list[Finding]:
    """What this shell finds and the service does not (field report D20)."""
    if unit is None:
        return []
    missing = {
        word: shutil.which(word, path=environment.get("PATH", os.defpath))
        for word in needed
        if "/" not in word and shutil.which(word, path=unit.path) is None
    }
    if not missing:
        return [ok("agent.service", "the service finds the agent too")]
    here = ", ".join(
        f"{word} (here: {place or 'not found either'})" for word, place in missing.items()
    )
    text = f"the service does not find {here}: its PATH is {unit.path}"
    mend = "run agent-connect service install again, in a shell where the agent works"
    return [failure("agent.service", text, mend)]


async def _start(
    loaded: LoadedSettings, where: Layout, cwd: str, wanted: Wanted | None
) -> list[Finding]:
    """The worker's own check before its first task."""
    loaded = msgspec.structs.replace(
        loaded, environment={**loaded.environment, "npm_config_offline": "true"}
    )
    try:
        adapter = await trio.to_thread.run_sync(
            lambda: registry.build(loaded.settings.adapter, wiring.makers(loaded, cwd, where, None))
        )
        description = await _preflight(adapter)
    except SettingsError:
        return [_NOT_CHECKED]
    except AgentConnectError as error:
        return [_would_not_start(str(error), wanted or _unstarted(loaded))]
    if description is None:
        text = f"the agent did not answer within {PREFLIGHT_S:g} s"
        mend = "try its command in a shell; the worker waits longer, but a room would wait too"
        return [warning("agent.start", text, mend)]
    findings = [ok("agent.start", f"starts: {description}")]
    if wanted is not None and wanted.login:
        text = "whether it is logged in shows with the first message only"
        findings.append(ok("agent.login", f"{text}; to log in: {wanted.login}"))
    return findings


def _unstarted(loaded: LoadedSettings) -> Wanted:
    """What to do about an agent that is no program of ours to start."""
    chosen = loaded.settings
    if chosen.adapter == "ollama":
        return Wanted(word="", install=f"ollama serve, and: ollama pull {chosen.ollama_model}")
    if chosen.acp_url:
        return Wanted(word="", install="start that agent, or correct AGENT_CONNECT_ACP_URL")
    return Wanted(word="", install="for example AGENT_CONNECT_ACP_AGENT=claude")


def _would_not_start(said: str, wanted: Wanted) -> Finding:
    if wanted.word == "npx" and "ENOTCACHED" in said:
        text = "the agent is not installed; npx will fetch it at the worker's first start"
        return warning("agent.start", text, wanted.install)
    if "not logged in" in said:
        how = wanted.login or "log in to it"
        return failure("agent.login", said, f"{how}, in your own shell")
    return failure("agent.start", said, wanted.install)


async def _preflight(adapter: Adapter) -> str | None:
    """What it says it is; None where it says nothing in time. Its processes end with this."""
    refused: list[PreflightError] = []
    description: str | None = None
    async with trio.open_nursery() as agents:
        await agents.start(adapter.run)
        with trio.move_on_after(PREFLIGHT_S):  # may end: it does not answer
            try:
                description = await adapter.preflight()
            except PreflightError as error:  # out of the nursery first: no group around it
                refused.append(error)
        agents.cancel_scope.cancel()
    if refused:
        raise refused[0]
    return description
