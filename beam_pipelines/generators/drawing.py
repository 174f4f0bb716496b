"""Edge: draws inputs from an untrusted generator: wraps it, runs it in the sandbox, reads what it printed."""

from collections.abc import Sequence

from beam_pipelines import matrices
from beam_pipelines.generators import harness
from beam_pipelines.records import Generator, Label, Solution, Test
from beam_pipelines.sandbox_session import SandboxSession
from sandbox.protocol import Verdict

# A JSON text of an input of the largest size, most of whose characters are line ends.
OUTPUT_BYTES = 2 * harness.MAX_INPUT_CHARACTERS + (1 << 20)


def draw_inputs(
    session: SandboxSession, generator: Generator, methods: Sequence[str], *, calls: int, seed: int
) -> tuple[str, ...] | str:
    """Draw inputs from a generator: `calls` rounds of its methods, each call a run of its own.

    App. B.4, Table 11: the schedule of one attempt. Every call has the limits of one run: large inputs do not share an
    output, and slow methods no time.

    Args:
      session: the sandbox.
      generator: the untrusted generator.
      methods: the methods of one round, in order.
      calls: rounds of all methods.
      seed: of the first call; every further call has the next one.

    Returns:
      The inputs in order of the calls, or the reason, in one word, why the first call that failed gave none.
    """
    inputs: list[str] = []
    # The first call alone: a generator that never ends, or fails at once, would take the limit of a run for each call.
    for numbers in (range(1), range(1, calls * len(methods))):
        programs = [
            harness.wrapper_program(generator, methods, calls=calls, seed=seed, only=number) for number in numbers
        ]
        drawn = _draw(session, programs)
        if isinstance(drawn, str):
            return drawn
        inputs += drawn
    return tuple(inputs)


def _draw(session: SandboxSession, programs: Sequence[str]) -> list[str] | str:
    """Run some calls side by side; their inputs in order, or the reason why the first that failed gave none."""
    solutions = [Solution(f"generator/{number}", text, Label.CORRECT) for number, text in enumerate(programs)]
    runs = session.run(solutions, [Test(0, "", None)], returns_output=True, output_bytes=OUTPUT_BYTES)
    inputs: list[str] = []
    for number, (output,) in enumerate(runs.outputs):
        verdict = matrices.VERDICTS[runs.executions.verdict[0, number]]
        if verdict is not Verdict.SUCCESS:
            return f"generator_{verdict}"
        parsed = harness.parse_inputs(output, expected=1)
        if isinstance(parsed, str):
            return parsed
        inputs += parsed
    return inputs
