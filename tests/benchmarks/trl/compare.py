"""Edge: rollouts a second of this project over those of TRL: on the same two cores, taking turns."""

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

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
    "attention_block": 24,
    "logits_chunk": 64,
    "updates": 12,
}
WARM_UP = 3


def rollout_ratio(trl_python: pathlib.Path, *, shape: dict = SHAPE) -> float:
    """Median over the updates of TRL's seconds over ours, after a few updates to warm up."""
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        argument = json.dumps(shape | {"directory": directory})
        theirs = [str(trl_python), str(pathlib.Path(__file__).with_name("train.py")), argument]
        sides = [
            stack.enter_context(started([sys.executable, "-m", "tests.benchmarks.trl.ours", argument], shape)),
            stack.enter_context(started(theirs, shape)),
        ]
        turns = [[seconds_of(side) for side in sides] for _ in range(shape["updates"])]
    for name, seconds in zip(("ours", "TRL"), zip(*turns[WARM_UP:], strict=True), strict=True):
        print(f"{name}: {statistics.median(seconds):.3f} s an update", file=sys.stderr)
    return statistics.median(theirs_s / ours_s for ours_s, theirs_s in turns[WARM_UP:])


@contextlib.contextmanager
def started(command: Sequence[str], shape: dict) -> Iterator[subprocess.Popen]:
    """One side on the first cores, ended whatever happens."""
    cores = sorted(os.sched_getaffinity(0))[: shape["threads"]]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
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
    """Lets one side do one update; skips what libraries print in between. Raises RuntimeError where it ended."""
    side.stdin.write("\n")
    side.stdin.flush()
    for line in side.stdout:
        if line.startswith('{"seconds":'):
            return json.loads(line)["seconds"]
    raise RuntimeError(f"{side.args[:2]} ended with code {side.wait()}: see its messages above")
