"""The contract every adapter keeps."""
