# What every launcher does before it becomes the worker: read here by scripts/run-agent.sh, copied
# by "agent-connect service install" into launch.sh. POSIX sh. It expects
#   worker         a function that runs the worker's program
#   _default       the config file when AGENT_CONNECT_CONFIG names none; may be missing or empty
#   _unit, _label  the service's names, or empty
# and it starts nothing. The settings stay in the config file: the worker reads them itself, so that
# a new token in the file reaches it without a restart.

say() { printf 'agent-connect: %s\n' "$*" >&2; }

trim() {
  _t="${1#"${1%%[![:space:]]*}"}"
  printf '%s' "${_t%"${_t##*[![:space:]]}"}"
}

# What tells a process from a later one with the same number; fails when it is gone.
started() {
  if [ -r /proc/self/stat ]; then
    _stat="$(cat "/proc/$1/stat" 2>/dev/null)" || return 1
    set -f
    # shellcheck disable=SC2086
    set -- ${_stat##*) }
    set +f
    [ "$1" != Z ] || return 1
    printf '%s-%s' "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)" "${20}"
  else
    _stat="$(TZ=UTC LC_ALL=C ps -o lstart= -p "$1" 2>/dev/null)" || return 1
    printf '%s' "$_stat" | tr -s ' :' '--'
  fi
}

# Whether a remembered process still is the worker of this workspace. Launchers of old wrote numbers
# only: there the status file, or the relay process that was once beside the worker, decides.
ours() {
  _now="$(started "$1")" || return 1
  if [ -n "$2" ]; then
    [ "$_now" = "$2" ]
    return
  fi
  case "$(ps -o args= -p "$1" 2>/dev/null)" in
    *ag2-sparrow* | *ag2_sparrow*) return 0 ;;
    *agent-connect* | *agent_connect* | *agentconnect*) ;;
    *) return 1 ;;
  esac
  grep -Eq "\"pid\": *$1([^0-9]|\$)" "$_workspace/status.json" 2>/dev/null
}

# Ends the worker that a launcher started before, and waits for it as long as a stop may take.
clear_last() {
  [ -f "$_pids" ] || return 0
  for _word in $(cat "$_pids"); do
    _pid="${_word%%:*}"
    _was="${_word#"$_pid"}"
    _was="${_was#:}"
    case "$_pid" in '' | *[!0-9]* | 0 | 1 | "$$") continue ;; esac
    ours "$_pid" "$_was" || continue
    say "ending the worker that runs already (pid $_pid)"
    kill "$_pid" 2>/dev/null || continue
    _waited=0
    while [ "$_waited" -lt 45 ] && ours "$_pid" "$_was"; do
      sleep 1
      _waited=$((_waited + 1))
    done
  done
  rm -f "$_pids"
}

# Two launchers that end each other's worker in turn help nobody.
refuse_beside_service() {
  if [ -n "$_unit" ] && command -v systemctl >/dev/null 2>&1; then
    _shown="$(systemctl --user show -p ActiveState -p MainPID "$_unit" 2>/dev/null)" || return 0
    case "$_shown" in
      *ActiveState=active* | *ActiveState=activating*) ;;
      *) return 0 ;;
    esac
    case "$_shown." in *"MainPID=$$"[!0-9]*) return 0 ;; esac
    say "the service $_unit runs this worker already. Restart it: systemctl --user restart $_unit"
    exit 4
  fi
  if [ -n "$_label" ] && command -v launchctl >/dev/null 2>&1; then
    _shown="$(launchctl list "$_label" 2>/dev/null)" || return 0
    case "$_shown" in *'"PID" = '*) ;; *) return 0 ;; esac
    case "$_shown" in *"\"PID\" = $$;"*) return 0 ;; esac
    say "the service $_label runs this worker already. Restart it: launchctl kickstart -k gui/$(id -u)/$_label"
    exit 4
  fi
}

if [ -z "${AGENT_CONNECT_CONFIG:-}" ] && [ -n "$_default" ]; then
  AGENT_CONNECT_CONFIG="$_default"
fi
if [ -n "${AGENT_CONNECT_CONFIG:-}" ]; then export AGENT_CONNECT_CONFIG; fi

_cfg="$(worker --export-config)" || exit 1
_workspace="$(
  eval "$_cfg"
  if [ -z "$(trim "${AGENT_CONNECT_TOKEN:-}${REMOTE_TASK_TOKEN:-}")" ]; then
    say "no token: put AGENT_CONNECT_TOKEN into ${AGENT_CONNECT_CONFIG:-the environment}"
    exit 2
  fi
  if [ -n "${_needs_adapter:-}" ] && [ -z "$(trim "${AGENT_CONNECT_ADAPTER:-}")" ]; then
    say "no adapter: set AGENT_CONNECT_ADAPTER, for example to acp"
    exit 2
  fi
  trim "${AGENT_CONNECT_WORKSPACE:-}"
)" || exit 2
unset _cfg
case "$_workspace" in
  '') _workspace="$HOME/.agent-connect/workspace" ;;
  '~') _workspace="$HOME" ;;
  '~/'*) _workspace="$HOME/${_workspace#'~/'}" ;;
esac
_pids="$_workspace/.worker.pids"

if [ "${1:-}" = stop ]; then
  clear_last
  exit 0
fi
refuse_beside_service
(umask 077 && mkdir -p "$_workspace") || exit 1
clear_last
(umask 077 && printf '%s:%s\n' "$$" "$(started "$$")" >"$_pids") || exit 1
