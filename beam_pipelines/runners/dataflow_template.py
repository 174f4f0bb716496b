"""Edge: `python -m beam_pipelines.runners.dataflow_template --image=I --worker_image=W --output=gs://BUCKET/t.json`.

Writes a Dataflow Flex Template: a JSON file that names the launcher's image and the options of a build, so that a job
can be started from a console or `gcloud dataflow flex-template run` without this package. The job leaves records in
its output; `build_dataset` with the same options and no runner makes the dataset of them.
"""

import dataclasses
import json
import sys
import typing
from collections.abc import Sequence

from beam_pipelines.options import BuildOptions
from beam_pipelines.remote_files import reachable_path
from optimrl_jax.jobs.command_line import ArgumentParser, run_command
from optimrl_jax.jobs.errors import require

# Whether the driver waits and where untrusted programs run is not a matter of the person who starts a job.
NO_PARAMETERS = ("detach", "trust_programs")
REQUIRED = ("source", "input", "output", "sandbox_address")


def main(arguments: Sequence[str]) -> None:
    """Write a template.

    Args:
      arguments: what follows the program's name on the command line.

    Raises:
      UserError: an image or the output is not named, or the output cannot be reached.
    """
    parser = ArgumentParser(prog="dataflow_template", description="Writes a Dataflow template.", allow_abbrev=False)
    parser.add_argument("--image", default="", help="the launcher's image, by beam_pipelines/image/launcher.Dockerfile")
    parser.add_argument("--worker_image", default="", help="the workers' image, by beam_pipelines/image/Dockerfile")
    parser.add_argument("--output", default="", help="JSON file to write, local or in a bucket")
    values = parser.parse_args(arguments)
    for field in ("image", "worker_image", "output"):
        require(bool(getattr(values, field)), f"--{field}", getattr(values, field), "a name")
    template = flex_template(image=values.image, worker_image=values.worker_image)
    reachable_path(values.output, "--output").write_text(json.dumps(template, indent=2) + "\n")
    print(f"{values.output}: {len(template['metadata']['parameters'])} parameters")


def flex_template(*, image: str, worker_image: str) -> dict[str, typing.Any]:
    """Describe a template as Dataflow reads it: every option of a build is a parameter.

    Args:
      image: what starts a job.
      worker_image: what its workers run.
    """
    fields = [field for field in dataclasses.fields(BuildOptions) if field.name not in NO_PARAMETERS]
    parameters = [
        {
            "name": field.name,
            "label": field.name.replace("_", " ").capitalize(),
            "helpText": field.metadata["meaning"],
            "isOptional": field.name not in REQUIRED,
        }
        for field in fields
    ]
    about = {
        "name": "Build DMC-Optim",
        "description": "From raw programming problems to tests and measured reference programs.",
        "parameters": parameters,
    }
    environment = {"sdkContainerImage": worker_image}
    return {
        "image": image,
        "sdkInfo": {"language": "PYTHON"},
        "metadata": about,
        "defaultEnvironment": environment,
    }


def launcher_arguments(arguments: Sequence[str]) -> list[str]:
    """Turn what Dataflow's launcher passes into the command line of a build that does not wait for its job.

    A template's parameters are texts: `--tests_only=true` becomes the switch `--tests_only`.
    """
    switches = {field.name for field in dataclasses.fields(BuildOptions) if field.type is bool}
    found = []
    for argument in arguments:
        name, _, value = argument.removeprefix("--").partition("=")
        if name not in switches:
            found.append(argument)
        elif value.lower() == "true":
            found.append(f"--{name}")
    return [*found, "--detach"]


if __name__ == "__main__":
    sys.exit(run_command(main, name="dataflow_template"))
