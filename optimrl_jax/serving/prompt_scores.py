"""How likely a policy finds a prompt that it is given: a log-probability for each token, with what came close.

Pure, jitted; stands beside `row_sampling`, which does the same for the tokens that the policy adds. A caller asks for
it with `echo` and `logprobs`, as harnesses do that compare the likelihoods of given answers.
"""

import functools
import typing

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from optimrl_jax.model import decoder
from optimrl_jax.serving.row_sampling import MAX_ALTERNATIVES
from optimrl_jax.settings import Network

# Positions whose scores over the vocabulary exist at the same time: 40 MB for 150,000 tokens.
POSITIONS = 64


class PromptScores(typing.NamedTuple):
    """What the policy expected in place of each token of a prompt but the first, given the tokens before it.

    Attributes:
      log_prob: `[p - 1]` of the tokens that stand there.
      alternatives: `[p - 1, a]` the likeliest token ids, best first.
      alternative_log_prob: `[p - 1, a]` theirs.
    """

    log_prob: Float[Array, " p"]
    alternatives: Int[Array, "p a"]
    alternative_log_prob: Float[Array, "p a"]


@functools.partial(jax.jit, static_argnames="settings")
def score_prompt(
    params: decoder.Params, settings: Network, *, prompt: Int[Array, " p"], temperature: Float[Array, ""]
) -> PromptScores:
    """Score each token of a prompt but the first.

    Args:
      params: parameters with stacked layers.
      settings: shape of the decoder.
      prompt: `[p]` token ids, p at least 2; what stands at the right changes no score before it, so that any padding
        serves.
      temperature: as sampling has it; 0 counts as 1.
    """
    hidden, _ = decoder.hidden_states(
        params,
        settings,
        tokens=prompt[None],
        positions=jnp.arange(len(prompt))[None],
        segments=jnp.ones((1, len(prompt)), jnp.int32),
    )

    def score(position: tuple[Float[Array, " w"], Int[Array, ""]]) -> PromptScores:
        state, token = position
        logits = decoder.logits(params, state) / jnp.where(temperature == 0, 1.0, temperature)
        scores = jax.nn.log_softmax(logits)
        near, near_ids = jax.lax.top_k(scores, min(MAX_ALTERNATIVES, scores.shape[-1]))
        return PromptScores(scores[token], near_ids, near)

    return jax.lax.map(score, (hidden[0, :-1], prompt[1:]), batch_size=POSITIONS)
