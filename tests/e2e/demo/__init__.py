"""The bundled agent as a child process."""
