"""Edge: evaluates the weights of a training run on held-out problems while it trains.

Every evaluation is a timing pass of its own, with the references in it and a store of its own, so that none of its
seconds comes from training or from another step. Its records lie in `held_out/STEP` of the workdir, as those of
`python -m optimrl_jax.evaluate` do: a run that is started again reads those of the weights that it goes on with, and
drops those of weights that it has lost. Nothing here changes what is learned.
"""

import functools
import logging
import pathlib
import shutil
import time
import typing
from collections.abc import Sequence

import numpy as np

from optimrl_jax.arrays import Outcome
from optimrl_jax.data.dataset import ProblemRecord
from optimrl_jax.data.tokenizer import Tokenizer
from optimrl_jax.distributed import multihost
from optimrl_jax.evaluation import policies, records, replay, scores
from optimrl_jax.evaluation.collect import PolicySource, collect_records
from optimrl_jax.evaluation.held_out.problems import check_scores, with_known_taus
from optimrl_jax.jobs.checked_fields import thaw
from optimrl_jax.model import decoder
from optimrl_jax.rollout.actor import SampledProgram, Sampler
from optimrl_jax.settings import Network, Settings
from optimrl_jax.training.checkpoints import Policy
from sandbox.client import Client

_LOG = logging.getLogger(__name__)
FOLDER = "held_out"


class HeldOutEvaluation:
    """Scores the weights of a run before its first step, at every multiple of `evaluation.every`, and after the last.

    Several processes share the problems; all of them know all scores.

    Args:
      problems: to evaluate on, in every process the same.
      network: of the policy.
      tokenizer: of the policy.
      settings: those of the whole job.
      client: opened on the sandbox; its workers are shared with whatever else uses it.
      workdir: of the job.

    Raises:
      UserError: for scores that the settings cannot have, naming the setting.
    """

    def __init__(
        self,
        problems: Sequence[ProblemRecord],
        network: Network,
        tokenizer: Tokenizer,
        *,
        settings: Settings,
        client: Client,
        workdir: pathlib.Path,
    ) -> None:
        check_scores(settings)
        index, count = multihost.process_index_and_count()
        self._problems = problems[index::count]
        self._network, self._tokenizer, self._client = network, tokenizer, client
        self._settings = with_known_taus(settings, problems)
        self._workdir = workdir
        self._directory = multihost.process_directory(workdir) / FOLDER

    def is_due(self, step: int) -> bool:
        """Say whether weights of so many steps are to be evaluated."""
        return step % self._settings.evaluation.every == 0 or step == self._settings.grpo.steps

    def forget_after(self, step: int) -> None:
        """Drop the records of weights beyond a step, which a run that goes on from there trains anew."""
        for path in self._directory.glob("[0-9]*"):
            if int(path.name) > step:
                shutil.rmtree(path)

    def evaluate(self, params: decoder.Params, step: int) -> dict[str, float]:
        """Evaluate weights, or read the records of this step where an earlier start has left them.

        All processes call this at the same step. A disk without room for records is one line in the log.

        Args:
          params: the weights, on the devices of the learner.
          step: optimizer steps that they have seen.

        Returns:
          Scores by name, such as "held_out/pass_at_1_p30", the share of faulted samples and the seconds it took; a
          score that no problem has is left out.
        """
        started_s = time.monotonic()
        params = multihost.process_copy(params)
        try:
            own = self._collect(params, step)
        except OSError as error:
            if multihost.process_index_and_count()[1] > 1:
                raise
            _LOG.warning("the policy of step %d is not evaluated: %s", step, error.strerror or error)
            return {}
        outcome = _gather(own)
        figures = {
            f"{FOLDER}/{name.replace('@', '_at_')}_{tau}": cell["mean"]
            for name, row in self._scores(outcome).items()
            for tau, cell in row.items()
            if np.isfinite(cell["mean"])
        }
        figures[f"{FOLDER}/faulted_share"] = float(1 - outcome.is_valid.mean())
        return figures | {f"{FOLDER}/wall_s": time.monotonic() - started_s}

    def table(self) -> tuple[dict[str, scores.Scores], dict[str, scores.Scores]]:
        """Return the scores of the first and the last stored evaluation, by step, and the paired gain between them.

        All processes call this together. Both are empty where nothing is stored.
        """
        stored = sorted(int(path.name) for path in self._directory.glob("[0-9]*") if self._is_complete(path))
        steps = stored[:: max(1, len(stored) - 1)]
        outcomes = [_gather(self._replay(self._directory_of(step))) for step in steps]
        found = {f"step {step}": self._scores(outcome) for step, outcome in zip(steps, outcomes, strict=True)}
        if len(outcomes) < 2 or outcomes[0].c.shape != outcomes[1].c.shape:
            return found, {}
        gain = scores.paired_gains(*outcomes, **self._options())
        return found, {f"step {steps[1]} - step {steps[0]}": gain}

    def _scores(self, outcome: Outcome) -> scores.Scores:
        return scores.pass_scores(outcome, **self._options())

    def _options(self) -> dict[str, typing.Any]:
        chosen, seed = self._settings.evaluation, self._settings.seed
        return {"ks": chosen.ks, "taus": chosen.taus, "resamples": chosen.resamples, "seed": seed}

    def _directory_of(self, step: int) -> pathlib.Path:
        return self._directory / f"{step:08d}"

    def _is_complete(self, directory: pathlib.Path) -> bool:
        return not self._problems or (directory / records.RECORDS).exists()

    def _collect(self, params: decoder.Params, step: int) -> Outcome:
        """Judge this process's problems: outcomes `[b, n]`."""
        directory = self._directory_of(step)
        directory.mkdir(parents=True, exist_ok=True)
        if self._problems:
            source = PolicySource(self._facts(step), functools.partial(self._sample, params))
            sources = {f"{self._workdir.name}@{step}": source}
            connect = self._client.timing_pass
            collect_records(self._settings, self._problems, directory, sources=sources, connect=connect)
        return self._replay(directory)

    def _replay(self, directory: pathlib.Path) -> Outcome:
        """Judge stored records: outcomes `[b, n]` of this process's problems."""
        if not self._problems:
            nothing = np.zeros((0, self._settings.evaluation.samples), np.float32)
            return Outcome(nothing, nothing, nothing, nothing, nothing.astype(bool))
        evaluation = records.read_evaluation(directory)
        times, _ = replay.reference_times(evaluation, self._settings)
        (outcome,) = replay.replay_policies(evaluation, times, ties=self._settings.environment.ties).values()
        return outcome

    def _facts(self, step: int) -> dict[str, typing.Any]:
        values = thaw(self._settings)
        recipe = {name: values[name] for name in policies.RECIPE}
        place = {"source": f"{self._workdir}@{step}", "step": step, "written": None, "wall_s": None}
        return place | {"seed": self._settings.seed, "recipe": recipe}

    def _sample(self, params: decoder.Params) -> list[list[SampledProgram]]:
        policy = Policy(params, self._network, self._tokenizer)
        sampler = Sampler(policy, self._settings.data, self._settings.grpo.temperature)
        statements = [problem.statement for problem in self._problems]
        return sampler.sample_programs(statements, self._settings.evaluation.samples, seed=self._settings.seed)


def _gather(own: Outcome) -> Outcome:
    """Put the problems of all processes together, in the order of the processes."""
    parts = multihost.all_gather_states({name: np.asarray(part) for name, part in own._asdict().items()}, {})
    return Outcome(*(np.concatenate([part.arrays[name] for part in parts]) for name in Outcome._fields))
