"""Edge: what a completion earns, in the forms that TRL, verl and Tunix ask for.

Stands where `rollout` stands in our own trainer, between somebody else's sampler and the sandbox: the program is
extracted, run, judged and rewarded. It never samples, and sees nothing of a policy but what it wrote.
"""

import contextlib
import pathlib
import typing
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from optimrl_jax import environment
from optimrl_jax.data import dataset
from optimrl_jax.data.prompts import program_in
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.rollout import execution, rewarder
from optimrl_jax.settings import Settings

# A completion is a text, or the messages of a conversation that the policy added.
Completion = str | Sequence[Mapping[str, typing.Any]]


def reward_function(
    dataset_directory: str | pathlib.Path,
    sandbox: str = "docker",
    row: str = "ranked_p30",
    *,
    split: str = "rl_train",
    problem_column: str = "problem_id",
    workers: int = 2,
    fault_reward: float = 0.0,
) -> "SpeedReward":
    """Make the reward of a row of the paper over a dataset, for somebody else's trainer.

    Args:
      dataset_directory: a prepared DMC-Optim dataset; prompts are its statements, in whatever words and template.
      sandbox: `docker`, `http(s)://host:port` of services, separated by commas, or `local` for programs that you trust.
      row: key of `environment.PRESETS` or `environment.ROW_ALIASES`; `python -m configs qwen7b` lists them.
      split: split of the dataset that holds the problems.
      problem_column: column of the trainer's dataset that holds the id of the problem.
      workers: programs timed at the same time on this machine.
      fault_reward: see `SpeedReward`.

    Returns:
      The reward with an open sandbox; close it after use.

    Raises:
      UserError: for a dataset that is not there, an unknown split or row, or a sandbox that does not answer.
    """
    preset = environment.preset(row)
    values = {
        "environment": preset.environment,
        "reward": preset.reward,
        "sandbox": {"address": sandbox, "workers": workers},
    }
    return SpeedReward(
        dataset.load_records(dataset_directory, split),
        freeze(Settings, values),
        problem_column=problem_column,
        fault_reward=fault_reward,
    )


class SpeedReward:
    """A reward with an open sandbox: itself what TRL calls, with `compute_score` for verl and `for_tunix` for Tunix.

    A program that the sandbox lost earns nothing: TRL gets None, which it leaves out. The others know no such value and
    get `fault_reward`. Use it as a context manager, or call `close`.

    Args:
      records: the problems.
      settings: environment, reward, sandbox, and `data.answer_function`.
      problem_column: column of the trainer's dataset that holds the id of the problem.
      fault_reward: what verl and Tunix get for a program that the sandbox lost.

    Attributes:
      faults: programs that the sandbox has lost so far.

    Raises:
      UserError: if the sandbox does not answer.
      ValueError: for an unknown name in the settings.
    """

    # TRL logs a reward under this name.
    __name__ = "speed_reward"

    def __init__(
        self,
        records: Sequence[dataset.ProblemRecord],
        settings: Settings,
        *,
        problem_column: str = "problem_id",
        fault_reward: float = 0.0,
    ) -> None:
        self.faults = 0
        self._records = list(records)
        self._places = {record.id: place for place, record in enumerate(records)}
        self._column = problem_column
        self._fault_reward = fault_reward
        self._data = settings.data
        self._rewarder = rewarder.Rewarder(self._records, settings)
        self._open = contextlib.ExitStack()
        client = self._open.enter_context(execution.connect_sandbox(settings.sandbox))
        self._executor = execution.Executor(client, settings.sandbox, uses_own_limits=self._rewarder.uses_own_limits)
        self._calls = 0

    def __call__(
        self, prompts: Sequence[typing.Any] | None = None, completions: Sequence[Completion] = (), **columns: typing.Any
    ) -> list[float | None]:
        """Reward a batch as TRL's GRPOTrainer asks: with one list for each column of its dataset.

        Args:
          prompts: `[r]` texts, which may open the reasoning; messages are ignored. The problem is known by its id.
          completions: `[r]` texts, or lists of messages where the dataset is conversational.
          **columns: `[r]` values of the trainer's dataset, the problem's id among them.

        Returns:
          `[r]` rewards in [-1, 1], None where the sandbox lost the program.

        Raises:
          ValueError: if the column of ids is missing, or an id is unknown.
        """
        if self._column not in columns:
            raise ValueError(f"columns = {sorted(columns)}: expected {self._column!r} among the dataset's columns")
        return self.rewards_of([id_text(problem) for problem in columns[self._column]], completions, prompts=prompts)

    def compute_score(
        self,
        data_source: str,
        solution_str: str,
        ground_truth: str,
        extra_info: Mapping[str, typing.Any] | None = None,
    ) -> float:
        """Reward one completion as verl asks.

        Args:
          data_source: name of the data in verl; ignored.
          solution_str: the completion.
          ground_truth: id of the problem, as `reward_model.ground_truth` of verl's dataset holds it.
          extra_info: ignored.

        Returns:
          The reward; `fault_reward` where the sandbox lost the program.

        Raises:
          ValueError: for an id that the dataset does not have.
        """
        return self._without_gaps(self.rewards_of([ground_truth], [solution_str]))[0]

    def for_tunix(
        self, prompts: Sequence[str] | None = None, completions: Sequence[Completion] = (), **columns: typing.Any
    ) -> Float[np.ndarray, " r"]:
        """Reward a batch as Tunix's GRPO learner asks.

        Args:
          prompts: `[r]` texts, which may open the reasoning; the problem is known by its id.
          completions: `[r]` texts.
          **columns: `[r]` values of the trainer's dataset, the problem's id among them.

        Returns:
          float32 `[r]` rewards, `fault_reward` where the sandbox lost the program.
        """
        return np.array(self._without_gaps(self(prompts, completions, **columns)), np.float32)

    def rewards_of(
        self,
        problems: Sequence[str],
        completions: Sequence[Completion],
        *,
        prompts: Sequence[typing.Any] | None = None,
    ) -> list[float | None]:
        """Run and judge completions; those of one problem are judged together.

        Args:
          problems: `[r]` ids.
          completions: `[r]` in the same order.
          prompts: `[r]` in the same order; those that are texts say whether their template has opened the reasoning.

        Returns:
          `[r]` rewards, None where the sandbox lost the program.

        Raises:
          ValueError: for an id that the dataset does not have.
        """
        unknown = [name for name in problems if name not in self._places]
        if unknown:
            raise ValueError(f"{self._column} = {unknown[0]!r}: expected the id of a problem of the dataset")
        places = [self._places[name] for name in problems]
        asked = [None] * len(completions) if prompts is None else prompts
        programs = [
            program_in(answer_text(completion), self._data, prompt=prompt if isinstance(prompt, str) else None)
            for completion, prompt in zip(completions, asked, strict=True)
        ]
        attempts = [(self._records[place], program) for place, program in zip(places, programs, strict=True)]
        runs = self._executor.execute(
            attempts,
            kinds=self._rewarder.kinds,
            stops_early=self._rewarder.stops_early,
            reads_references=self._rewarder.reads_references,
        )
        rewards: list[float | None] = [None] * len(runs)
        for place in dict.fromkeys(places):
            members = [index for index, own in enumerate(places) if own == place]
            earned = self._rewarder(place, [runs[index] for index in members], stream=0, batch=self._calls)
            for index, value, is_valid in zip(members, earned.reward, earned.is_valid, strict=True):
                rewards[index] = float(value) if is_valid else None
        self._calls += 1
        self.faults += rewards.count(None)
        return rewards

    def _without_gaps(self, rewards: Sequence[float | None]) -> list[float]:
        return [self._fault_reward if value is None else value for value in rewards]

    def close(self) -> None:
        """Close the connection to the sandbox."""
        self._open.close()

    def __enter__(self) -> "SpeedReward":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def answer_text(completion: Completion) -> str:
    """Return what a policy wrote: the text, or the contents of the assistant's messages, joined by newlines."""
    if isinstance(completion, str):
        return completion
    return "\n".join(str(message["content"]) for message in completion if message.get("role") == "assistant")


def id_text(value: typing.Any) -> str:
    """Return an id as text, whichever form a trainer's batches hold it in: text, bytes, or an array of one of them."""
    value = value.item() if isinstance(value, np.ndarray | np.generic) else value
    return value.decode() if isinstance(value, bytes) else str(value)
