"""Trains a policy over programs with verl's parts and our reward; prints the mean reward of each step as JSON.

verl's trainer samples with an engine on a GPU. What it has beside that runs here as it stands: its configuration, which
names the user's file, its reward manager, which calls `compute_score` from many threads, its advantages and its loss.
"""

import asyncio
import json
import os
import pathlib
import tempfile

import numpy as np
import omegaconf
import torch
import transformers
import verl.trainer
from tokenizers import Tokenizer, models
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase
from verl.trainer.ppo import core_algos, reward
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import ActorConfig

from tests.ecosystem import programs

CONFIGURATION = pathlib.Path(verl.trainer.__file__).parent / "config" / "_generated_ppo_trainer.yaml"
# The file of a user, as `custom_reward_function.path` names it.
USER_FILE = """from tests.ecosystem import programs

compute_score = programs.open_reward().compute_score
"""
LEARNING_RATE = 0.8


def main() -> None:
    vocabulary = programs.vocabulary()
    words = models.WordLevel({text: n for n, text in enumerate(vocabulary)}, unk_token="<unknown>")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(words), pad_token="<pad>", eos_token="<end>", unk_token="<unknown>"
    )
    torch.manual_seed(0)
    policy = torch.nn.Embedding(len(programs.RECORDS), len(vocabulary))
    torch.nn.init.zeros_(policy.weight)
    optimizer = torch.optim.Adam(policy.parameters(), lr=LEARNING_RATE)
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "own_reward.py"
        path.write_text(USER_FILE)
        config = omegaconf.OmegaConf.load(CONFIGURATION)
        config.reward.custom_reward_function = {"path": str(path), "name": "compute_score"}
        manager = reward.load_reward_manager(config, tokenizer)
        config.actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu = programs.ROLLOUTS
        actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
        means = [_step(policy, optimizer, manager, actor) for _ in range(programs.STEPS)]
    print(json.dumps(means), flush=True)
    # The user's file holds its sandbox open for as long as the process lives.
    os._exit(0)


def _step(
    policy: torch.nn.Embedding, optimizer: torch.optim.Optimizer, manager: RewardManagerBase, actor: ActorConfig
) -> float:
    problems = np.repeat(np.arange(len(programs.RECORDS)), programs.ROLLOUTS)
    log_probs = torch.log_softmax(policy(torch.from_numpy(problems)), dim=-1)
    responses = torch.multinomial(log_probs.exp().detach(), 1)
    log_prob = log_probs.gather(1, responses)
    data = _batch(problems, responses)
    scores = _scores(manager, data)
    rewards = manager.assemble_rm_scores(data, scores)
    mask = torch.ones_like(responses)
    advantages, _ = core_algos.compute_grpo_outcome_advantage(rewards, mask, problems)
    lose = core_algos.get_policy_loss_fn("vanilla")
    loss, _ = lose(log_prob.detach(), log_prob, advantages, mask, "token-mean", actor)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(np.mean(scores))


def _batch(problems: np.ndarray, responses: torch.Tensor) -> DataProto:
    """Build what verl's rollout hands to its reward manager: ids, masks, and the columns of the dataset."""
    prompts = torch.from_numpy(problems)[:, None]
    rows = len(problems)
    columns = {
        "data_source": np.array(["ours"] * rows, object),
        "reward_model": np.array([{"ground_truth": programs.RECORDS[n].id} for n in problems], object),
        "extra_info": np.array([{} for _ in range(rows)], object),
    }
    mask = torch.ones((rows, 2), dtype=torch.long)
    tensors = {"prompts": prompts, "responses": responses, "attention_mask": mask}
    return DataProto.from_dict(tensors=tensors, non_tensors=columns)


def _scores(manager: RewardManagerBase, data: DataProto) -> list[float]:
    """Score all rollouts at the same time, as verl's reward loop does."""

    async def score() -> list[dict]:
        return await asyncio.gather(*(manager.run_single(data[n : n + 1]) for n in range(len(data))))

    return [found["reward_score"] for found in manager.loop.run_until_complete(score())]


if __name__ == "__main__":
    main()
