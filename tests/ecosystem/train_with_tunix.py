"""Trains a policy over programs with Tunix's GRPO learner and our reward; prints each step's mean reward as JSON."""

import json

import jax
import numpy as np
import optax
from flax import nnx
from tunix.models.qwen2 import model as qwen2
from tunix.rl import rl_cluster
from tunix.rl.grpo import grpo_learner
from tunix.rl.rollout import base_rollout

from tests.ecosystem import programs


class WholeTexts:
    """A tokenizer of whole texts: statements and programs are one token each."""

    def __init__(self, vocabulary: list[str]) -> None:
        self._texts = vocabulary
        self._ids = {text: n for n, text in enumerate(vocabulary)}

    def encode(self, text: str, **_: object) -> list[int]:
        return [self._ids[text]]

    def decode(self, ids: list[int], **_: object) -> str:
        return "".join(self._texts[int(n)] for n in ids if int(n) >= len(programs.SPECIAL))

    def bos_id(self) -> int:
        return 2

    def eos_id(self) -> int:
        return 1

    def pad_id(self) -> int:
        return 0


def main() -> None:
    vocabulary = programs.vocabulary()
    shape = qwen2.ModelConfig(
        num_layers=1, vocab_size=len(vocabulary), embed_dim=32, hidden_dim=64, num_heads=2, head_dim=16,
        num_kv_heads=2, rope_theta=10_000, norm_eps=1e-6,
    )  # fmt: skip
    mesh = jax.make_mesh((1, 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    cluster = rl_cluster.ClusterConfig(
        role_to_mesh=dict.fromkeys((rl_cluster.Role.ACTOR, rl_cluster.Role.REFERENCE, rl_cluster.Role.ROLLOUT), mesh),
        training_config=rl_cluster.RLTrainingConfig(
            actor_optimizer=optax.adam(3e-2), eval_every_n_steps=10**6, max_steps=programs.STEPS
        ),
        rollout_config=base_rollout.RolloutConfig(
            max_tokens_to_generate=1, max_prompt_length=1, kv_cache_size=8, temperature=1.0
        ),
    )
    means: list[float] = []
    with mesh, programs.open_reward() as reward:

        def recorded(prompts: list[str], completions: list[str], **columns: object) -> np.ndarray:
            earned = reward.for_tunix(prompts, completions, **columns)
            means.append(float(earned.mean()))
            return earned

        learner = grpo_learner.GRPOLearner(
            rl_cluster.RLCluster(
                actor=qwen2.Qwen2(shape, rngs=nnx.Rngs(0)), tokenizer=WholeTexts(vocabulary), cluster_config=cluster
            ),
            grpo_learner.GRPOConfig(num_generations=programs.ROLLOUTS, beta=0.0),
            reward_fns=recorded,
        )
        batch = {
            "prompts": np.array([record.statement for record in programs.RECORDS]),
            "problem_id": np.array([record.id for record in programs.RECORDS]),
        }
        learner.train([batch] * programs.STEPS)
    print(json.dumps(means))


if __name__ == "__main__":
    main()
