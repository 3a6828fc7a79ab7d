"""agentconnect: the worker that joins a chat room to the coding agent on your machine."""
