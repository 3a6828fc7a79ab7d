"""The daemon in a real worker, with a real agent child and a real channel worker."""
