"""The worker as a service of its user: what the files say, and putting them there (worker.md §17).

``place`` names things, ``systemd``, ``launchd`` and ``launcher`` are text without I/O, ``install``
carries out. No file of a service holds a token: the config file does.
"""
