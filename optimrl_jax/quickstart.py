"""Edge: the main job in one command, `python -m optimrl_jax.quickstart [VARIANT]`: dataset, SFT, GRPO, evaluation.

Each step is a job in a process of its own, started as a user would start it, in `runs` under the current directory. A
job that was stopped resumes where it was; one whose result is there is skipped.
"""

import argparse
import pathlib
import signal
import subprocess
import sys
from collections.abc import Sequence

MAIN = "quickstart"
VARIANTS = ("ranked", "rlvr", "mcmo", "opt_only")
ROOT = pathlib.Path("runs")

# The file that a finished step leaves (None: never skipped), its module and its flags.
Step = tuple[pathlib.Path | None, str, tuple[str, ...]]


def steps_of(variant: str) -> list[Step]:
    """List the jobs of a variant in order; all variants share the dataset and the SFT policy of the main one.

    Args:
      variant: one of `VARIANTS`.

    Returns:
      For each job, the file that it leaves (None: never skipped), its module and its flags.
    """
    shared, own = ROOT / MAIN, ROOT / (MAIN if variant == VARIANTS[0] else f"{MAIN}_{variant}")
    config, main_config = (f"--config=configs/{MAIN}.py:{name}" for name in (variant, VARIANTS[0]))
    dataset, sft, grpo = shared / "dataset", shared / "sft", own / "grpo"
    return [
        (dataset / "COMPLETE", "beam_pipelines.build_dataset", ("--source=mini", f"--output={dataset}")),
        (sft / "summary.json", "optimrl_jax.sft", (main_config, f"--workdir={sft}")),
        (grpo / "summary.json", "optimrl_jax.train", (config, f"--workdir={grpo}")),
        (None, "optimrl_jax.evaluate", (config, f"--workdir={own}")),
    ]


def main(arguments: Sequence[str]) -> int:
    """Run the jobs that are not done yet, in order, up to the first that fails.

    Args:
      arguments: those after the program's name.

    Returns:
      The exit code of the job that failed, else 0.
    """
    parser = argparse.ArgumentParser(prog="quickstart", description="Run the main job on two cores, about 10 minutes.")
    parser.add_argument(
        "variant",
        nargs="?",
        default=VARIANTS[0],
        type=_variant,
        choices=VARIANTS,
        help="reward and environment of GRPO",
    )
    for result, module, flags in steps_of(parser.parse_args(arguments).variant):
        if result and result.exists():
            continue
        code = _run([sys.executable, "-m", module, *flags])
        if code:
            return code
    return 0


def _variant(name: str) -> str:
    """Return the variant of that name, which may also be the name of its directory in `runs`."""
    return VARIANTS[0] if name == MAIN else name.removeprefix(f"{MAIN}_")


def _run(command: list[str]) -> int:
    with subprocess.Popen(command) as child:
        # Ctrl-C reaches the child by itself; it leaves its last checkpoint before it ends, and this process waits.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        return child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
