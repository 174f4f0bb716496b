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
    """Return what the generator's methods gave in `calls` rounds of `methods`; a text says why there is nothing.

    App. B.4, Table 11: the schedule of one attempt. Every call is a run of its own, with the limits of one run: large
    inputs do not share an output, and slow methods no time.
    """
    programs = [
        harness.wrapper_program(generator, methods, calls=calls, seed=seed, only=number)
        for number in range(calls * len(methods))
    ]
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
    return tuple(inputs)
