"""``python -m agentconnect`` and the console script ``agent-connect``: the same program."""

import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        from agentconnect.cli.main import main as cli_main  # Ctrl-C may come while it is loaded
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(cli_main(sys.argv[1:]))


if __name__ == "__main__":
    main()
