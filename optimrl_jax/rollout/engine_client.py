"""Edge: HTTP to an engine that samples rollouts elsewhere: requests with bounded patience, and new weights for it.

Stands under `rollout.engine_sampler`. New weights reach the engine by a hook, `push_weights` for our own server:
`engine.push` names another one as `module:function`. It gets the address, the shape of the decoder, the parameters and
their version, and returns once the engine samples with them.
"""

import importlib
import logging
import os
import threading
import time
import typing
from collections.abc import Callable

import httpx
import safetensors.numpy

from optimrl_jax.jobs.errors import UserError
from optimrl_jax.model import decoder
from optimrl_jax.model.pretrained.hugging_face import named_tensors
from optimrl_jax.settings import Network

_LOG = logging.getLogger(__name__)
KEY_VARIABLE = "OPTIMRL_ENGINE_KEY"
# How long an engine that does not answer is asked again, s.
PATIENCE_S = 120.0
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0
# Status codes after which another attempt may succeed.
PASSING = (408, 409, 425, 429, 500, 502, 503, 504)

Push = Callable[[str, Network, decoder.Params, int], None]


class EngineClient:
    """Posts to one engine; an engine that goes away is asked again for `PATIENCE_S`.

    Safe to use from several threads: whatever many of them meet, the log has one line when the engine goes away and one
    when it is back.

    Args:
      url: base address of the server, ending in `/v1`.
      timeout_s: longest wait for an answer, s.
    """

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self._url = url.rstrip("/")
        # It would log a line for every request.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        key = os.environ.get(KEY_VARIABLE, "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http = httpx.Client(timeout=httpx.Timeout(timeout_s, connect=10.0), headers=headers)
        self._lock = threading.Lock()
        self._is_away = False

    def __enter__(self) -> "EngineClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def post(self, path: str, **content: typing.Any) -> dict[str, typing.Any]:
        """Post to a path of the engine and return the object that it answers.

        Args:
          path: below the base address.
          **content: of the request, as `httpx` takes it.

        Raises:
          UserError: in one line, for an answer that no other attempt would change, or once the patience is over.
        """
        url, ends_s, pause_s = f"{self._url}/{path}", time.monotonic() + PATIENCE_S, FIRST_PAUSE_S
        while True:
            try:
                answer = self._http.post(url, **content)
            except httpx.HTTPError as failure:
                error = f"{type(failure).__name__}: {failure}"
            else:
                if answer.is_success:
                    self._note(is_away=False)
                    return _json_object(answer, url)
                error = f"{answer.status_code}: {answer.text[:200]}"
                if answer.status_code not in PASSING:
                    raise UserError(f"{url}: expected an answer of the engine ({error})")
            if time.monotonic() + pause_s > ends_s:
                raise UserError(f"{url}: expected an answer of the engine within {PATIENCE_S:g} s ({error})")
            self._note(is_away=True, error=error)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _note(self, *, is_away: bool, error: str = "") -> None:
        with self._lock:
            if is_away == self._is_away:
                return
            self._is_away = is_away
        if is_away:
            _LOG.warning("%s: no answer, asking again for %g s (%s)", self._url, PATIENCE_S, error)
        else:
            _LOG.warning("%s: answers again", self._url)


def push_hook(name: str) -> Push | None:
    """Resolve the hook that a setting names as `module:function`; return None for an empty name.

    Raises:
      UserError: if the module cannot be imported or has no such attribute.
    """
    if not name:
        return None
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError):
        raise UserError(f"engine.push = {name!r}: expected module:function of something importable") from None


def push_weights(url: str, network: Network, params: decoder.Params, version: int) -> None:
    """Send weights to our own server (`serve` with `serve.accepts_weights`), in the type that the decoder computes in.

    Args:
      url: base address of the server, ending in `/v1`.
      network: shape of the decoder.
      params: parameters with stacked layers.
      version: policy version that rollouts carry from then on.

    Raises:
      UserError: if the server refuses the weights or stays unreachable.
    """
    body = safetensors.numpy.save(dict(named_tensors(network, params, dtype=network.compute.dtype)))
    with EngineClient(url, timeout_s=600.0) as client:
        client.post(f"policy?version={version}", content=body)


def _json_object(answer: httpx.Response, url: str) -> dict[str, typing.Any]:
    try:
        content = answer.json()
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise UserError(f"{url}: expected a JSON object of the engine, found {answer.text[:80]!r}")
    return content
