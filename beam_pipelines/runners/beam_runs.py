"""Edge: runs an assembled pipeline on the runner that Beam's flags name, and says whether all of it ran."""

from collections.abc import Callable, Sequence

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, StandardOptions
from apache_beam.runners.runner import PipelineRunner, PipelineState
from etils import epath

from beam_pipelines import sandbox_session, storage
from beam_pipelines.commands import beam_options
from beam_pipelines.options import BuildOptions
from optimrl_jax.jobs.errors import UserError, require

RECORDS = "records"
# In a directory of records: a job that its runner has writes them, so many in all.
DETACHED = "detached"
# Runners by which the in-memory one is meant.
IN_MEMORY = (None, "DirectRunner")


def run_to_end(
    assemble: Callable[[beam.Pipeline], None], beam_arguments: Sequence[str], *, is_detached: bool = False
) -> None:
    """Run the pipeline that `assemble` builds and wait until all of it is done.

    Args:
      assemble: adds the transforms to an empty pipeline.
      beam_arguments: flags of Apache Beam.
      is_detached: whether to leave the job to its runner once it has started.

    Raises:
      KeyboardInterrupt: the job was interrupted, whatever the runner made of that.
      UserError: the runner was cancelled, drained or otherwise stopped before the end. Portable runners return normally
        then, and what was finished until then looks like a whole dataset.
    """
    try:
        root = beam.Pipeline(runner=beam_runner(beam_arguments), options=beam_options(beam_arguments))
        assemble(root)
        result = root.run()
        if not is_detached:
            require_done(result.wait_until_finish())
    except RuntimeError as error:
        # Beam turns whatever a step raises, an interrupt included, into a RuntimeError that begins with its name.
        if str(error).startswith("KeyboardInterrupt"):
            raise KeyboardInterrupt from None
        raise


def require_done(state: str | None) -> None:
    """Raise UserError unless the runner says that it did everything."""
    if state != PipelineState.DONE:
        raise UserError(f"the runner ended as {state}: expected DONE; start the same command again to go on")


def mark_detached(work: epath.Path, records: int) -> None:
    """Note that a job of the runner's own writes this many records into a directory."""
    work.mkdir(parents=True, exist_ok=True)
    (work / DETACHED).write_text(f"{records}\n")


def require_job_done(work: epath.Path, options: BuildOptions) -> None:
    """Check that no job that was left to its runner is still at work on the records of a build.

    Args:
      work: directory above that of the records.
      options: `take_over` goes on in place of a job that ended early.

    Raises:
      UserError: some of the job's records are missing.
    """
    if options.take_over or not (work / DETACHED).exists():
        return
    expected, found = int((work / DETACHED).read_text()), storage.count_records(work / RECORDS)
    wanted = f"the {expected} records of the job that its runner has, found {found}; --take_over goes on in its place"
    require(found >= expected, "--output", options.output, wanted)


def require_sandbox(connection: sandbox_session.Connection, beam_arguments: Sequence[str]) -> None:
    """Check that a sandbox answers before any stage needs one.

    Where the stages run in this process, the session is left open for them and for whoever comes after them, so that
    workers start and end once a build; `sandbox_session.all_sessions_closed` closes it.

    Args:
      connection: how to reach the sandbox.
      beam_arguments: flags of Apache Beam, which say where the stages run.

    Raises:
      UserError: none answers.
    """
    try:
        sandbox_session.acquire_session(connection)
    except (OSError, ValueError) as error:
        expected = f"a sandbox that answers ({error})"
        raise UserError(f"--sandbox_address = {connection.address!r}: expected {expected}") from None
    if not runs_here(beam_arguments):
        sandbox_session.release_session(connection)


def runs_here(beam_arguments: Sequence[str]) -> bool:
    """Tell whether the runner that the flags name runs all stages in this process."""
    options = beam_options(beam_arguments)
    mode = options.view_as(DirectOptions).direct_running_mode
    return options.view_as(StandardOptions).runner in IN_MEMORY and mode == "in_memory"


def beam_runner(beam_arguments: Sequence[str]) -> str | PipelineRunner | None:
    """Choose the runner that the flags name.

    DirectRunner means the in-memory one, because Beam's own first looks for Prism, which it would have to download;
    DaskRunner means the one of this package.

    Args:
      beam_arguments: flags of Apache Beam.

    Returns:
      A runner or its name; None leaves the choice to Beam.

    Raises:
      UserError: Dask is not installed.
    """
    chosen = beam_options(beam_arguments).view_as(StandardOptions).runner
    if chosen == "DaskRunner":
        # Dask is an extra of its own, and nothing else here needs it.
        try:
            from beam_pipelines.runners.dask_runner import DaskRunner
        except ModuleNotFoundError:
            raise UserError("--runner = 'DaskRunner': expected `pip install 'optimrl-jax[dask]'`") from None
        return DaskRunner()
    return "FnApiRunner" if chosen in IN_MEMORY else None
