"""Edge: draws inputs from an untrusted generator: wraps it, runs it in the sandbox, reads what it printed."""

from collections.abc import Sequence

from beam_pipelines import matrices
from beam_pipelines.generators import compiled, harness
from beam_pipelines.records import Generator, Label, Solution, Test
from beam_pipelines.sandbox_session import Runs, SandboxSession
from sandbox.protocol import InvalidRequestError, Verdict

# A JSON text of an input of the largest size, most of whose characters are line ends.
OUTPUT_BYTES = 2 * harness.MAX_INPUT_CHARACTERS + (1 << 20)


def draw_inputs(
    session: SandboxSession, generator: Generator, methods: Sequence[str], *, calls: int, seed: int
) -> tuple[str, ...] | str:
    """Draw inputs from a generator: `calls` rounds of its methods, each call a run of its own.

    App. B.4, Table 11: the schedule of one attempt. Every call has the limits of one run: large inputs do not share an
    output, and slow methods no time. A compiled generator is not called twice with the same arguments, which would give
    the same input.

    Args:
      session: the sandbox.
      generator: the untrusted generator.
      methods: the methods of one round, in order.
      calls: rounds of all methods.
      seed: of the first call; every further call has the next one.

    Returns:
      The inputs in order of the calls, or the reason, in one word, why the first call that failed gave none.
    """
    if generator.language in compiled.SUFFIXES:
        commands = harness.choose_commands(generator, methods, calls=calls, seed=seed)
        texts = list(dict.fromkeys(compiled.pack_arguments(arguments) for _, *arguments in commands))
        draw = _draw_compiled
    else:
        numbers = range(calls * len(methods))
        texts = [harness.wrapper_program(generator, methods, calls=calls, seed=seed, only=number) for number in numbers]
        draw = _draw_python
    inputs: list[str] = []
    # The first call alone: a generator that never ends, or fails at once, would take the limit of a run for each call.
    for asked in (texts[:1], texts[1:]):
        try:
            drawn = draw(session, generator, asked)
        except InvalidRequestError:
            # Of the generator alone, such as a language that the image lacks: the problem may have other ones.
            return "generator_invalid_request"
        if isinstance(drawn, str):
            return drawn
        inputs += drawn
    return tuple(inputs)


def _draw_python(session: SandboxSession, generator: Generator, programs: Sequence[str]) -> list[str] | str:
    """Run wrapped calls side by side; their inputs in order, or the reason why one of them gave none."""
    solutions = [Solution(f"generator/{number}", text, Label.CORRECT) for number, text in enumerate(programs)]
    runs = session.run(
        solutions, [Test(0, "", None)], files=generator.files, returns_output=True, output_bytes=OUTPUT_BYTES
    )
    if reason := _first_failure(runs):
        return reason
    inputs: list[str] = []
    for (output,) in runs.outputs:
        parsed = harness.parse_inputs(output, expected=1)
        if isinstance(parsed, str):
            return parsed
        inputs += parsed
    return inputs


def _draw_compiled(session: SandboxSession, generator: Generator, packed: Sequence[str]) -> Sequence[str] | str:
    """Run one program with each of some packed arguments; as `_draw_python`."""
    program = Solution(generator.id, generator.program, Label.CORRECT, language=generator.language)
    tests = [Test(0, arguments, None) for arguments in packed]
    runs = session.run(
        [program], tests, files=compiled.files_of(generator), returns_output=True, output_bytes=OUTPUT_BYTES
    )
    return _first_failure(runs) or harness.check_inputs([output or "" for row in runs.outputs for output in row])


def _first_failure(runs: Runs) -> str:
    """Name the first verdict that is no success; empty if all are."""
    verdicts = (matrices.VERDICTS[code] for code in runs.executions.verdict.ravel())
    return next((f"generator_{verdict}" for verdict in verdicts if verdict is not Verdict.SUCCESS), "")
