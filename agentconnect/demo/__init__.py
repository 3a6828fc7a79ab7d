"""The bundled demonstration agent: a child process on the official ACP SDK."""
