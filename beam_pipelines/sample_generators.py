"""Edge: `python -m beam_pipelines.sample_generators`: asks a model for input generators and stores every completion.

Sampled as in the paper, the model sees a solution that execution has verified, and each campaign of test generation has
samples of its own:

    python -m beam_pipelines.build_dataset ... --until=validate
    python -m beam_pipelines.sample_generators --verified=OUTPUT/until/validate --campaign=correctness ...
    python -m beam_pipelines.build_dataset ... --until=classify_correctness --generators=FILE
    python -m beam_pipelines.sample_generators --verified=OUTPUT/until/classify_correctness --campaign=optimization ...
    python -m beam_pipelines.build_dataset ... --generators=FILE

What a build has executed is stored, so that going on from a stage executes nothing again. The JSON Lines file that is
written is what `build_dataset --generators` reads. A run that was stopped goes on with what is missing.
"""

import argparse
import concurrent.futures
import dataclasses
import itertools
import json
import os
import pathlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from beam_pipelines import storage
from beam_pipelines.generators import endpoint, generator_prompt
from beam_pipelines.generators.harness import CAMPAIGN_METHODS
from beam_pipelines.options import BuildOptions
from beam_pipelines.pipeline import SOURCES
from beam_pipelines.records import Problem
from beam_pipelines.remote_files import existing_place
from optimrl_jax.jobs.command_line import ArgumentParser, run_command
from optimrl_jax.jobs.errors import require

KEY_VARIABLE = "OPENAI_API_KEY"


@dataclasses.dataclass(frozen=True)
class GeneratorRequest:
    """One completion to ask for.

    Attributes:
      id: names problem, campaign and attempt; the same in every run, so that a stopped job can go on.
      problem: id of the problem.
      prompt: the whole question.
      seed: of this attempt, for the model and for the solution shown.
      campaign: the round of test generation that it is for; empty for both.
    """

    id: str
    problem: str
    prompt: str
    seed: int
    campaign: str = ""


def main(arguments: Sequence[str]) -> None:
    """Ask a model for input generators and append every completion to a file.

    Args:
      arguments: what follows the program's name on the command line.

    Raises:
      UserError: an option does not fit, or the endpoint rejects every request or cannot be reached.
    """
    values = _parsed(arguments)
    output = pathlib.Path(values.output)
    require(bool(values.output) and output.parent.is_dir(), "--output", values.output, "a file in a directory")
    stored = stored_ids(output)
    asked = (request for request in generator_requests(values) if request.id not in stored)
    where = endpoint.Endpoint(
        url=values.endpoint,
        model=values.model,
        key=os.environ.get(KEY_VARIABLE, ""),
        temperature=values.temperature,
        retries=values.retries,
        interval_s=1 / values.requests_per_s,
        pause_s=values.pause_s,
    )
    outcomes = sample_completions(where, asked, output=output, concurrency=values.concurrency)
    table = ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items()))
    print(f"{output}: {len(stored)} completions were there, {outcomes.total()} asked for: {table or 'nothing to do'}")


def generator_requests(values: argparse.Namespace) -> Iterator[GeneratorRequest]:
    """Yield the attempts of every problem that has a correct Python 3 solution to show."""
    for problem in itertools.islice(_problems(values), values.limit or None):
        if not generator_prompt.shown_solutions(problem):
            continue
        for attempt in range(values.attempts):
            name = "/".join(filter(None, (problem.id, values.campaign, str(attempt))))
            # Other draws of the shown solution for the other campaign.
            seed = attempt + values.attempts * (values.campaign == "optimization")
            prompt = generator_prompt.generator_prompt(problem, seed=seed)
            yield GeneratorRequest(name, problem.id, prompt, seed=seed, campaign=values.campaign)


def _problems(values: argparse.Namespace) -> Iterator[Problem]:
    """Yield the problems that a build has verified or, without such, those of the source."""
    if values.verified:
        yield from storage.read_problems(values.verified)
        return
    options = BuildOptions(source=values.source, input=values.input, split=values.split, limit=values.limit)
    yield from (record for record in SOURCES[values.source](options).records() if isinstance(record, Problem))


def sample_completions(
    where: endpoint.Endpoint, asked: Iterable[GeneratorRequest], *, output: pathlib.Path, concurrency: int
) -> Counter[str]:
    """Send the requests and append one line per answer to the file as it comes.

    Requests are taken from the iterator as others are answered: a corpus of prompts never lies in memory.

    Args:
      where: the endpoint.
      asked: the requests.
      output: JSON Lines file to append to.
      concurrency: requests under way at the same time.

    Returns:
      How often each outcome occurred: `program`, `no_program`, `garbage` or `refused`.

    Raises:
      UserError: the endpoint rejects every request or cannot be reached; the lines written so far stay.
    """
    client = endpoint.ChatClient(where)
    outcomes: Counter[str] = Counter()
    left = iter(asked)
    waiting: set[concurrent.futures.Future[dict[str, object]]] = set()
    with concurrent.futures.ThreadPoolExecutor(concurrency) as threads, output.open("a") as lines:
        try:
            while True:
                for request in itertools.islice(left, 2 * concurrency - len(waiting)):
                    waiting.add(threads.submit(completion_line, client, request, model=where.model))
                if not waiting:
                    return outcomes
                done, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
                # In the order in which they were asked for, as far as they came together.
                for line in sorted((future.result() for future in done), key=lambda line: str(line["id"])):
                    outcomes[str(line["outcome"])] += 1
                    lines.write(json.dumps(line) + "\n")
                    lines.flush()
        finally:
            threads.shutdown(cancel_futures=True)
            client.close()


def completion_line(caller: endpoint.ChatClient, question: GeneratorRequest, *, model: str) -> dict[str, object]:
    """Ask one question and return its line: the completion as it came, and the program in it if there is one.

    An answer that is no completion, and a request that the endpoint refuses, give a line without either.

    Args:
      caller: the client.
      question: what to ask.
      model: name of the model, for the line.

    Raises:
      UserError: the endpoint rejects every request or cannot be reached.
    """
    line: dict[str, object] = {"id": question.id, "problem": question.problem, "model": model, "seed": question.seed}
    if question.campaign:
        line["campaign"] = question.campaign
    try:
        completion = caller.complete(question.prompt, seed=question.seed)
    except (endpoint.GarbledAnswerError, endpoint.RefusedRequestError) as error:
        return line | {"outcome": error.outcome, "detail": str(error), "completion": None, "program": None}
    program = generator_prompt.generator_program_of(completion)
    return line | {"outcome": "program" if program else "no_program", "completion": completion, "program": program}


def stored_ids(output: pathlib.Path) -> set[str]:
    """Return the ids of the completions in a file, and cut off a last line that a killed run left unfinished."""
    ids: set[str] = set()
    if not output.exists():
        return ids
    whole = 0
    with output.open("r+b") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            ids.add(json.loads(line)["id"])
        lines.truncate(whole)
    return ids


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    description = "Asks a model for input generators."
    parser = ArgumentParser(prog="sample_generators", description=description, allow_abbrev=False)
    parser.add_argument("--source", default="code_contests", choices=sorted(SOURCES), help="where problems come from")
    parser.add_argument("--input", default="", help="file or directory that the source reads")
    parser.add_argument("--split", default="", help="split of the input to read, where it has several; all: mix them")
    parser.add_argument("--verified", default="", help="records that build_dataset --until left, instead of a source")
    campaigns = ("", *CAMPAIGN_METHODS)
    parser.add_argument("--campaign", default="", choices=campaigns, help="the round that uses them; empty: both")
    parser.add_argument("--limit", type=int, default=0, help="problems to ask about at most; 0: all")
    parser.add_argument("--attempts", type=int, default=10, help="completions of each problem (paper: 10)")
    parser.add_argument("--endpoint", default="", help=f"address up to /v1; a key is read from {KEY_VARIABLE}")
    parser.add_argument("--model", default="", help="name of the model")
    parser.add_argument("--output", default="", help="JSON Lines file of completions")
    parser.add_argument("--temperature", type=float, default=1.0, help="sampling temperature")
    parser.add_argument("--concurrency", type=int, default=4, help="requests at the same time")
    parser.add_argument("--requests_per_s", type=float, default=5.0, help="rate limit")
    parser.add_argument("--retries", type=int, default=5, help="retries of a request that fails for a while")
    parser.add_argument("--pause_s", type=float, default=1.0, help="pause before the first retry, then doubled, s")
    values = parser.parse_args(arguments)
    for name in ("attempts", "concurrency", "requests_per_s"):
        require(getattr(values, name) > 0, f"--{name}", getattr(values, name), "a positive number")
    require(values.endpoint.startswith("http"), "--endpoint", values.endpoint, "an http or https address")
    require(bool(values.model), "--model", values.model, "the name of a model")
    if values.verified:
        found = storage.count_records(existing_place(values.verified, "--verified", is_directory=True))
        require(found > 0, "--verified", values.verified, "records that build_dataset --until=STAGE left, found none")
    return values


if __name__ == "__main__":
    sys.exit(run_command(main, name="sample_generators"))
