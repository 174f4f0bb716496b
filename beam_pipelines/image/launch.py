"""Edge: what Dataflow's launcher runs: a build that starts its job and leaves it to itself."""

import sys

from beam_pipelines import build_dataset
from beam_pipelines.runners.dataflow_template import launcher_arguments
from optimrl_jax.jobs.command_line import run_command

if __name__ == "__main__":
    sys.exit(run_command(build_dataset.main, launcher_arguments(sys.argv[1:]), name="build_dataset"))
