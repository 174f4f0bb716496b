"""A policy behind HTTP on the loopback, for as long as a test asks it."""

import contextlib
import threading
import time

import uvicorn

from optimrl_jax.serving import api
from optimrl_jax.serving.engine import Engine
from optimrl_jax.serving.weights import WeightReceiver
from tests.optimrl_jax.grpo.stored import DATA, POLICY


@contextlib.contextmanager
def served(policy=POLICY, *, data=DATA, key=""):
    engine = Engine(policy, data, rows=4)
    app = api.create_policy_app(engine, name="tiny", key=key, weights=WeightReceiver(engine))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    server.should_exit = True
    thread.join()
    engine.close()
