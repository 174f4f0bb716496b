"""Which jobs a study is made of, and where each leaves its result: pure lists."""

import typing
from collections.abc import Sequence

SFT = "sft"
# The dataset of quickstart and study. More calls of a generator take minutes: they keep more problems in the split, and
# rank no better (docs/study.md).
SMALL_DATASET = ("--source=mini", "--calls=1")
# Names of `environment.PRESETS`, in the order of the tables.
ROWS = (
    "standard_rlvr",
    "mc",
    "mc_optimization_tests",
    "abs_timeout_0.5s",
    "per_test_top_30",
    "per_test_collapsed_bucketed",
    "per_test_two_gate_binary",
    "per_test_two_gate_bucketed",
    "per_test_blend_binary",
    "per_test_blend_bucketed",
    "per_test_multitask_binary",
    "per_test_optimization_only_binary",
)


class StudyStep(typing.NamedTuple):
    """One job of a study.

    Attributes:
      result: the file that it leaves when it is finished.
      module: which job.
      flags: those that it gets.
    """

    result: str
    module: str
    flags: tuple[str, ...]


def study_steps(
    root: str, *, config: str, rows: Sequence[str], seeds: int, changes: Sequence[str] = ()
) -> list[StudyStep]:
    """List the jobs in order: the dataset, and for each seed its SFT policy, every row from it, and one shared pass.

    A seed is whole before the next one begins, so that a study that is stopped has every row of its first seeds.

    Args:
      root: directory of the study.
      config: configuration file whose rows are those of the study.
      rows: to train.
      seeds: how many, from 0.
      changes: further flags `--config.FIELD=VALUE` of every job but the dataset's.
    """
    dataset = f"{root}/dataset"
    built = (*SMALL_DATASET, f"--output={dataset}")
    steps = [StudyStep(f"{dataset}/COMPLETE", "beam_pipelines.build_dataset", built)]
    for seed in range(seeds):
        of_seed = f"{root}/seed{seed}"
        start = f"{of_seed}/{SFT}"
        same = (f"--config.seed={seed}", f"--config.data.directory={dataset}", *changes)
        steps.append(_step("optimrl_jax.sft", start, (f"--config={config}", *same)))
        policies = {SFT: start} | {row: f"{of_seed}/{row}" for row in rows}
        for row in rows:
            flags = (f"--config={config}:{row}", *same, f"--config.grpo.init_from={start}")
            steps.append(_step("optimrl_jax.train", policies[row], flags))
        pairs = str(tuple(policies.items()))
        flags = (f"--config={config}", *same, f"--config.evaluation.policies={pairs}")
        steps.append(_step("optimrl_jax.evaluate", of_seed, flags))
    return steps


def _step(module: str, workdir: str, flags: Sequence[str]) -> StudyStep:
    return StudyStep(f"{workdir}/summary.json", module, (*flags, f"--workdir={workdir}"))
