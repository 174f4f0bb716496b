"""Edge: draws inputs from an untrusted generator: wraps it, runs it in the sandbox, reads what it printed."""

from collections.abc import Sequence

from beam_pipelines import matrices
from beam_pipelines.generators import harness
from beam_pipelines.records import Generator, Label, Solution, Test
from beam_pipelines.sandbox_session import SandboxSession
from sandbox.protocol import Verdict


def draw_inputs(
    session: SandboxSession, generator: Generator, methods: Sequence[str], *, calls: int, seed: int
) -> tuple[str, ...] | str:
    """What the generator's methods returned, `calls` rounds of `methods`; a text says why there is nothing."""
    program = harness.wrapper_program(generator, methods, calls=calls, seed=seed)
    runs = session.run([Solution("generator", program, Label.CORRECT)], [Test(0, "", None)], returns_output=True)
    verdict = matrices.VERDICTS[runs.executions.verdict[0, 0]]
    if verdict is not Verdict.SUCCESS:
        return f"generator_{verdict}"
    return harness.parse_inputs(runs.outputs[0][0], expected=calls * len(methods))
