"""Edge: asks a model what made one of two correct programs faster, for every problem that two sides solve.

`python -m optimrl_jax.compare --records=W/evaluation --policy=grpo --against=sft|human --endpoint=http://host:port/v1#model
--output=D [--answers=10] [--agree=3]`. Every answer is kept in `answers.jsonl`: the same command goes on where it was.
Writes `pairs.parquet`, `categories.png` and `summary.json`.
"""

import argparse
import collections
import logging
import math
import os
import pathlib
import sys
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from optimrl_jax.analysis import pairwise
from optimrl_jax.analysis.pairwise import Classification
from optimrl_jax.analysis.study import PolicyRun, Study, open_studies
from optimrl_jax.evaluation import style
from optimrl_jax.evaluation.endpoint import PolicyEndpoint, Question
from optimrl_jax.evaluation.policies import KEY_VARIABLE
from optimrl_jax.jobs import files
from optimrl_jax.jobs.command_line import ArgumentParser, log_to_terminal, run_command
from optimrl_jax.jobs.errors import UserError, require
from optimrl_jax.jobs.locks import locked_directory
from optimrl_jax.jobs.progress import JobProgress
from optimrl_jax.jobs.user_paths import writable_directory

_LOG = logging.getLogger(__name__)
HUMAN_SIDE = "human"
NAME = "compare"


def main(argv: Sequence[str] | None = None) -> int:
    """Compare what the flags name.

    Returns:
      The exit code: 0, or 2 after one line for a caller's mistake.
    """
    log_to_terminal()
    return run_command(lambda arguments: compare(_parser().parse_args(arguments)), argv, name=NAME)


def compare(flags: argparse.Namespace) -> None:
    """Select pairs, ask the model, vote, and write the results."""
    for name in ("answers", "agree", "tokens"):
        require(getattr(flags, name) > 0, f"--{name}", getattr(flags, name), "a positive number")
    require(0 <= flags.temperature < math.inf, "--temperature", flags.temperature, "a number that is not negative")
    output = writable_directory(flags.output, "--output")
    (study, *_) = open_studies([pathlib.Path(flags.records)])
    left = _named(study, flags.policy, "--policy")
    right = None if flags.against == HUMAN_SIDE else _named(study, flags.against, "--against")
    if right and right.timing is not left.timing:
        raise UserError(f"{left.label} and {right.label}: expected two policies of one timing pass")
    selection = pairwise.select_pairs(study, left, right)
    with locked_directory(output, field="--output"):
        _compare(selection, flags, output)


def _compare(selection: pairwise.Selection, flags: argparse.Namespace, output: pathlib.Path) -> None:
    found = classify(selection.pairs, flags, answers=output / "answers.jsonl")
    files.write_json(output / "summary.json", summarize(selection, found))
    rows = [_row(classification) for classification in found]
    if rows:
        pq.write_table(pa.Table.from_pylist(rows), output / "pairs.parquet")
        _draw(found, output / "categories.png")
    _LOG.info("%d pairs, %d classified: %s", len(found), sum(bool(one.category) for one in found), output)


def classify(
    pairs: Sequence[pairwise.Pair], flags: argparse.Namespace, *, answers: pathlib.Path
) -> list[Classification]:
    """Ask for `--answers` opinions of each pair, in random order of its programs, and vote.

    Args:
      pairs: to classify.
      flags: of the command line.
      answers: file that keeps every answer.

    Raises:
      UserError: where the server does not answer.
    """
    url, _, model = flags.endpoint.partition("#")
    draw = np.random.default_rng(flags.seed)
    orders = draw.random((len(pairs), flags.answers)) < 0.5
    questions = [
        Question(pairwise.comparison_prompt(pair, is_swapped=bool(is_swapped)), number, flags.temperature, flags.tokens)
        for pair, row in zip(pairs, orders, strict=True)
        for number, is_swapped in enumerate(row)
    ]
    name = model or "judge"
    # A judge that moved to another address is the same judge, whose answers are paid for.
    endpoint = PolicyEndpoint(url, name, store=answers, asked=name, key=os.environ.get(KEY_VARIABLE, ""))
    try:
        with JobProgress("answers", len(questions)) as progress:
            texts = [answer.text for answer in endpoint.ask(questions, on_answer=progress.advance_to)]
    finally:
        endpoint.close()
    found = []
    for place, (pair, row) in enumerate(zip(pairs, orders, strict=True)):
        own = texts[place * flags.answers : (place + 1) * flags.answers]
        verdicts = [pairwise.read_verdict(text, is_swapped=bool(swap)) for text, swap in zip(own, row, strict=True)]
        found.append(pairwise.classify_pair(pair, verdicts, least=flags.agree))
    return found


def summarize(selection: pairwise.Selection, found: Sequence[Classification]) -> dict[str, object]:
    """Count what was filtered, how often the direction was right, and who won, by category and difficulty.

    Args:
      selection: the pairs and what was left out.
      found: the vote on each pair.

    Returns:
      Plain values for JSON.
    """
    answers, correct = (sum(getattr(one, name) for one in found) for name in ("answers", "correct"))
    wins = {"speed": collections.Counter(), "category": collections.Counter(), "complexity": collections.Counter()}
    by_difficulty: dict[str, collections.Counter[str]] = {}
    for one in found:
        winner = one.pair.names[one.pair.faster]
        wins["speed"][winner] += 1
        by_difficulty.setdefault(str(one.pair.difficulty), collections.Counter())[winner] += 1
        if one.category:
            wins["category"][f"{winner}: {one.category}"] += 1
            wins["complexity"][f"{winner}: {one.kind}"] += 1
            wins["complexity"][f"{winner}: improves complexity"] += int(one.improves_complexity is True)
    return {
        "pairs": len(found),
        "filtered": {name: getattr(selection, name) for name in ("neither", "only_one", "ties")},
        "classified": sum(bool(one.category) for one in found),
        "direction_accuracy": correct / answers if answers else None,
        **{f"wins_by_{name}": dict(counter) for name, counter in wins.items()},
        "wins_by_difficulty": {name: dict(counter) for name, counter in sorted(by_difficulty.items())},
    }


def _named(study: Study, label: str, flag: str) -> PolicyRun:
    known = {policy.label: policy for policy in study.policies}
    require(label in known, flag, label, f"one of {', '.join([*known, HUMAN_SIDE])}")
    return known[label]


def _row(found: Classification) -> dict[str, object]:
    pair = found.pair
    return {
        "problem": pair.problem,
        "difficulty": pair.difficulty,
        "faster": pair.names[pair.faster],
        "seconds": list(pair.seconds),
        "speedup": max(pair.seconds) / min(pair.seconds),
        "category": found.category,
        "kind": found.kind,
        "improves_complexity": found.improves_complexity,
        "answers": found.answers,
        "correct_direction": found.correct,
        "programs": list(pair.programs),
    }


def _draw(found: Sequence[Classification], path: pathlib.Path) -> None:
    """Draw bars of the reasons, a colour for each winner (Figure 7)."""
    classified = [one for one in found if one.category]
    names = found[0].pair.names
    caption = f"n = {len(classified)} classified of {len(found)} pairs; percent of the classified"
    figure = style.new_figure(8.0, 3.8, caption=caption)
    axes = figure.subplots()
    for side, name in enumerate(names):
        own = collections.Counter(one.category for one in classified if one.pair.faster == side)
        shares = [100 * own[category] / max(1, len(classified)) for category in pairwise.CATEGORIES]
        y = np.arange(len(shares)) + 0.4 * side - 0.2
        axes.barh(y, shares, 0.38, color=style.colour(side), label=f"{name} is faster")
    style.label_ticks(axes, y=[category.replace("_", " ").lower() for category in pairwise.CATEGORIES], size=8)
    axes.invert_yaxis()
    axes.set(xlabel="classified pairs, %")
    style.show_legend(axes)
    figure.savefig(path, dpi=style.DPI)


def _parser() -> ArgumentParser:
    description = "Ask a model what made one of two correct programs faster, for every problem that two sides solve."
    parser = ArgumentParser(prog=NAME, description=description)
    parser.add_argument("--records", required=True, help="directory that an evaluation wrote")
    parser.add_argument("--policy", required=True, help="policy whose programs are compared")
    parser.add_argument("--against", required=True, help="another policy, or human: the fastest reference")
    parser.add_argument("--endpoint", required=True, help="http://host:port/v1#model")
    parser.add_argument("--output", required=True, help="directory of answers, pairs and summary")
    parser.add_argument("--answers", type=int, default=10, help="opinions of each pair, programs in random order")
    parser.add_argument("--agree", type=int, default=3, help="answers with the measured direction that a label needs")
    parser.add_argument("--temperature", type=float, default=1.0, help="of the judging model")
    parser.add_argument("--tokens", type=int, default=4096, help="longest answer")
    parser.add_argument("--seed", type=int, default=0, help="of the order of programs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
