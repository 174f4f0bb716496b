"""Edge: the actor: prompt -> completions -> programs -> execution -> outcome -> reward, one group for each problem.

Rewards are computed for each rollout alone; comparing the rollouts of a group is the learner's business (App. F).
"""

import contextlib
import dataclasses
import functools
import itertools
import math
import time
import typing
from collections.abc import Collection, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from optimrl_jax import arrays
from optimrl_jax.data import prompts
from optimrl_jax.data.dataset import ProblemRecord
from optimrl_jax.data.tokenizer import Tokenizer
from optimrl_jax.distributed import sampling_sharding
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.model import decoder
from optimrl_jax.model.generation import continuous, sampling
from optimrl_jax.rollout import rewarder
from optimrl_jax.rollout.engine_sampler import EngineSampler
from optimrl_jax.rollout.execution import CandidateRun
from optimrl_jax.rollout.groups import Group
from optimrl_jax.rollout.journal import RolloutJournal
from optimrl_jax.settings import DataSettings, Settings
from optimrl_jax.training.checkpoints import Policy

SAMPLER_ROWS = 128


class SampledProgram(typing.NamedTuple):
    """A program that a policy wrote.

    Attributes:
      program: its text.
      tokens: length of the whole completion; -1 where it is unknown.
      is_cut: whether the completion ran out of room before its end token.
    """

    program: str
    tokens: int = -1
    is_cut: bool = False


class Executes(typing.Protocol):
    """What the actor needs of `execution.Executor`; see its `execute`."""

    def execute(
        self,
        attempts: Sequence[tuple[ProblemRecord, str]],
        *,
        kinds: Collection[int],
        stops_early: bool,
        reads_references: bool,
    ) -> list[CandidateRun]: ...


class Sampler:
    """Samples completions and programs from a policy at `temperature`, all through one compiled shape."""

    def __init__(self, policy: Policy, data: DataSettings, temperature: float) -> None:
        self._policy = policy
        self._data = data
        self._temperature = temperature

    def sample(self, statements: Sequence[str], samples: int, *, seed: int) -> list[list[str]]:
        """Sample programs as text, `samples` for each statement; the same seed gives the same programs.

        Raises:
          UserError: if the prompt of a statement is longer than `data.prompt_tokens`.
        """
        found = self.sample_programs(statements, samples, seed=seed)
        return [[sampled.program for sampled in of_statement] for of_statement in found]

    def sample_programs(self, statements: Sequence[str], samples: int, *, seed: int) -> list[list[SampledProgram]]:
        """Sample programs like `sample`, with the length of each completion and whether it was cut."""
        tokenizer = self._policy.tokenizer
        ids = [prompts.encode_prompt(tokenizer, statement, self._data) for statement in statements]
        for index, prompt in enumerate(ids):
            if len(prompt) > self._data.prompt_tokens:
                raise UserError(
                    f"statement {index} has {len(prompt)} tokens: expected at most data.prompt_tokens = "
                    f"{self._data.prompt_tokens}"
                )
        at_once = max(1, len(ids) if self._data.slots else min(SAMPLER_ROWS // samples, len(ids)))
        found: list[list[SampledProgram]] = []
        for start in range(0, len(ids), at_once):
            chunk = ids[start : start + at_once]
            filled = chunk + [chunk[-1]] * (at_once - len(chunk))
            rows = np.arange(start * samples, (start + at_once) * samples)
            completions = self.complete(
                filled, samples, keys=sampling.row_keys(arrays.stream_key(seed, "sample"), rows)
            )
            programs = self._sampled_programs(completions, filled)
            found += [programs[row * samples : (row + 1) * samples] for row in range(len(chunk))]
        return found

    def _sampled_programs(
        self, completions: sampling.Completions, prompt_ids: Sequence[np.ndarray]
    ) -> list[SampledProgram]:
        last = np.take_along_axis(
            np.asarray(completions.tokens), np.maximum(completions.length - 1, 0)[:, None], axis=1
        )[:, 0]
        is_full = completions.length == self._data.completion_tokens
        is_cut = is_full & (last != self._policy.tokenizer.end)
        programs = extract_programs(completions, self._policy.tokenizer, prompt_ids, self._data)
        columns = (programs, completions.length.tolist(), is_cut.tolist())
        return [SampledProgram(*row) for row in zip(*columns, strict=True)]

    def complete(self, prompt_ids: Sequence[np.ndarray], samples: int, *, keys: jax.Array) -> sampling.Completions:
        """Sample completions of prompts given as token ids; the rows of one prompt are neighbours.

        Args:
          prompt_ids: int32 `[p]` token ids of each prompt, at most `data.prompt_tokens`.
          samples: completions for each prompt.
          keys: `[b * samples]` random keys, one for each row.

        Returns:
          Completions (NumPy) of `b * samples` rows, cut at the first stop text.
        """
        steps = self._data.completion_tokens
        if self._data.slots:
            finished = self.stream(prompt_ids, samples, keys=keys)
            return continuous.gather_completions(finished, samples=samples, rows=len(keys), steps=steps)
        params, rows = self._policy.params, len(prompt_ids) * samples
        prompt_ids, samples = _spread(prompt_ids, samples, shares=sampling_sharding.row_shares(params))
        # Every device takes equally many prompts; the rows of the filling ones are thrown away.
        missing = -len(prompt_ids) % sampling_sharding.row_shares(params)
        filled = [*prompt_ids, *[prompt_ids[-1]] * missing]
        keys = jnp.concatenate([keys, *[keys[-samples:]] * missing]) if missing else keys
        tokens, mask = pad_prompts(filled, self._data.prompt_tokens, pad=self._policy.tokenizer.pad)
        tokens, mask, keys = sampling_sharding.shard_rows(params, (tokens, mask, keys))
        with sampling_sharding.on_accelerators(params, rows=len(filled)):
            completions = sampling.generate(
                params,
                self._policy.settings,
                prompts=tokens,
                prompt_mask=mask,
                keys=keys,
                temperature=self._temperature,
                samples=samples,
                steps=steps,
                end_token=self._policy.tokenizer.end,
            )
        return sampling.cut_at_stop(jax.tree.map(lambda x: np.asarray(x)[:rows], completions), self._stop)

    def stream(
        self, prompt_ids: Sequence[np.ndarray], samples: int, *, keys: jax.Array
    ) -> Iterator[continuous.FinishedRollout]:
        """Yield what `complete` samples, each completion as it ends; needs `data.slots`."""
        grouped, params = keys.reshape(len(prompt_ids), samples), self._policy.params
        slots = sampling_sharding.even_rows(params, self._data.slots)
        return continuous.stream_rollouts(
            params,
            self._policy.settings,
            itertools.starmap(continuous.SampleRequest, zip(prompt_ids, grouped, strict=True)),
            plan=continuous.SlotPlan(slots, self._data.prompt_tokens, self._data.completion_tokens),
            temperature=self._temperature,
            end_token=self._policy.tokenizer.end,
            stop=self._stop,
            place=functools.partial(sampling_sharding.shard_rows, params),
        )

    @property
    def _stop(self) -> sampling.StopRule | None:
        if not self._data.stop:
            return None
        return functools.partial(prompts.stop_length, stops=self._data.stop, decode=self._policy.tokenizer.decode)


class SampledBatch(typing.NamedTuple):
    """Rollouts that have not been judged: the `completions` of `problems`, those of one problem side by side.

    `places` says where in their batch the problems stand, `version` which policy sampled them.
    """

    problems: tuple[int, ...]
    completions: sampling.Completions
    batch: int
    version: int
    places: tuple[int, ...]


class Actor:
    """Turns problems into groups of judged rollouts with the weights that it was last sent.

    Args:
      policy: the policy to start from; its weights may be shapes alone if `update_weights` comes first.
      records: the problems, by whose index rollouts are asked for.
      executor: runs the programs.
      judge: computes rewards.
      settings: those of the whole job.
      rollout_journal: gets every judged rollout; None for none.
    """

    def __init__(
        self,
        policy: Policy,
        records: Sequence[ProblemRecord],
        executor: Executes,
        *,
        judge: rewarder.Rewarder,
        settings: Settings,
        rollout_journal: RolloutJournal | None = None,
    ) -> None:
        self.version = 0
        self._policy = policy
        self._engine = EngineSampler(settings, policy.tokenizer) if settings.grpo.sampler else None
        self._settings = settings
        self._records = records
        self._executor = executor
        self._judge = judge
        self._journal = rollout_journal
        self._prompts = [prompts.encode_prompt(policy.tokenizer, record.statement, settings.data) for record in records]

    @property
    def params(self) -> decoder.Params:
        """The weights that the actor samples with."""
        return self._policy.params

    def update_weights(self, params: decoder.Params, version: int) -> None:
        """Replace the weights; rollouts sampled from now on carry `version`."""
        self._policy = dataclasses.replace(self._policy, params=params)
        self.version = version
        if self._engine:
            self._engine.expire()

    def produce(
        self, problems: Sequence[int], *, batch: int, timings: dict[str, float], places: Sequence[int] = ()
    ) -> list[Group]:
        """Sample, execute and judge the rollouts of problems: `generate`, then `judge`.

        Args:
          problems: indices of the problems.
          batch: number of the call; picks its random streams.
          timings: gets the seconds of "generate_s", "execute_s" and "judge_s" added.
          places: where the problems stand in their batch, if they are only a part of it: they get the rollouts that
            they would get in the whole. Empty: 0, 1, ...

        Returns:
          One group for each problem, in order.

        Raises:
          UserError: from an engine that samples elsewhere.
        """
        return self.judge(self.generate(problems, batch=batch, timings=timings, places=places), timings=timings)

    def generate(
        self, problems: Sequence[int], *, batch: int, timings: dict[str, float], places: Sequence[int] = ()
    ) -> SampledBatch:
        """Sample the rollouts of each problem: the first half of `produce`, on the accelerator.

        Where an engine samples elsewhere, weights that it has not seen are pushed to it first.
        """
        samples = self._settings.grpo.rollouts
        places = tuple(places or range(len(problems)))
        rows = (np.array(places)[:, None] * samples + np.arange(samples)).reshape(-1)
        keys = sampling.row_keys(arrays.stream_key(self._settings.seed, "rollouts", batch), rows)
        with _timed(timings, "generate_s"):
            completions, version = self._complete([self._prompts[problem] for problem in problems], samples, keys=keys)
        return SampledBatch(tuple(problems), completions, batch=batch, version=version, places=places)

    def _complete(
        self, prompt_ids: Sequence[np.ndarray], samples: int, *, keys: jax.Array
    ) -> tuple[sampling.Completions, int]:
        if self._engine:
            return self._engine.complete(self._policy, self.version, prompt_ids, samples, keys=keys)
        sampler = Sampler(self._policy, self._settings.data, self._settings.grpo.temperature)
        return sampler.complete(prompt_ids, samples, keys=keys), self.version

    def judge(self, sampled: SampledBatch, *, timings: dict[str, float]) -> list[Group]:
        """Execute and judge sampled rollouts: the second half of `produce`, in the sandbox.

        Needs none of the weights, so that the next `generate` may run meanwhile.
        """
        samples, completions = self._settings.grpo.rollouts, sampled.completions
        asked = [self._prompts[problem] for problem in sampled.problems]
        programs = extract_programs(completions, self._policy.tokenizer, asked, self._settings.data)
        owners = [problem for problem in sampled.problems for _ in range(samples)]
        attempts = [(self._records[problem], program) for problem, program in zip(owners, programs, strict=True)]
        with _timed(timings, "execute_s"):
            runs = self._executor.execute(
                attempts,
                kinds=self._judge.kinds,
                stops_early=self._judge.stops_early,
                reads_references=self._judge.reads_references,
            )
        groups = []
        with _timed(timings, "judge_s"):
            for index, (problem, place) in enumerate(zip(sampled.problems, sampled.places, strict=True)):
                span = slice(index * samples, (index + 1) * samples)
                own = jax.tree.map(lambda x, span=span: x[span], completions)
                longest = self._settings.data.prompt_tokens
                rollouts = join_rollouts(self._prompts[problem], own, version=sampled.version, longest=longest)
                judged = self._judge(problem, runs[span], stream=(sampled.batch + place) % 2, batch=sampled.batch)
                identity = np.int32(problem), np.int32(sampled.batch), np.int32(place)
                groups.append(Group(rollouts, *judged, ~np.asarray(own.has_ended), *identity))
                if self._journal is not None:
                    self._write_down(groups[-1], own, programs[span], runs[span])
        return groups

    def _write_down(
        self, group: Group, own: sampling.Completions, programs: Sequence[str], runs: Sequence[CandidateRun]
    ) -> None:
        tokenizer = self._policy.tokenizer
        rows = zip(np.asarray(own.tokens), np.asarray(own.length), strict=True)
        assert self._journal is not None
        self._journal.add(
            group,
            problem=self._records[int(group.problem)].id,
            completions=[tokenizer.decode(tokens[:length], keeps_reasoning_tags=True) for tokens, length in rows],
            programs=programs,
            runs=runs,
        )


def _spread(prompt_ids: Sequence[np.ndarray], samples: int, *, shares: int) -> tuple[Sequence[np.ndarray], int]:
    """Repeat prompts with fewer samples each where that gives every row share equally many, and nobody rows of waste.

    Which rows belong to which prompt stays: those of one prompt are neighbours.
    """
    parts = shares // math.gcd(len(prompt_ids), shares)
    if samples % parts:
        return prompt_ids, samples
    return [prompt for prompt in prompt_ids for _ in range(parts)], samples // parts


@contextlib.contextmanager
def _timed(timings: dict[str, float], name: str) -> Iterator[None]:
    started_s = time.monotonic()
    yield
    timings[name] = timings.get(name, 0.0) + time.monotonic() - started_s


def pad_prompts(prompt_ids: Sequence[np.ndarray], length: int, *, pad: int) -> tuple[np.ndarray, np.ndarray]:
    """Pad prompts on the right to `length` tokens; none may be longer.

    Returns:
      Tokens int32 `[b, length]`, and the mask `[b, length]` of the real ones.
    """
    tokens = np.full((len(prompt_ids), length), pad, np.int32)
    for row, ids in enumerate(prompt_ids):
        tokens[row, : len(ids)] = ids
    lengths = np.array([len(ids) for ids in prompt_ids])
    return tokens, np.arange(length) < lengths[:, None]


def extract_programs(
    completions: sampling.Completions, tokenizer: Tokenizer, prompt_ids: Sequence[np.ndarray], data: DataSettings
) -> list[str]:
    """Extract the program from each completion.

    Args:
      completions: `[r, t]`, equally many rows for each prompt, those of one prompt side by side.
      tokenizer: that of the policy.
      prompt_ids: token ids of each prompt.
      data: how a program is taken out of a completion.
    """
    samples = len(completions.tokens) // len(prompt_ids)
    rows = enumerate(zip(np.asarray(completions.tokens), np.asarray(completions.length), strict=True))
    return [
        prompts.sampled_program(tokenizer, prompt_ids[row // samples], tokens[:length], data)
        for row, (tokens, length) in rows
    ]


def join_rollouts(
    prompt: np.ndarray, completions: sampling.Completions, *, version: int, longest: int
) -> arrays.Rollouts:
    """Join the prompt and the completions of one group: the sampled ids are the trained ids.

    Args:
      prompt: int32 `[p]`.
      completions: `[r, t]` of this prompt.
      version: policy version that sampled them.
      longest: room for the prompt in tokens; rows are padded on the right to `longest + t`, so that all groups have one
        shape.
    """
    r, steps = completions.tokens.shape
    is_sampled = np.arange(steps) < completions.length[:, None]
    before = ((0, 0), (len(prompt), longest - len(prompt)))
    tokens = np.pad(np.where(is_sampled, completions.tokens, 0).astype(np.int32), before)
    tokens[:, : len(prompt)] = prompt
    return arrays.Rollouts(
        tokens=tokens,
        is_completion=np.pad(is_sampled, before),
        log_prob=np.pad(np.where(is_sampled, completions.log_prob, 0).astype(np.float32), before),
        policy_version=np.full(r, version, np.int32),
    )
