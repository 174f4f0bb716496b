"""Edge: this project's side of the comparisons: one update for each line on standard input, as rivals do it.

Generation, text, rewards and update of one batch; prints the seconds they took together.
"""

import dataclasses
import json
import sys
import time

import jax
import numpy as np
from tokenizers import Tokenizer

from optimrl_jax import arrays
from optimrl_jax.grpo.loop import Learner
from optimrl_jax.model import decoder
from optimrl_jax.model.generation import sampling
from optimrl_jax.rollout.actor import join_rollouts
from optimrl_jax.rollout.groups import Group
from optimrl_jax.settings import ComputeSettings, MeshSettings, ModelSettings, Settings
from tests.benchmarks.learner import generate
from tests.benchmarks.rivals.words import END_ID, word_tokenizer


def settings_of(shape: dict) -> Settings:
    """Rows of some rollouts of a group, which share the prompt; a device for each core, which shares the rows."""
    computed = {name: shape[name] for name in ("attention_block", "logits_chunk")}
    compute = ComputeSettings(**computed, unroll=shape["model"]["layers"])
    base = Settings(model=ModelSettings(**shape["model"]), compute=compute)
    sizes = {name: shape[name] for name in ("prompt_tokens", "completion_tokens", "micro_rows")}
    # A branch begins with the last token of the prompt.
    tokens = shape["prompt_tokens"] - 1 + shape["row_rollouts"] * (shape["completion_tokens"] + 1)
    data = dataclasses.replace(base.data, **sizes, row_tokens=tokens)
    grpo = dataclasses.replace(base.grpo, problems=shape["problems"], rollouts=shape["rollouts"])
    return dataclasses.replace(base, data=data, grpo=grpo, mesh=MeshSettings(data=shape["threads"]))


def rewarded(completions: sampling.Completions, tokenizer: Tokenizer, settings: Settings, update: int) -> list[Group]:
    samples, prompt = settings.grpo.rollouts, np.full(settings.data.prompt_tokens, 5, np.int32)
    groups = []
    for problem in range(settings.grpo.problems):
        own = jax.tree.map(lambda x, at=problem * samples: x[at : at + samples], completions)
        rows = zip(own.tokens, own.length, strict=True)
        texts = tokenizer.decode_batch([tokens[:length].tolist() for tokens, length in rows])
        reward = np.array([len(text) % 7 for text in texts], np.float32)
        rollouts = join_rollouts(prompt, own, version=update, longest=len(prompt))
        is_valid = np.ones(samples, bool)
        groups.append(Group(rollouts, reward, is_valid, is_valid, is_valid, ~is_valid, problem=np.int32(problem)))
    return groups


def main() -> None:
    shape = json.loads(sys.argv[1])
    settings = settings_of(shape)
    tokenizer = word_tokenizer(settings.model.vocabulary)
    learner = Learner(
        decoder.initial_params(settings.model, arrays.stream_key(0, "parameters")), settings.network, settings
    )
    for update, _ in enumerate(sys.stdin):
        started_s = time.perf_counter()
        completions = generate(learner.trainer.state.params, settings, update=update, end_token=END_ID)
        learner.learn(rewarded(completions, tokenizer, settings, update))
        print(json.dumps({"seconds": time.perf_counter() - started_s}), flush=True)


if __name__ == "__main__":
    main()
