"""Edge: a trained policy behind an OpenAI-compatible endpoint, for whatever wants completions over HTTP.

`python -m optimrl_jax.serve --config=configs/quickstart.py --workdir=runs/quickstart/grpo` serves it as the model
`policy` at `http://127.0.0.1:8080/v1`, where `beam_pipelines.sample_generators` can ask it for input generators.
"""

import logging
import socket
import sys

import uvicorn

from optimrl_jax.errors import UserError
from optimrl_jax.jobs.command_line import Job, run_job
from optimrl_jax.serving import api
from optimrl_jax.serving.batcher import Batcher
from optimrl_jax.training import checkpoints

_LOG = logging.getLogger(__name__)


def main(job: Job) -> None:
    """Serves the newest policy of the workdir until it is interrupted."""
    serve, data = job.settings.serve, job.settings.data
    policy = checkpoints.load_policy(job.workdir, job.settings.compute)
    listening = _listening(serve.host, serve.port)
    batcher = Batcher(policy, data, rows=serve.rows)
    app = api.create_app(batcher, name=serve.name, completion_tokens=data.completion_tokens)
    _LOG.info("%s at http://%s:%d/v1", serve.name, serve.host, listening.getsockname()[1])
    try:
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])
    finally:
        batcher.close()


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise UserError(f"serve.port = {port}: expected a free port of {host} ({error.strerror})") from None


if __name__ == "__main__":
    sys.exit(run_job(main))
