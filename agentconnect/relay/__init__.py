"""Talking to the broker: tasks in, answers out, room ops beside them (relay-wire.md)."""

from agentconnect.relay.client import Relay, RelayConfig, open_relay
from agentconnect.relay.state import RelayStatus

__all__ = ["Relay", "RelayConfig", "RelayStatus", "open_relay"]
