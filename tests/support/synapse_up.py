#!/usr/bin/env python3
# A tool of the project that came with its specifications, used as it is.
"""Start a throw-away Synapse (Matrix homeserver) on 127.0.0.1 for tests.

What it does, in order
  1. picks a free loopback port (or takes --port);
  2. writes a complete configuration into a data directory (SQLite, client API
     only, no federation, no key servers, rate limits lifted, password hashing
     made cheap), so that nothing outside this machine is ever contacted;
  3. starts ``python -m synapse.app.homeserver`` as a child process and waits
     until ``GET /health`` answers 200;
  4. registers the wanted users over the shared-secret admin API and logs the
     result (user id, device id, access token) as one JSON document;
  5. runs until SIGINT/SIGTERM or until its standard input closes
     (``--stdin-lifetime``), then ends its own child and, unless --keep is
     given, deletes the data directory it created.

Only the standard library is used, so the script itself runs under any Python
3.11+.  The interpreter that has ``matrix-synapse`` installed is named with
``--python`` (default: the interpreter running this script).  Nothing from that
environment ends up in the configuration, so the same data directory can be
reused from another environment.

Use from a shell
    python synapse_up.py --python VENV/bin/python --user alice --user bob:s3cret \
        --info info.json &
Use from tests
    with Synapse(python="VENV/bin/python") as hs:
        tok = hs.register("alice", admin=True)["access_token"]
        hs.base_url   # "http://127.0.0.1:PORT"

The printed JSON:
    {"base_url": ..., "server_name": "localhost", "pid": ..., "data_dir": ...,
     "start_seconds": 2.9, "registration_shared_secret": ...,
     "users": {"alice": {"user_id": "@alice:localhost", "device_id": ...,
                         "access_token": ..., "password": ...}}}

Every secret in it belongs to a server that is deleted afterwards.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def http(method: str, url: str, body: object | None = None,
         token: str | None = None, timeout: float = 15.0) -> tuple[int, dict]:
    """One JSON request; 4xx/5xx come back as a status, not as an exception."""
    data = None if body is None else json.dumps(body).encode()
    req = urllib.request.Request(url, data=data, method=method)
    if data is not None:
        req.add_header("Content-Type", "application/json")
    if token:
        req.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(req, timeout=timeout) as r:
            raw, status = r.read(), r.status
    except urllib.error.HTTPError as e:
        raw, status = e.read(), e.code
    try:
        return status, json.loads(raw or b"{}")
    except ValueError:
        return status, {"raw": raw.decode("utf-8", "replace")}


# A rate-limit entry that never triggers in a test run.
_OPEN = {"per_second": 10_000, "burst_count": 10_000}


def config(data: Path, port: int, server_name: str, secret: str,
           rate_limits: bool) -> dict:
    cfg: dict = {
        "server_name": server_name,
        "public_baseurl": f"http://127.0.0.1:{port}/",
        "pid_file": str(data / "homeserver.pid"),
        "listeners": [{
            "port": port,
            "bind_addresses": ["127.0.0.1"],
            "tls": False,
            "type": "http",
            "x_forwarded": False,
            # no "federation" resource: nothing to serve to other servers
            "resources": [{"names": ["client", "health"], "compress": False}],
        }],
        "database": {"name": "sqlite3",
                     "args": {"database": str(data / "homeserver.db")}},
        "log_config": str(data / "log.config"),
        "media_store_path": str(data / "media"),
        "signing_key_path": str(data / "signing.key"),
        "registration_shared_secret": secret,
        "macaroon_secret_key": secrets.token_hex(16),
        "form_secret": secrets.token_hex(16),
        "report_stats": False,
        # never talk to anyone else
        "trusted_key_servers": [],
        "suppress_key_server_warning": True,
        "federation_domain_whitelist": [],
        "url_preview_enabled": False,
        "enable_registration": False,
        "allow_guest_access": False,
        "presence": {"enabled": False},
        # cheap password hashing: tests register users all the time
        "bcrypt_rounds": 4,
        "max_upload_size": "10M",
    }
    if not rate_limits:
        cfg.update({
            "rc_message": _OPEN,
            "rc_registration": _OPEN,
            "rc_admin_redaction": _OPEN,
            "rc_login": {"address": _OPEN, "account": _OPEN,
                         "failed_attempts": _OPEN},
            "rc_joins": {"local": _OPEN, "remote": _OPEN},
            "rc_joins_per_room": _OPEN,
            "rc_invites": {"per_room": _OPEN, "per_user": _OPEN,
                           "per_issuer": _OPEN},
            "rc_media_create": _OPEN,
            "rc_room_creation": _OPEN,
        })
    return cfg


_LOG = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"f": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"file": {"class": "logging.FileHandler", "formatter": "f"}},
    "root": {"level": "WARNING", "handlers": ["file"]},
}


class Synapse:
    """A Synapse child process with its own data directory."""

    def __init__(self, python: str | None = None, data_dir: str | None = None,
                 port: int = 0, server_name: str = "localhost",
                 keep: bool = False, rate_limits: bool = False) -> None:
        # absolute (the child runs in the data directory), but not resolved: the
        # interpreter of a virtual environment is usually a symlink
        python = python or sys.executable
        self.python = os.path.abspath(python) if os.sep in python else python
        self.server_name = server_name
        self.keep = keep or data_dir is not None
        self.data = Path(data_dir or tempfile.mkdtemp(prefix="synapse-")).resolve()
        self.data.mkdir(parents=True, exist_ok=True)
        self.port = port or free_port()
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.secret = secrets.token_hex(24)
        self.rate_limits = rate_limits
        self.proc: subprocess.Popen | None = None
        self.start_seconds = 0.0
        self.users: dict[str, dict] = {}

    # -- life cycle ---------------------------------------------------------
    def start(self, timeout: float = 90.0) -> "Synapse":
        log = json.loads(json.dumps(_LOG))
        log["handlers"]["file"]["filename"] = str(self.data / "homeserver.log")
        (self.data / "log.config").write_text(json.dumps(log))
        cfg = self.data / "homeserver.yaml"      # JSON is valid YAML
        cfg.write_text(json.dumps(config(self.data, self.port, self.server_name,
                                         self.secret, self.rate_limits), indent=1))
        cfg.chmod(0o600)
        env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
        base = [self.python, "-m", "synapse.app.homeserver", "--config-path", str(cfg)]
        out = open(self.data / "stdout.log", "ab")
        try:
            if not (self.data / "signing.key").exists():
                made = subprocess.run([*base, "--generate-keys"], env=env, cwd=self.data,
                                      stdout=out, stderr=out, timeout=timeout)
                if made.returncode:
                    raise RuntimeError("synapse could not start: " + self._tail())
            t0 = time.monotonic()
            self.proc = subprocess.Popen(base, env=env, cwd=self.data,
                                         stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        finally:
            out.close()
        while True:
            if self.proc.poll() is not None:
                raise RuntimeError(f"synapse ended with {self.proc.returncode}: " + self._tail())
            try:
                if http("GET", self.base_url + "/health", timeout=2)[0] == 200:
                    break
            except OSError:
                pass
            if time.monotonic() - t0 > timeout:
                self.stop()
                raise TimeoutError("synapse did not become healthy")
            time.sleep(0.05)
        self.start_seconds = round(time.monotonic() - t0, 2)
        return self

    def _tail(self) -> str:
        """The end of the logs, for an error message (they are deleted later)."""
        parts = []
        for name in ("stdout.log", "homeserver.log"):
            try:
                parts += (self.data / name).read_text(errors="replace").splitlines()[-5:]
            except OSError:
                pass
        return " | ".join(parts) or "no output"

    def stop(self) -> None:
        if self.proc and self.proc.poll() is None:
            self.proc.terminate()
            try:
                self.proc.wait(10)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        if not self.keep:
            shutil.rmtree(self.data, ignore_errors=True)

    def __enter__(self) -> "Synapse":
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    # -- users --------------------------------------------------------------
    def register(self, name: str, password: str | None = None,
                 admin: bool = False) -> dict:
        """Shared-secret registration: nonce, then HMAC-SHA1 over the fields
        nonce, user, password and admin/notadmin, separated by NUL bytes."""
        password = password or secrets.token_hex(8)
        url = self.base_url + "/_synapse/admin/v1/register"
        nonce = http("GET", url)[1]["nonce"]
        mac = hmac.new(self.secret.encode(), digestmod=hashlib.sha1)
        mac.update(b"\0".join([nonce.encode(), name.encode(), password.encode(),
                               b"admin" if admin else b"notadmin"]))
        status, body = http("POST", url, {
            "nonce": nonce, "username": name, "password": password,
            "admin": admin, "mac": mac.hexdigest()})
        if status != 200:
            raise RuntimeError(f"registration of {name} failed: {status} {body}")
        user = {"user_id": body["user_id"], "device_id": body["device_id"],
                "access_token": body["access_token"], "password": password,
                "admin": admin}
        self.users[name] = user
        return user

    def info(self) -> dict:
        return {"base_url": self.base_url, "server_name": self.server_name,
                "pid": self.proc.pid if self.proc else None,
                "data_dir": str(self.data), "start_seconds": self.start_seconds,
                "registration_shared_secret": self.secret, "users": self.users}


def main(argv: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--python", help="interpreter that has matrix-synapse installed")
    p.add_argument("--data-dir", help="keep state here instead of a temporary directory")
    p.add_argument("--port", type=int, default=0)
    p.add_argument("--server-name", default="localhost")
    p.add_argument("--user", action="append", default=[], metavar="NAME[:PASSWORD]",
                   help="register this user (repeatable); prefix with + for an admin")
    p.add_argument("--info", help="also write the JSON document to this file (mode 0600)")
    p.add_argument("--rate-limits", action="store_true",
                   help="leave Synapse's own rate limits on (to see M_LIMIT_EXCEEDED)")
    p.add_argument("--keep", action="store_true", help="do not delete the data directory")
    p.add_argument("--stdin-lifetime", action="store_true",
                   help="end when standard input reaches end of file")
    p.add_argument("--for-seconds", type=float, help="end by itself after this long")
    a = p.parse_args(argv)

    done = threading.Event()
    for s in (signal.SIGINT, signal.SIGTERM):
        signal.signal(s, lambda *_: done.set())
    hs = Synapse(a.python, a.data_dir, a.port, a.server_name, a.keep, a.rate_limits)
    try:
        hs.start()
        for spec in a.user:
            admin = spec.startswith("+")
            name, _, pw = spec.lstrip("+").partition(":")
            hs.register(name, pw or None, admin)
        text = json.dumps(hs.info(), indent=1)
        if a.info:
            fd = os.open(a.info, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(fd, "w") as f:
                f.write(text)
        print(text, flush=True)
        if a.stdin_lifetime:
            threading.Thread(target=lambda: (sys.stdin.buffer.read(), done.set()),
                             daemon=True).start()
        deadline = None if a.for_seconds is None else time.monotonic() + a.for_seconds
        while not done.wait(0.2):
            if hs.proc is None or hs.proc.poll() is not None:
                print("synapse ended by itself", file=sys.stderr)
                return 1
            if deadline is not None and time.monotonic() > deadline:
                break
        return 0
    except (RuntimeError, TimeoutError, OSError) as e:
        print(f"synapse_up: {e}", file=sys.stderr)
        return 1
    finally:
        hs.stop()


if __name__ == "__main__":
    sys.exit(main())
