"""Edge: what is evaluated on, and by which scores: the held-out split or a benchmark of tests alone.

`evaluate` and the evaluation during training take the same problems under the same checks, so that their figures can
be compared.
"""

import dataclasses
import logging
from collections.abc import Sequence

from optimrl_jax.data import benchmark, dataset
from optimrl_jax.environment import padding
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.settings import Settings

_LOG = logging.getLogger(__name__)


def check_scores(settings: Settings) -> None:
    """Check what can be evaluated before anything is sampled.

    Raises:
      UserError: for pass@k or p_tau that do not fit, naming the setting.
    """
    most, samples = max(settings.evaluation.ks, default=0), settings.evaluation.samples
    if not settings.evaluation.ks or most > samples:
        raise UserError(
            f"evaluation.ks = {settings.evaluation.ks}: expected numbers up to evaluation.samples = {samples}"
        )
    if not settings.evaluation.taus:
        raise UserError("evaluation.taus = (): expected at least one percentile in (0, 100]")


def load_held_out(settings: Settings) -> list[dataset.ProblemRecord]:
    """Load the problems to evaluate on: a tests-only benchmark where one is named, else the held-out split.

    Raises:
      UserError: for a file or dataset that cannot be read.
    """
    if settings.evaluation.benchmark:
        problems = benchmark.read_benchmark(settings.evaluation.benchmark)
    else:
        problems = dataset.load_records(settings.data.directory, settings.data.test_split, field="data.test_split")
    return problems[: settings.evaluation.problems or None]


def with_known_taus(settings: Settings, problems: Sequence[padding.Record]) -> Settings:
    """Report p100 alone, plain correctness, where no problem has a reference and so there is no leaderboard.

    Args:
      settings: with `evaluation.taus`.
      problems: that are evaluated on.
    """
    if any(problem.is_usable.any() for problem in problems):
        return settings
    _LOG.info("no problem has references: scores are of correctness alone (p100)")
    return dataclasses.replace(settings, evaluation=dataclasses.replace(settings.evaluation, taus=(100,)))
