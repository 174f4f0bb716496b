"""Edge: removes from a reasoning mix for SFT what evaluation sets contain: `python -m beam_pipelines.sft_mix`.

`--sft_mix=MIX.jsonl --evaluation_sets=A.jsonl,B.parquet --output=CLEAN.jsonl`. Every user message of a conversation is
compared with every statement, word for word and by estimated similarity, as problems of the corpus are
(`stages.deduplicate`); the rest is written unchanged and in order. `OUTPUT.removed.jsonl` says what went and why.
"""

import pathlib
import sys
from collections.abc import Sequence

from beam_pipelines import similarity
from beam_pipelines.sft_mix.cleaning import clean_mix
from beam_pipelines.sources.evaluation_sets import read_evaluation_sets
from beam_pipelines.stages.deduplicate import evaluation_set
from optimrl_jax.jobs.command_line import ArgumentParser, run_command
from optimrl_jax.jobs.errors import require

NAME = "sft_mix"


def main(arguments: Sequence[str]) -> None:
    """Clean the mix that the arguments name.

    Raises:
      UserError: for a file that is not there, a line that is no conversation, or no evaluation set.
    """
    parser = ArgumentParser(prog=NAME, description="Remove what evaluation sets contain from a reasoning mix for SFT.")
    parser.add_argument("--sft_mix", default="", help="JSON Lines with `messages` in every line")
    parser.add_argument(
        "--evaluation_sets", default="", help="JSON Lines or Parquet with statements, separated by commas"
    )
    parser.add_argument("--output", default="", help="JSON Lines to write; OUTPUT.removed.jsonl says what went")
    parser.add_argument(
        "--similar", type=float, default=similarity.SIMILAR, help="similarity from which texts are the same"
    )
    options = parser.parse_args(arguments)
    mix, output = pathlib.Path(options.sft_mix), pathlib.Path(options.output)
    require(mix.is_file(), "--sft_mix", options.sft_mix, "a file of JSON Lines")
    require(bool(options.output) and output != mix, "--output", options.output, "another file")
    require(0 < options.similar <= 1, "--similar", options.similar, "a share in (0, 1]")
    statements = read_evaluation_sets(options.evaluation_sets)
    require(bool(statements), "--evaluation_sets", options.evaluation_sets, "at least one statement")
    kept, removed = clean_mix(mix, output, held_out=evaluation_set(statements), similar=options.similar)
    print(f"{output}: kept {kept} conversations of {kept + removed}, removed {removed}")


if __name__ == "__main__":
    sys.exit(run_command(main, name=NAME))
