"""Edge: tells the flags of Apache Beam from misspelt ones.

Flags of ours come first; everything else must be an option that Apache Beam knows, so that a misspelt flag is caught.
"""

import contextlib
import importlib
from collections.abc import Sequence

from apache_beam.options import pipeline_options

from optimrl_jax.jobs.command_line import ArgumentParser
from optimrl_jax.jobs.errors import UserError


def beam_options(arguments: Sequence[str]) -> pipeline_options.PipelineOptions:
    """Parse the arguments as options of Apache Beam.

    Args:
      arguments: what is left of the command line after this job's own flags.

    Returns:
      The options; the main session is not pickled.

    Raises:
      UserError: Beam does not know a flag either.
    """
    if any("DaskRunner" in argument for argument in arguments):
        # Beam knows the options of a runner once its module is imported; Dask is an extra of its own.
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module("apache_beam.runners.dask.dask_runner")
    parser = ArgumentParser(add_help=False, allow_abbrev=False, conflict_handler="resolve")
    for kind in _subclasses(pipeline_options.PipelineOptions):
        if "_add_argparse_args" in vars(kind):
            kind._add_argparse_args(parser)
    _, unknown = parser.parse_known_args(list(arguments))
    if unknown:
        raise UserError(f"unknown flag {unknown[0]!r}: expected one of this job (--help) or of Apache Beam")
    return pipeline_options.PipelineOptions(list(arguments), save_main_session=False)


def _subclasses(kind: type) -> list[type]:
    direct = kind.__subclasses__()
    return direct + [deeper for child in direct for deeper in _subclasses(child)]
