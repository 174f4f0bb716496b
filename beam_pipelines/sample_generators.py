"""Edge: `python -m beam_pipelines.sample_generators`: asks a model for input generators and stores every completion.

The JSON Lines file that it writes is what `build_dataset --generators` reads. A run that was stopped goes on with the
completions that are missing.
"""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from beam_pipelines.generators import endpoint, generator_prompt
from beam_pipelines.options import BuildOptions
from beam_pipelines.pipeline import SOURCES
from beam_pipelines.records import Problem
from optimrl_jax.errors import require
from optimrl_jax.jobs.command_line import ArgumentParser, run_command

KEY_VARIABLE = "OPENAI_API_KEY"


@dataclasses.dataclass(frozen=True)
class GeneratorRequest:
    """One completion to ask for; `id` names problem and attempt and never changes between runs."""

    id: str
    problem: str
    prompt: str
    seed: int


def main(arguments: Sequence[str]) -> None:
    """The whole job, for arguments after the program's name; raises UserError for what the caller can mend."""
    values = _parsed(arguments)
    output = pathlib.Path(values.output)
    require(bool(values.output) and output.parent.is_dir(), "--output", values.output, "a file in a directory")
    stored = stored_ids(output)
    asked = [one for one in generator_requests(values) if one.id not in stored]
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
    print(f"{output}: {len(stored)} completions were there, {len(asked)} asked for: {table or 'nothing to do'}")


def generator_requests(values: object) -> Iterator[GeneratorRequest]:
    """Attempts of every problem of the source that has a correct solution to show."""
    options = BuildOptions(source=values.source, input=values.input, limit=values.limit)
    for problem in SOURCES[values.source](options).records():
        if isinstance(problem, Problem) and problem.correct:
            for attempt in range(values.attempts):
                name = f"{problem.id}/{attempt}"
                yield GeneratorRequest(
                    name, problem.id, generator_prompt.generator_prompt(problem, seed=attempt), seed=attempt
                )


def sample_completions(
    where: endpoint.Endpoint, asked: Sequence[GeneratorRequest], *, output: pathlib.Path, concurrency: int
) -> Counter[str]:
    """Stores a line for every question as its answer comes and counts what came of them."""
    caller = endpoint.ChatClient(where)
    outcomes: Counter[str] = Counter()
    with concurrent.futures.ThreadPoolExecutor(concurrency) as threads, output.open("a") as lines:
        waiting = [threads.submit(completion_line, caller, question, model=where.model) for question in asked]
        try:
            for done in concurrent.futures.as_completed(waiting):
                line = done.result()
                outcomes[line["outcome"]] += 1
                lines.write(json.dumps(line) + "\n")
                lines.flush()
        finally:
            threads.shutdown(cancel_futures=True)
            caller.close()
    return outcomes


def completion_line(caller: endpoint.ChatClient, question: GeneratorRequest, *, model: str) -> dict[str, object]:
    """The line of one question: the completion as it came, and the program in it if there is one."""
    line: dict[str, object] = {"id": question.id, "problem": question.problem, "model": model, "seed": question.seed}
    try:
        completion = caller.complete(question.prompt, seed=question.seed)
    except (endpoint.GarbledAnswerError, endpoint.RefusedRequestError) as error:
        return line | {"outcome": error.outcome, "detail": str(error), "completion": None, "program": None}
    program = generator_prompt.generator_program_of(completion)
    return line | {"outcome": "program" if program else "no_program", "completion": completion, "program": program}


def stored_ids(output: pathlib.Path) -> set[str]:
    """Ids of the completions in the file; a line that a killed run left unfinished is cut off."""
    if not output.exists():
        return set()
    whole, _, unfinished = output.read_text().rpartition("\n")
    if unfinished:
        output.write_text(whole + "\n" if whole else "")
    return {json.loads(line)["id"] for line in whole.split("\n") if line}


def _parsed(arguments: Sequence[str]) -> object:
    description = "Asks a model for input generators."
    parser = ArgumentParser(prog="sample_generators", description=description, allow_abbrev=False)
    parser.add_argument("--source", default="code_contests", choices=sorted(SOURCES), help="where problems come from")
    parser.add_argument("--input", default="", help="file or directory that the source reads")
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
    return values


if __name__ == "__main__":
    sys.exit(run_command(main, name="sample_generators"))
