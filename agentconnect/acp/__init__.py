"""Talking to a local agent: the front door (acp.md, worker.md §8)."""

from agentconnect.acp.agent import Agent
from agentconnect.acp.extensions import Extensions
from agentconnect.acp.links import dialler
from agentconnect.acp.messages import (
    DELIVER,
    DELIVERS,
    DELIVERY,
    DESTINATION,
    NOTIFY,
    RECEIVES,
    AgentInfo,
    Meta,
    Modes,
    PromptBlock,
)
from agentconnect.acp.paths import real_folder, resolve_all
from agentconnect.acp.peer import Bounds, RequestRefused
from agentconnect.acp.presets import PRESETS, Preset
from agentconnect.acp.process import Spawner
from agentconnect.acp.prompt import attach, media_type, words

__all__ = [
    "DELIVER",
    "DELIVERS",
    "DELIVERY",
    "DESTINATION",
    "NOTIFY",
    "PRESETS",
    "RECEIVES",
    "Agent",
    "AgentInfo",
    "Bounds",
    "Extensions",
    "Meta",
    "Modes",
    "Preset",
    "PromptBlock",
    "RequestRefused",
    "Spawner",
    "attach",
    "dialler",
    "media_type",
    "real_folder",
    "resolve_all",
    "words",
]
