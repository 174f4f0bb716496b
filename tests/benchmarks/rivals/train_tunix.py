"""Edge: a rival: Tunix's GRPOLearner, one update for each line on standard input.

Runs in the environment that `tests.benchmarks.rivals.setup` makes, and imports nothing of this project but the
tokenizer that all sides have. Takes the shape as one JSON argument; after each update it prints the seconds that
generation, rewards and update took together. On one device of the CPU, where it is fastest: it does not split its
models there.
"""

import json
import sys
import time
from collections.abc import Iterator

import jax
import numpy as np
import optax
import transformers
from flax import nnx
from tunix.models.qwen2 import model as qwen2
from tunix.rl import rl_cluster
from tunix.rl.grpo import grpo_learner
from tunix.rl.rollout import base_rollout

from tests.benchmarks.rivals.words import END, PAD, word_tokenizer

# Prompts whose gradients are computed at once; the fastest of 1, 2, 3 and 6.
MICRO_PROMPTS = 2


def reward(prompts: list[str], completions: list[str], **kwargs: object) -> list[float]:
    return [float(len(text) % 7) for text in completions]


def main() -> None:
    shape = json.loads(sys.argv[1])
    mesh = jax.make_mesh((1, 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    sampling = base_rollout.RolloutConfig(
        max_tokens_to_generate=shape["completion_tokens"],
        max_prompt_length=shape["prompt_tokens"],
        kv_cache_size=shape["prompt_tokens"] + shape["completion_tokens"],
        temperature=1.0,
        top_p=1.0,
    )
    with mesh:
        cluster = rl_cluster.RLCluster(
            actor=model_of(shape["model"]),
            tokenizer=tokenizer_of(shape["model"]["vocabulary"]),
            cluster_config=rl_cluster.ClusterConfig(
                role_to_mesh=dict.fromkeys(
                    (rl_cluster.Role.ACTOR, rl_cluster.Role.REFERENCE, rl_cluster.Role.ROLLOUT), mesh
                ),
                training_config=training_of(shape),
                rollout_config=sampling,
            ),
        )
        config = grpo_learner.GRPOConfig(num_generations=shape["rollouts"], beta=0.0, epsilon=0.2)
        learner = grpo_learner.GRPOLearner(rl_cluster=cluster, reward_fns=reward, algo_config=config)
        learner.train(turns(shape, cluster, sampling))


def turns(
    shape: dict, cluster: rl_cluster.RLCluster, sampling: base_rollout.RolloutConfig
) -> Iterator[dict[str, np.ndarray]]:
    """Yield a batch of prompts for each line; the learner asks for the next one after its optimizer step."""
    # An array of strings: the learner repeats it for the rollouts of each prompt.
    prompts = np.array([" ".join(["t5"] * shape["prompt_tokens"])] * shape["problems"])
    for update, _ in enumerate(sys.stdin):
        # Otherwise every update samples with the same noise.
        sampling.seed = update
        started_s = time.perf_counter()
        yield {"prompts": prompts}
        trainer = cluster.actor_trainer
        jax.block_until_ready((nnx.state(trainer.model), nnx.state(trainer.optimizer)))
        print(json.dumps({"seconds": time.perf_counter() - started_s}), flush=True)


def model_of(shape: dict) -> qwen2.Qwen2:
    config = qwen2.ModelConfig(
        num_layers=shape["layers"],
        vocab_size=shape["vocabulary"],
        embed_dim=shape["width"],
        hidden_dim=shape["mlp_width"],
        num_heads=shape["heads"],
        head_dim=shape["width"] // shape["heads"],
        num_kv_heads=shape["kv_heads"],
        rope_theta=10_000,
        norm_eps=1e-6,
        use_tied_embedding=shape["has_tied_embeddings"],
    )
    model = qwen2.Qwen2(config, rngs=nnx.Rngs(0))
    # Its own start, of standard deviation 1, gives a distribution unlike that of the other sides.
    table = model.embedder.input_embedding
    table[...] = 0.02 * table[...]
    return model


def tokenizer_of(vocabulary: int) -> transformers.PreTrainedTokenizerFast:
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=word_tokenizer(vocabulary), pad_token=PAD, eos_token=END
    )


def training_of(shape: dict) -> rl_cluster.RLTrainingConfig:
    """One optimizer step a batch; sizes count prompts, not rollouts."""
    return rl_cluster.RLTrainingConfig(
        actor_optimizer=optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-4, weight_decay=0.0)),
        mini_batch_size=shape["problems"],
        train_micro_batch_size=MICRO_PROMPTS,
        rollout_micro_batch_size=shape["problems"],
        compute_logps_micro_batch_size=shape["problems"],
        eval_every_n_steps=1_000_000,
        max_steps=1_000_000,
    )


if __name__ == "__main__":
    main()
