"""Edge: the main job in one command, `python -m optimrl_jax.quickstart [VARIANT]`: dataset, SFT, GRPO, evaluation.

Each step is a job in a process of its own, started as a user would start it, in `runs` under the current directory. A
job that was stopped resumes where it was; one whose result is there is skipped. The variant `external` trains as the
main one does, with rollouts that `optimrl_jax.serve` samples in a process of its own, and compares the two.
"""

import contextlib
import pathlib
import socket
import subprocess
import sys
import time
import typing
from collections.abc import Iterator, Sequence

from optimrl_jax.jobs.command_line import ArgumentParser, run_command
from optimrl_jax.jobs.processes import run_job_process
from optimrl_jax.study.plan import SMALL_DATASET

MAIN = "quickstart"
EXTERNAL = "external"
VARIANTS = ("ranked", "rlvr", "mcmo", "opt_only", EXTERNAL)
ROOT = pathlib.Path("runs")
HOST = "127.0.0.1"
# Loading a policy on a busy machine; the first completions compile later.
SERVER_STARTS_S = 300.0


class QuickstartStep(typing.NamedTuple):
    """A job of the quickstart.

    Attributes:
      result: the file that it leaves when it is finished; None where it is never skipped.
      module: which job.
      flags: those that it gets.
      served: flags of the `serve` that samples for it; empty where it samples itself.
    """

    result: pathlib.Path | None
    module: str
    flags: tuple[str, ...]
    served: tuple[str, ...] = ()


def steps_of(variant: str) -> list[QuickstartStep]:
    """List the jobs of a variant in order; all variants share the dataset and the SFT policy of the main one.

    Args:
      variant: one of `VARIANTS`; `external` also needs the GRPO run of the main one, beside which it is evaluated.
    """
    shared, own = ROOT / MAIN, ROOT / (MAIN if variant == VARIANTS[0] else f"{MAIN}_{variant}")
    config, main_config = (f"--config=configs/{MAIN}.py:{name}" for name in (variant, VARIANTS[0]))
    dataset, sft, grpo = shared / "dataset", shared / "sft", own / "grpo"
    prepared = [
        QuickstartStep(dataset / "COMPLETE", "beam_pipelines.build_dataset", (*SMALL_DATASET, f"--output={dataset}")),
        QuickstartStep(sft / "summary.json", "optimrl_jax.sft", (main_config, f"--workdir={sft}")),
    ]
    served = (config, f"--workdir={sft}") if variant == EXTERNAL else ()
    trained = [QuickstartStep(grpo / "summary.json", "optimrl_jax.train", (config, f"--workdir={grpo}"), served)]
    if variant == EXTERNAL:
        beside = shared / "grpo"
        trained.insert(
            0, QuickstartStep(beside / "summary.json", "optimrl_jax.train", (main_config, f"--workdir={beside}"))
        )
    return [*prepared, *trained, QuickstartStep(None, "optimrl_jax.evaluate", (config, f"--workdir={own}"))]


def main(arguments: Sequence[str]) -> int:
    """Run the jobs that are not done yet, in order, up to the first that fails.

    Args:
      arguments: those after the program's name.

    Returns:
      The exit code of the job that failed, 2 after one line for a caller's mistake, else 0.
    """
    return run_command(_run, arguments, name=MAIN)


def _run(arguments: Sequence[str]) -> None:
    parser = ArgumentParser(prog=MAIN, description="Run the main job on two cores, about 8 minutes.")
    parser.add_argument(
        "variant",
        nargs="?",
        default=VARIANTS[0],
        type=_variant,
        choices=VARIANTS,
        help="reward and environment of GRPO",
    )
    for step in steps_of(parser.parse_args(arguments).variant):
        if step.result and step.result.exists():
            continue
        with _sampler(step.served) as flags:
            code = run_job_process(step.module, (*step.flags, *flags))
        if code:
            sys.exit(code)


@contextlib.contextmanager
def _sampler(served: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Serve a policy on a free port of the loopback for as long as a job samples there; yield the flags of the job."""
    if not served:
        yield ()
        return
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "optimrl_jax.serve", *served, f"--config.serve.port={port}"]
    with subprocess.Popen(command) as server:
        try:
            _wait_for(server, port)
            yield (f"--config.grpo.sampler=http://{HOST}:{port}/v1",)
        finally:
            server.terminate()


def _wait_for(server: subprocess.Popen, port: int) -> None:
    """Wait until the server listens, or has ended, or has had time enough: the job then says what is wrong."""
    ends_s = time.monotonic() + SERVER_STARTS_S
    while server.poll() is None and time.monotonic() < ends_s:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1.0):
            return
        time.sleep(0.2)


def _variant(name: str) -> str:
    """Return the variant of that name, which may also be the name of its directory in `runs`."""
    return VARIANTS[0] if name == MAIN else name.removeprefix(f"{MAIN}_")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
