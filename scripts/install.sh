#!/bin/sh
# Installs agent-connect for this user, writes its settings and starts it as a service. POSIX sh.
# Running it again keeps what is there and changes only what you name.
#
#   curl -fsSL <address>/install.sh | sh -s -- --adapter acp --acp-agent claude
#   sh scripts/install.sh --help
set -eu

# Read whole before anything runs: a download that was cut short does nothing, and no program that is
# started here can read the rest of the script from stdin.
main() {

# The same line is in agentconnect/acp/presets.py; a test compares them.
ACP_BRIDGE_SPEC="@agentclientprotocol/claude-agent-acp@0.64.2"
PIP_SPEC="${AGENT_CONNECT_PIP_SPEC:-agentconnect}"
BRIDGE_SPEC="${AGENT_CONNECT_ACP_BRIDGE_SPEC:-$ACP_BRIDGE_SPEC}"

usage() {
  cat <<'TEXT'
usage: install.sh [FLAG...]      each flag also as --flag=value

  --token TOKEN        the token of the agent identity. Other users of this machine can see it in the
                       list of processes while this runs, and your shell remembers it: better leave it
                       out and be asked, or set AGENT_CONNECT_TOKEN. "-" reads one line of stdin
  --adapter NAME       codex, ollama, omnigent, cline, kilo or acp (default: codex)
  --acp-agent NAME     with acp: the agent (default: claude)
  --acp-command LINE   with acp: any other agent by its command line
  --acp-url URL        with acp: an agent that runs already, ws:// or wss://
  --acp-token TOKEN    the bearer for that agent ("-": one line of stdin)
  --repo PATH          the directory the agent works in (default: ~/agents)
  --no-start           write everything, start nothing
  -h, --help           print this text

Each of them but the last two is also a variable: AGENT_CONNECT_TOKEN, AGENT_CONNECT_ADAPTER,
AGENT_CONNECT_ACP_AGENT, AGENT_CONNECT_ACP_COMMAND, AGENT_CONNECT_ACP_URL, AGENT_CONNECT_ACP_TOKEN,
AGENT_CONNECT_REPO. A run over an existing installation keeps the settings that are not named.
AGENT_CONNECT_PIP_SPEC is what to install instead of the published package, a checkout for example.
TEXT
}

say() { printf 'install: %s\n' "$*"; }
warn() { printf 'install: WARNING: %s\n' "$*" >&2; }
refuse() {
  _code="$1"
  shift
  printf 'install: %s\n' "$*" >&2
  exit "$_code"
}

retired() {
  refuse 2 "--sutando-workspace is retired: there is no separate relay process any more, so nothing" \
    "reads that directory. Leave the flag and AGENT_CONNECT_SUTANDO_WORKSPACE out; the worker's own" \
    "folder is AGENT_CONNECT_WORKSPACE in ~/.agent-connect/config.env."
}

# --- what was asked for: a flag, else the variable

[ -z "${AGENT_CONNECT_SUTANDO_WORKSPACE:-}" ] || retired
token="${AGENT_CONNECT_TOKEN:-}"
adapter="${AGENT_CONNECT_ADAPTER:-}"
agent="${AGENT_CONNECT_ACP_AGENT:-}"
command="${AGENT_CONNECT_ACP_COMMAND:-}"
url="${AGENT_CONNECT_ACP_URL:-}"
bearer="${AGENT_CONNECT_ACP_TOKEN:-}"
repo="${AGENT_CONNECT_REPO:-}"
start=yes
unset AGENT_CONNECT_TOKEN AGENT_CONNECT_ACP_TOKEN # no program that is started here is given them

while [ $# -gt 0 ]; do
  flag="${1%%=*}"
  case "$1" in
    --sutando-workspace | --sutando-workspace=*) retired ;;
    --no-start) start=no ;;
    -h | --help)
      usage
      exit 0
      ;;
    --token=* | --adapter=* | --acp-agent=* | --acp-command=* | --acp-url=* | --acp-token=* | --repo=*)
      value="${1#*=}"
      ;;
    --token | --adapter | --acp-agent | --acp-command | --acp-url | --acp-token | --repo)
      [ $# -gt 1 ] || refuse 2 "$1 needs a value."
      value="$2"
      case "$value" in --*) refuse 2 "$1 needs a value, and $value is a flag of its own." ;; esac
      shift
      ;;
    *)
      usage >&2
      refuse 2 "unknown flag: $1"
      ;;
  esac
  case "$flag" in
    --no-start) ;;
    *) [ -n "$value" ] || refuse 2 "$flag needs a value." ;;
  esac
  case "$flag" in
    --token) token="$value" ;;
    --adapter) adapter="$value" ;;
    --acp-agent) agent="$value" ;;
    --acp-command) command="$value" ;;
    --acp-url) url="$value" ;;
    --acp-token) bearer="$value" ;;
    --repo) repo="$value" ;;
  esac
  shift
done

line_of_stdin() {
  IFS= read -r _line || [ -n "$_line" ] || refuse 2 "stdin held no line for $1."
  printf '%s' "$_line"
}
if [ "$token" = - ]; then token="$(line_of_stdin --token)"; fi
if [ "$bearer" = - ]; then bearer="$(line_of_stdin --acp-token)"; fi

lf='
'
cr="$(printf '\r')"
for value in "$token" "$adapter" "$agent" "$command" "$url" "$bearer" "$repo"; do
  case "$value" in
    *"$lf"* | *"$cr"*) refuse 2 "a value holds a line break, which a settings file cannot hold." ;;
  esac
done
case "$adapter" in
  '' | codex | ollama | omnigent | cline | kilo | acp) ;;
  *) refuse 2 "unknown adapter: $adapter (codex, ollama, omnigent, cline, kilo or acp)." ;;
esac
if [ -n "$url" ] && [ -n "$command" ]; then
  refuse 2 "--acp-url and --acp-command exclude each other: an agent is dialled or started."
fi

folder="$HOME/.agent-connect"
config="$folder/config.env"

# The first time there must be a token; later the stored one does. stdin may be this script, so the
# question goes to the terminal.
ask_token() {
  (: </dev/tty) 2>/dev/null || return 0 # there is no terminal
  printf 'install: paste the token of the agent identity (it is not shown): ' >/dev/tty
  _saved="$(stty -g </dev/tty 2>/dev/null)" || _saved=""
  trap 'stty "$_saved" </dev/tty 2>/dev/null; exit 130' INT TERM
  stty -echo </dev/tty 2>/dev/null || true
  IFS= read -r token </dev/tty || token=""
  [ -z "$_saved" ] || stty "$_saved" </dev/tty 2>/dev/null || true
  trap - INT TERM
  printf '\n' >/dev/tty
}
no_token() {
  refuse 2 "a token is needed: run this in a terminal to be asked, set AGENT_CONNECT_TOKEN, or use" \
    "--token. The place where the agent identity was made shows it."
}
if [ ! -f "$config" ] && [ -z "$token" ]; then
  ask_token
  [ -n "$token" ] || no_token
fi

# --- Python, and the worker

recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
python=""
for name in python3 python3.14 python3.13 python3.12 python3.11; do
  if command -v "$name" >/dev/null 2>&1 && recent "$name"; then
    python="$name"
    break
  fi
done
[ -n "$python" ] || refuse 1 "Python 3.11 or newer is needed and none was found. Please install it" \
  "(Debian, Ubuntu: apt install python3 python3-venv; macOS: brew install python)."

venv="$folder/venv"
worker=""

# A spec with the extra that dialling needs.
with_dial() {
  case "$1" in *'['*) printf '%s' "$1" ;; *) printf '%s[dial]' "$1" ;; esac
}

with_pipx() {
  command -v pipx >/dev/null 2>&1 || return 1
  # The published worker owns the same command; its place is taken.
  case "$(pipx list --short 2>/dev/null)" in
    *ag2-agent-connect*) pipx uninstall ag2-agent-connect >/dev/null 2>&1 || true ;;
  esac
  pipx install --force "$1" </dev/null || return 1
  worker="$(command -v agent-connect 2>/dev/null)" || worker="$HOME/.local/bin/agent-connect"
  case "$worker" in /*) ;; *) worker="$HOME/.local/bin/agent-connect" ;; esac
}

with_venv() {
  "$python" -m pip --version >/dev/null 2>&1 || "$python" -m ensurepip --version >/dev/null 2>&1 ||
    refuse 1 "pip is missing for $python. Please install it (Debian, Ubuntu: apt install" \
      "python3-venv python3-pip) or install pipx."
  recent "$venv/bin/python" || "$python" -m venv --clear "$venv" ||
    refuse 1 "no virtualenv could be made in $venv (Debian, Ubuntu: apt install python3-venv)."
  for old in "$venv"/lib/python*/site-packages/ag2_agent_connect-*; do
    [ ! -e "$old" ] || "$venv/bin/python" -m pip uninstall -q -y ag2-agent-connect || true
  done
  "$venv/bin/python" -m pip install -q --upgrade "$1" </dev/null ||
    refuse 1 "$1 could not be installed; pip's own words are above. From a checkout set" \
      "AGENT_CONNECT_PIP_SPEC to its path."
  worker="$venv/bin/agent-connect"
}

install_worker() {
  say "installing the worker ($1)"
  with_pipx "$1" || with_venv "$1"
  [ -x "$worker" ] || refuse 1 "the worker was installed, but $worker cannot be run."
}

umask 077
mkdir -p "$folder"
if [ -n "$url" ]; then spec="$(with_dial "$PIP_SPEC")"; else spec="$PIP_SPEC"; fi
install_worker "$spec"

# --- what is stored, read by the worker's own parser and nothing else

exported() { env -i HOME="$HOME" PATH="$PATH" "$worker" --config "$1" --export-config; }

# value_in EXPORTED NAME, in a shell without settings of its own
value_in() {
  (
    unset "$2"
    eval "$1"
    eval "printf '%s' \"\${$2:-}\""
  )
}

kept=""
if [ -f "$config" ]; then
  kept="$(exported "$config" 2>/dev/null)" ||
    refuse 1 "$config cannot be read by the worker: $worker --config $config --export-config says why."
fi
stored() { value_in "$kept" "$1"; }

if [ -z "$token" ]; then
  token="$(stored AGENT_CONNECT_TOKEN)"
  if [ -z "$token" ] && [ -z "$(stored REMOTE_TASK_TOKEN)" ]; then
    ask_token
    [ -n "$token" ] || no_token
  fi
fi
if [ -z "$adapter" ]; then adapter="$(stored AGENT_CONNECT_ADAPTER)"; fi
if [ -z "$adapter" ]; then adapter=codex; fi
if [ -z "$repo" ]; then repo="$(stored AGENT_CONNECT_REPO)"; fi
if [ -z "$repo" ]; then repo="$HOME/agents"; fi
case "$repo" in
  '~') repo="$HOME" ;;
  '~/'*) repo="$HOME/${repo#'~/'}" ;;
  /*) ;;
  *) repo="$PWD/$repo" ;;
esac

was_command="$(stored AGENT_CONNECT_ACP_COMMAND)"
was_url="$(stored AGENT_CONNECT_ACP_URL)"
was_bearer="$(stored AGENT_CONNECT_ACP_TOKEN)"
was_agent="$(stored AGENT_CONNECT_ACP_AGENT)"

drop_command() {
  [ -z "$was_command" ] || say "the stored AGENT_CONNECT_ACP_COMMAND is taken out: $1 is used now."
}
drop_url() {
  [ -z "$was_url" ] || say "the stored AGENT_CONNECT_ACP_URL and its token are taken out: $1 is used now."
}

if [ "$adapter" != acp ]; then
  if [ -n "$agent$command$url$bearer" ]; then
    warn "the acp settings that were named are ignored: the adapter is $adapter."
  fi
  if [ -n "$was_agent$was_command$was_url" ]; then
    say "the stored acp settings stay as they are; the adapter $adapter does not use them."
  fi
elif [ -n "$url" ]; then
  drop_command "--acp-url"
  if [ -z "$agent" ]; then agent="$was_agent"; fi
  if [ -z "$bearer" ] && [ "$url" = "$was_url" ]; then
    bearer="$was_bearer"
  elif [ -z "$bearer" ] && [ -n "$was_bearer" ]; then
    say "the stored AGENT_CONNECT_ACP_TOKEN is taken out: it was for another address."
  fi
elif [ -n "$command$agent" ]; then
  if [ -n "$command" ]; then
    drop_url "--acp-command"
    if [ -z "$agent" ]; then agent=custom; fi
  else
    drop_url "$agent"
    drop_command "$agent"
  fi
  [ -z "$bearer" ] || warn "--acp-token is ignored: it belongs to an agent named with --acp-url."
  bearer=""
else
  agent="$was_agent"
  command="$was_command"
  url="$was_url"
  if [ -z "$agent$command$url" ]; then agent=claude; fi
  if [ -z "$url" ] && [ -n "$bearer" ]; then
    warn "--acp-token is ignored: it belongs to an agent named with --acp-url."
    bearer=""
  elif [ -z "$bearer" ]; then
    bearer="$was_bearer"
  fi
  if [ -n "$url" ] && [ "$spec" = "$PIP_SPEC" ]; then
    spec="$(with_dial "$PIP_SPEC")"
    [ "$spec" = "$PIP_SPEC" ] || install_worker "$spec"
  fi
fi

# --- the working directory

if [ -d "$repo" ]; then
  say "the agent works in $repo"
else
  (umask 022 && mkdir -p "$repo") || refuse 1 "the working directory $repo cannot be made."
  say "the agent works in $repo: this directory was made now"
fi
case "$repo/" in
  "$HOME/Documents/"* | "$HOME/Desktop/"* | "$HOME/Downloads/"*)
    warn "$repo lies where some systems guard files: the agent may be refused there for no reason" \
      "that you can see. --repo names another directory."
    ;;
esac

# --- the agent

if [ "$adapter" = acp ] && [ -z "$command$url" ]; then
  if [ "$agent" = claude ]; then
    say "installing the bridge: npm install -g $BRIDGE_SPEC"
    if ! command -v npm >/dev/null 2>&1; then
      warn "npm is not there. Install Node.js, then run: npm install -g $BRIDGE_SPEC"
    elif ! npm install -g "$BRIDGE_SPEC" </dev/null; then
      warn "the bridge could not be installed. Mend that, then run: npm install -g $BRIDGE_SPEC"
    fi
  else
    say "the agent $agent is not installed by this; docs/agents.md says how its makers do it."
  fi
  say "log in to the agent yourself, in your own terminal: no window will open for that."
fi

# --- the settings

# Comments that this writes; they are not carried over, or each run would add them again.
comments() {
  cat <<'TEXT'
# Settings of agent-connect on this machine. Keep this file at mode 600: it holds the token.
# Names and meanings: docs/settings.md. NAME=value, one a line; nothing is expanded.
# Kept as they were:
# Written by install.sh, which changes these and no others:
TEXT
}

managed="AGENT_CONNECT_ADAPTER|AGENT_CONNECT_REPO"
[ -z "$token" ] || managed="$managed|AGENT_CONNECT_TOKEN"
if [ "$adapter" = acp ]; then
  managed="$managed|AGENT_CONNECT_ACP_AGENT|AGENT_CONNECT_ACP_COMMAND"
  managed="$managed|AGENT_CONNECT_ACP_URL|AGENT_CONNECT_ACP_TOKEN"
fi

# The old lines without those written anew. A byte order mark and the line ends of other systems go,
# since they would hide a line from this and not from the worker.
carried() {
  [ -f "$config" ] || return 0
  bom="$(printf '\357\273\277')"
  LC_ALL=C sed -e "1s/^$bom//" -e "s/$cr\$//" "$config" | LC_ALL=C tr '\r' '\n' |
    LC_ALL=C grep -Ev "^[[:blank:]]*(export[[:blank:]]+)?($managed)[[:blank:]]*=" |
    LC_ALL=C grep -vxF "$(comments)" || true
}

setting() { [ -z "$2" ] || printf '%s\n' "$1=\"$2\""; }

settings_text() {
  comments | sed -n 1,2p
  _old="$(carried)"
  if [ -n "$_old" ]; then
    comments | sed -n 3p
    printf '%s\n' "$_old"
  fi
  comments | sed -n 4p
  setting AGENT_CONNECT_TOKEN "$token"
  setting AGENT_CONNECT_ADAPTER "$adapter"
  setting AGENT_CONNECT_REPO "$repo"
  if [ "$adapter" = acp ]; then
    setting AGENT_CONNECT_ACP_AGENT "$agent"
    setting AGENT_CONNECT_ACP_COMMAND "$command"
    setting AGENT_CONNECT_ACP_URL "$url"
    setting AGENT_CONNECT_ACP_TOKEN "$bearer"
  fi
}

new="$config.new.$$"
trap 'rm -f "$new"' EXIT
settings_text >"$new"

# What was written must be what the worker reads.
read_back="$(exported "$new" 2>/dev/null)" || refuse 1 "the new settings cannot be read by the worker."
check() {
  [ "$(value_in "$read_back" "$1")" = "$2" ] ||
    refuse 1 "$1 would not be read as it was given; please write it into $config by hand."
}
[ -z "$token" ] || check AGENT_CONNECT_TOKEN "$token"
check AGENT_CONNECT_ADAPTER "$adapter"
check AGENT_CONNECT_REPO "$repo"
if [ "$adapter" = acp ]; then
  check AGENT_CONNECT_ACP_AGENT "$agent"
  check AGENT_CONNECT_ACP_COMMAND "$command"
  check AGENT_CONNECT_ACP_URL "$url"
  check AGENT_CONNECT_ACP_TOKEN "$bearer"
fi

if [ -f "$config" ]; then
  cp "$config" "$config.bak.$$"
  chmod 600 "$config.bak.$$"
  mv -f "$config.bak.$$" "$config.bak"
  say "the settings as they were: $config.bak"
fi
mv -f "$new" "$config"
say "settings: $config"

# --- launcher, service, start

if [ "$start" = no ]; then
  "$worker" --config "$config" service install --no-start
  say "nothing was started. To install the service: $worker --config $config service install"
else
  "$worker" --config "$config" service install ||
    refuse 1 "everything is written, but the worker does not run yet. Ask: $worker doctor"
  say "how it is: $worker status"
fi
command -v agent-connect >/dev/null 2>&1 ||
  say "agent-connect is not on your PATH: by its full name it is $worker"

}

main "$@"
