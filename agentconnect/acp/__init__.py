"""Talking to a local agent: the front door (acp.md, worker.md §8)."""

from agentconnect.acp.agent import Agent
from agentconnect.acp.links import dialler
from agentconnect.acp.messages import Modes
from agentconnect.acp.paths import resolve_all
from agentconnect.acp.presets import PRESETS, Preset
from agentconnect.acp.process import Spawner
from agentconnect.acp.prompt import attach

__all__ = [
    "PRESETS",
    "Agent",
    "Modes",
    "Preset",
    "Spawner",
    "attach",
    "dialler",
    "resolve_all",
]
