"""Edge: new weights for a policy that is being served: `POST /v1/policy?version=N`, safetensors in the body.

The hook by which a learner keeps an engine of rollouts fresh. Tensors have the names and shapes of a Hugging Face
checkpoint of the policy, in any floating-point type; the answer comes once they are checked, and they are used from the
next block of tokens on. `GET /v1/policy` says which version that is.
"""

import pathlib

import fastapi
import fastapi.responses
import numpy as np
import safetensors
import safetensors.numpy

from optimrl_jax.jobs.errors import UserError
from optimrl_jax.model.pretrained.hugging_face import assemble_parameters
from optimrl_jax.model.pretrained.names import HUGGING_FACE
from optimrl_jax.serving.engine import Engine

SOURCE = pathlib.Path("body")


class _PostedTensors:
    """Tensors in memory, as a checkpoint has them."""

    def __init__(self, tensors: dict[str, np.ndarray]) -> None:
        self._tensors = tensors
        self.shapes = {name: tensor.shape for name, tensor in tensors.items()}

    def tensor(self, name: str) -> np.ndarray:
        return self._tensors[name]


class WeightReceiver:
    """Hands new weights to an engine.

    Args:
      engine: takes them over between two blocks of tokens.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def router(self) -> fastapi.APIRouter:
        """Return the routes through which weights come."""
        router = fastapi.APIRouter()

        @router.get("/v1/policy")
        def policy() -> dict:
            return {"version": self._engine.version}

        @router.post("/v1/policy")
        async def receive(request: fastapi.Request, version: int) -> fastapi.Response:
            try:
                self.receive(await request.body(), version)
            except (UserError, safetensors.SafetensorError) as error:
                message = {"message": str(error), "type": "invalid_request_error", "param": None, "code": "weights"}
                return fastapi.responses.JSONResponse({"error": message}, status_code=400)
            return fastapi.responses.JSONResponse({"version": version})

        return router

    def receive(self, body: bytes, version: int) -> None:
        """Check new weights and hand them to the engine.

        Args:
          body: safetensors with the names of a Hugging Face checkpoint.
          version: of these weights.

        Raises:
          UserError: where tensors are missing, unknown or misshapen.
          safetensors.SafetensorError: for a body that is not safetensors.
        """
        tensors = _PostedTensors(safetensors.numpy.load(body))
        params = assemble_parameters(
            self._engine.network, tensors, names=HUGGING_FACE, source=SOURCE, dtype="float32", placement=None
        )
        self._engine.update_weights(params, version)
