"""Edge: a policy behind an OpenAI-compatible endpoint, for whatever wants completions over HTTP.

`python -m optimrl_jax.serve --config=configs/quickstart.py --workdir=runs/quickstart/grpo` serves it as the model
`policy` at `http://127.0.0.1:8080/v1`; `--config.serve.weights=DIRECTORY` serves published weights instead. With
`--config.serve.accepts_weights=True` it is an engine for the rollouts of a learner elsewhere.
"""

import logging
import socket
import sys

import uvicorn

from optimrl_jax.jobs.command_line import Job, run_job
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.serving import api
from optimrl_jax.serving.engine import Engine
from optimrl_jax.serving.weights import WeightReceiver
from optimrl_jax.training import checkpoints, sampling_policy

_LOG = logging.getLogger(__name__)


def main(job: Job) -> None:
    """Serve a policy until interrupted: that of `serve.weights`, else the newest one of the workdir."""
    serve, data = job.settings.serve, job.settings.data
    policy = _policy(job)
    listening = _listening(serve.host, serve.port)
    engine = Engine(policy, data, rows=serve.rows)
    weights = WeightReceiver(engine) if serve.accepts_weights else None
    app = api.create_policy_app(engine, name=serve.name, key=serve.key, weights=weights)
    _LOG.info("%s at http://%s:%d/v1", serve.name, serve.host, listening.getsockname()[1])
    try:
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])
    finally:
        engine.close()


def _policy(job: Job) -> checkpoints.Policy:
    return sampling_policy.load_to_sample(job.settings.serve.weights or str(job.workdir), job.settings.compute)


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except socket.gaierror as error:
        raise UserError(f"serve.host = {host!r}: expected an address of this machine ({error.strerror})") from None
    except OSError as error:
        raise UserError(f"serve.port = {port}: expected a free port of {host} ({error.strerror})") from None


if __name__ == "__main__":
    sys.exit(run_job(main, only_reads=True))
