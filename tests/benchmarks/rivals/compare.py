"""Edge: rollouts a second of this project over those of another trainer: on the same two cores, taking turns."""

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import typing
from collections.abc import Iterator, Sequence

from tests.benchmarks.rivals import setup

ROOT = pathlib.Path(__file__).parents[3]
SHAPE = {
    "threads": 2,
    "model": {
        "vocabulary": 2048,
        "width": 128,
        "mlp_width": 352,
        "layers": 4,
        "heads": 4,
        "kv_heads": 2,
        "has_tied_embeddings": True,
    },
    "prompt_tokens": 48,
    "completion_tokens": 48,
    "problems": 6,
    "rollouts": 16,
    "micro_rows": 2,
    # Rows of a few hundred tokens are fastest on CPUs: what is computed of them stays in caches, and its memory is not
    # given back to the system, which clears it anew, after each step.
    "row_rollouts": 8,
    # The tokens of a branch.
    "attention_block": 49,
    "logits_chunk": 64,
}
# Where prompts are short, there is less to gain from processing each only once.
SHORT_PROMPTS = SHAPE | {
    "prompt_tokens": 16,
    "completion_tokens": 80,
    "row_rollouts": 4,
    "attention_block": 96,
    "logits_chunk": 85,
}
SHAPES = {"": SHAPE, "_short_prompts": SHORT_PROMPTS}
OURS = "tests.benchmarks.rivals.ours"
UPDATES = 12
WARM_UP = 3


def rollout_ratios(directories: dict[str, pathlib.Path]) -> dict[str, float | None]:
    """Compare with each rival in each shape.

    Args:
      directories: environments by rival, those of `setup.RIVALS`.

    Returns:
      Ratios of rollouts a second by "RIVAL_rollout_ratio" and "RIVAL_rollout_ratio_short_prompts"; None for a rival
      whose environment is not there, which is said.
    """
    pythons = {name: setup.python_of(directory) for name, directory in directories.items()}
    found: dict[str, float | None] = {}
    for name, python in pythons.items():
        if not python.exists():
            print(
                f"{python.parents[1]} is no environment: python -m tests.benchmarks.rivals.setup {name}",
                file=sys.stderr,
            )
    present = {name: python for name, python in pythons.items() if python.exists()}
    for suffix, shape in SHAPES.items():
        ratios = rollout_ratio(present, shape=shape) if present else {}
        found |= {f"{name}_rollout_ratio{suffix}": ratios.get(name) for name in pythons}
    return found


def rollout_ratio(
    pythons: dict[str, pathlib.Path], *, shape: dict[str, typing.Any] = SHAPE, updates: int = UPDATES
) -> dict[str, float]:
    """Return the median over the updates of each rival's seconds over ours, after a few updates to warm up.

    All sides are alive to the end and wait for their turns: none starts or ends while another one is timed.

    Args:
      pythons: interpreters of the rivals' environments, by name.
      shape: of the model and of the work.
      updates: turns of each side.
    """
    names = ("ours", *pythons)
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        argument = json.dumps(shape | {"directory": directory})
        commands = [[sys.executable, "-m", OURS, argument]]
        for name, python in pythons.items():
            commands.append([str(python), "-m", f"tests.benchmarks.rivals.train_{name}", argument])
        sides = [stack.enter_context(started(command, shape)) for command in commands]
        turns = [[seconds_of(side) for side in sides] for _ in range(updates)]
    warm = turns[WARM_UP:]
    for name, seconds in zip(names, zip(*warm, strict=True), strict=True):
        print(f"{name}: {statistics.median(seconds):.3f} s an update, best {min(seconds):.3f} s", file=sys.stderr)
    return {
        name: statistics.median(turn[at] / turn[0] for turn in warm) for at, name in enumerate(names) if name in pythons
    }


@contextlib.contextmanager
def started(command: Sequence[str], shape: dict[str, typing.Any]) -> Iterator[subprocess.Popen]:
    """Run one side on the first cores; end it whatever happens."""
    cores = sorted(os.sched_getaffinity(0))[: shape["threads"]]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    if OURS in command:
        # Small operations that two devices do side by side wait less than those whose halves two threads do.
        environment["JAX_NUM_CPU_DEVICES"] = str(shape["threads"])
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    os.sched_setaffinity(process.pid, cores)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def seconds_of(side: subprocess.Popen) -> float:
    """Let one side do one update; skip what libraries print in between.

    Raises:
      RuntimeError: if it ended.
    """
    side.stdin.write("\n")
    side.stdin.flush()
    for line in side.stdout:
        if line.startswith('{"seconds":'):
            return json.loads(line)["seconds"]
    raise RuntimeError(f"{side.args[:2]} ended with code {side.wait()}: see its messages above")
