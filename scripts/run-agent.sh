#!/bin/sh
# Runs the worker of this checkout in the foreground, after ending the one that this started before.
# The config file is optional here: AGENT_CONNECT_TOKEN and AGENT_CONNECT_ADAPTER may stand in the
# environment.
#   scripts/run-agent.sh         becomes the worker
#   scripts/run-agent.sh stop    only ends the one that runs
set -eu
root="$(cd "$(dirname "$0")/.." && pwd)"
python="$("$root/scripts/_setup" run)"
worker() { "$python" -m agentconnect "$@"; }

_default="$HOME/.agent-connect/config.env"
[ -f "$_default" ] || _default=""
_unit=""
_label=""
if [ -z "${AGENT_CONNECT_CONFIG:-}${AGENT_CONNECT_WORKSPACE:-}" ]; then # the service's own workspace
  _unit="agent-connect.service"
  _label="space.ag2.agent-connect"
fi
_needs_adapter=yes
. "$root/agentconnect/service/launcher.sh"

exec "$python" -m agentconnect
