"""The command line: arguments, settings, exit codes; the only folder that prints."""
