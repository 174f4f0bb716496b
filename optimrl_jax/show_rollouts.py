"""Edge: shows rollouts of a GRPO job: the best, the worst and the oddest programs that it sampled.

`python -m optimrl_jax.show_rollouts --workdir=runs/quickstart/grpo`. Best and worst go by reward, the faster of equal
ones first; odd is a rollout whose reward lies far from the median of its group: the one that solved what the others did
not, or the other way round. The same rows as Parquet lie in `rollouts` of the workdir.
"""

import collections
import statistics
import sys
import typing
from collections.abc import Callable, Sequence

import rich.console
import rich.markup

from optimrl_jax.arrays import AffineMap, Status
from optimrl_jax.jobs.command_line import ArgumentParser, run_command
from optimrl_jax.jobs.errors import require
from optimrl_jax.jobs.user_paths import existing_path
from optimrl_jax.rollout import journal

NAME = "show_rollouts"
Row = dict[str, typing.Any]


def best(rows: Sequence[Row]) -> list[Row]:
    """Order rollouts by falling reward, the faster of equal ones first."""
    return sorted(rows, key=lambda row: (-row["reward"], sum(row["duration_s"])))


def worst(rows: Sequence[Row]) -> list[Row]:
    """Order rollouts by rising reward, the slower of equal ones first."""
    return sorted(rows, key=lambda row: (row["reward"], -sum(row["duration_s"])))


def oddest(rows: Sequence[Row]) -> list[Row]:
    """Order rollouts by the distance of their reward from the median of their group, farthest first."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["batch"], row["place"]].append(row["reward"])
    medians = {key: statistics.median(rewards) for key, rewards in groups.items()}
    return sorted(rows, key=lambda row: -abs(row["reward"] - medians[row["batch"], row["place"]]))


ORDERS: dict[str, Callable[[Sequence[Row]], list[Row]]] = {"best": best, "worst": worst, "oddest": oddest}


def main(arguments: Sequence[str]) -> None:
    """Print the rollouts that the arguments ask for.

    Raises:
      UserError: where there are none.
    """
    parser = ArgumentParser(prog=NAME, description="Show the best, worst and oddest rollouts of a GRPO job.")
    parser.add_argument("--workdir", default="", help="workdir of the job")
    parser.add_argument("--show", default=",".join(ORDERS), help="orders, separated by commas")
    parser.add_argument("--count", type=int, default=2, help="rollouts of each order")
    parser.add_argument("--problem", default="", help="only those of the problem with this id")
    options = parser.parse_args(arguments)
    names = options.show.split(",")
    for name in names:
        require(name in ORDERS, "--show", options.show, f"some of {','.join(ORDERS)}")
    require(options.count > 0, "--count", options.count, "a positive number")
    workdir = existing_path(options.workdir, "--workdir", is_directory=True)
    rows = journal.read_rollouts(workdir / journal.FOLDER)
    require(bool(rows), "--workdir", options.workdir, "a job that has written rollouts (grpo.keeps_rollouts)")
    rows = [row for row in rows if row["is_valid"] and options.problem in ("", row["problem"])]
    require(bool(rows), "--problem", options.problem, "a problem with valid rollouts")
    console = rich.console.Console(highlight=False)
    for name in names:
        for row in ORDERS[name](rows)[: options.count]:
            console.rule(f"{name}: reward {row['reward']:.3f}, advantage {row['advantage']:+.3f}")
            console.print(rich.markup.escape(f"{_about(row)}\n\n{row['program'] or row['completion']}"))


def _about(row: Row) -> str:
    counts = collections.Counter(Status(status).name.lower() for status in row["status"])
    tests = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    cut = ", ran out of tokens" if row["is_cut"] else ""
    slope, offset_s = journal.drift_of(row)
    is_drifted = (slope, offset_s) != AffineMap()
    clock = f"; stored seconds read as {slope:.3f} * stored {offset_s:+.4f} s" if is_drifted else ""
    return (
        f"{row['problem']}, batch {row['batch']}, policy of step {row['policy_version']}, "
        f"{row['tokens']} tokens{cut}\ntests: {tests}; {sum(row['duration_s']):.3f} s in all{clock}"
    )


if __name__ == "__main__":
    sys.exit(run_command(main, name=NAME))
