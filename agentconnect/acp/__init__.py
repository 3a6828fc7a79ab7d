"""Talking to a local agent: the front door (acp.md, worker.md §8)."""

from agentconnect.acp.agent import Agent
from agentconnect.acp.messages import Opened
from agentconnect.acp.paths import resolve_all
from agentconnect.acp.presets import PRESETS, Preset, executable_found
from agentconnect.acp.process import Spawner
from agentconnect.acp.prompt import attach

__all__ = [
    "PRESETS",
    "Agent",
    "Opened",
    "Preset",
    "Spawner",
    "attach",
    "executable_found",
    "resolve_all",
]
