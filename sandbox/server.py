"""Edge: serves the sandbox over HTTP. `python -m sandbox.server --backend=docker --workers=2`.

Suites are uploaded once under their SHA-256; a run names a program and a suite. A full queue, or a client that has
enough under way, is answered with 429 and a time to come back. On SIGTERM the server takes no more requests, gives
those it holds a few seconds, drops the rest and ends.
"""

import argparse
import json
import logging
import math
import os
import socket
import ssl
import sys
from collections.abc import Sequence

import uvicorn

from sandbox import host
from sandbox.backends.engine_settings import SETTINGS
from sandbox.flags import FlagParser, named_path, one_line
from sandbox.protocol import TOKEN_VARIABLE, require
from sandbox.service import pool
from sandbox.service.admission import Admission, Bounds
from sandbox.service.api import create_app
from sandbox.service.gate import bounded_connections

_LOG = logging.getLogger(__name__)
SUITE_CHARACTERS = 1 << 30
QUEUE_LIMIT = 1_000
DRAIN_S = 10
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM and return the exit code: 2, with one line on standard error, for what cannot be served.

    Args:
      arguments: the command line after the program's name; None: that of this process.
    """
    flags = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    settings = pool.PoolSettings(
        recycle_after=flags.recycle_after, queue_limit=flags.queue_limit, suite_characters=SUITE_CHARACTERS
    )
    try:
        _check(flags)
        admission = Admission(Bounds(**{name: getattr(flags, name) for name in BOUND_FLAGS}))
        findings = host.inspect()
        workers = pool.open_pool(flags.backend, workers=flags.workers, settings=settings)
        _require_free(flags.address, flags.port)
        app = create_app(
            workers,
            token=os.environ.get(TOKEN_VARIABLE, ""),
            admission=admission,
            probe_every_s=flags.probe_every_s,
            findings=findings,
            baseline=flags.baseline,
        )
    except (OSError, ValueError) as error:
        print(f"sandbox.server: {one_line(error)}", file=sys.stderr)
        return 2
    for finding in findings:
        _LOG.log(logging.INFO if finding.is_fit else logging.WARNING, "host: %s", finding)
    scheme = "https" if flags.tls_certificate else "http"
    _LOG.info("serving on %s://%s:%d as %s", scheme, flags.address, flags.port, json.dumps(workers.measured_under))
    if flags.address not in LOOPBACK:
        _warn_of_openness(is_encrypted=scheme == "https")
    uvicorn.run(
        app,
        host=flags.address,
        port=flags.port,
        http=bounded_connections(admission),
        ws="none",
        timeout_graceful_shutdown=flags.drain_s,
        ssl_certfile=flags.tls_certificate,
        ssl_keyfile=flags.tls_key,
        log_level="warning",
    )
    return 0


def _warn_of_openness(*, is_encrypted: bool) -> None:
    """Warn of what others on the network could do to a server that listens to more than this machine."""
    if not os.environ.get(TOKEN_VARIABLE):
        _LOG.warning("%s is not set: whoever reaches this port may run programs here", TOKEN_VARIABLE)
    elif not is_encrypted:
        _LOG.warning("the token and all programs pass in clear text: set --tls_certificate and --tls_key")


_DEFAULTS = Bounds()
# Type, unit, default and meaning of the flag for each bound.
BOUND_FLAGS = {
    name: (type(getattr(_DEFAULTS, name)), unit, getattr(_DEFAULTS, name), meaning)
    for name, unit, meaning in (
        ("body_bytes", "BYTES", "largest body of a request"),
        ("input_bytes", "BYTES", "largest input that is uploaded as a file, if the backend has room for it"),
        ("request_executions", "NUMBER", "most executions (tests times repeats) of a request"),
        ("request_seconds", "SECONDS", "most seconds of a request, if each execution reaches its limit"),
        ("client_body_bytes", "BYTES", "most bytes of bodies that one address may be sending"),
        ("client_executions", "NUMBER", "most executions of one address that wait or run"),
        ("client_seconds", "SECONDS", "most seconds that these may take"),
        ("client_connections", "NUMBER", "most open connections of one address"),
        ("silence_s", "SECONDS", "how long a connection may be silent"),
    )
}


def _parser() -> argparse.ArgumentParser:
    parser = FlagParser(
        "sandbox.server",
        __doc__,
        usage="%(prog)s [--backend=NAME] [--workers=NUMBER] [--address=ADDRESS] [--port=NUMBER] [flags]",
        epilog=f"The environment variable {TOKEN_VARIABLE} holds the token that clients have to send.\n"
        "Without it, whoever reaches the port may run programs.",
    )
    backends = (
        "what runs the programs: docker (containers of this machine), docker_clean (containers that are cleaned "
        "between runs, for trusted code) or local (processes of this machine, for trusted code). Containers take "
        f"settings of their engine ({', '.join(SETTINGS)}), as in docker?runtime=crun&user_namespace=host"
    )
    baseline = "file of the probes' first seconds, read where it exists and written otherwise; default: none is kept"
    for name, kind, metavar, default, meaning in (
        ("workers", int, "NUMBER", len(os.sched_getaffinity(0)), "programs that run at the same time, 1 to 1024"),
        ("address", str, "ADDRESS", "127.0.0.1", "address of this machine to listen on"),
        ("port", int, "NUMBER", 8080, "TCP port to listen on, 1 to 65535"),
        ("queue_limit", int, "NUMBER", QUEUE_LIMIT, "requests that may wait or run; more are answered with 429"),
        ("recycle_after", int, "NUMBER", 20_000, "runs of a worker before it is replaced"),
        ("probe_every_s", float, "SECONDS", 60.0, "seconds between live probes, 0 for none"),
        ("drain_s", int, "SECONDS", DRAIN_S, "what requests under way may take to end after SIGTERM, 0 to 3600"),
        *((name, *flag) for name, flag in BOUND_FLAGS.items()),
    ):
        text = f"{meaning}; default: %(default)s"
        parser.add_argument(f"--{name}", type=kind, metavar=metavar, default=default, help=text)
    parser.add_argument("--backend", metavar="NAME", default="docker", help=f"{backends}; default: %(default)s")
    parser.add_argument("--baseline", type=named_path, metavar="FILE", help=baseline)
    for name, meaning in (("tls_certificate", "certificate, with its chain"), ("tls_key", "private key of it")):
        text = f"PEM file of the server's {meaning}; serves https://; default: none"
        parser.add_argument(f"--{name}", metavar="FILE", help=text)
    return parser


def _check(flags: argparse.Namespace) -> None:
    """Refuse flags out of their range, and files that are no certificate, before anything is started."""
    for name, low, high in (
        ("port", 1, 65_535),
        ("queue_limit", 1, 1 << 30),
        ("recycle_after", 1, 1 << 40),
        ("drain_s", 0, 3600),
    ):
        value = getattr(flags, name)
        require(low <= value <= high, name, value, f"a whole number in [{low}, {high}]")
    require(bool(flags.address), "address", flags.address, "an address of this machine; 0.0.0.0 for all of them")
    is_file = flags.baseline is None or not flags.baseline.is_dir()
    require(is_file, "baseline", str(flags.baseline), "a file, which need not exist")
    is_wait = 0 <= flags.probe_every_s < math.inf
    require(is_wait, "probe_every_s", flags.probe_every_s, "seconds that are not negative")
    certificate, key = flags.tls_certificate, flags.tls_key
    require(bool(certificate) == bool(key), "tls_key", key, "both --tls_certificate and --tls_key, or neither")
    if certificate:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        except OSError as error:
            expected = f"PEM files of a certificate and its key ({error})"
            require(False, "tls_certificate, tls_key", (certificate, key), expected)


def _require_free(address: str, port: int) -> None:
    """Raise OSError where the port is taken or the address does not belong to this machine."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise OSError(f"address = {address!r}, port = {port}: expected a free one ({error.strerror})") from None


if __name__ == "__main__":
    sys.exit(main())
