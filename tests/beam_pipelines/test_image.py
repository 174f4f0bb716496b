"""Container images and the template of a cluster name what is in the repository, at the versions of the lock."""

import dataclasses
import json
import pathlib
import re
import tomllib

import pytest

from beam_pipelines import build_dataset
from beam_pipelines.options import BuildOptions
from beam_pipelines.runners import dataflow_template
from optimrl_jax.jobs.command_line import run_command

ROOT = pathlib.Path(__file__).parents[2]
IMAGES = ROOT / "beam_pipelines" / "image"
DOCKERFILE = (IMAGES / "Dockerfile").read_text()


BUILT = [
    "beam_pipelines/image/Dockerfile",
    "beam_pipelines/image/launcher.Dockerfile",
    "docs/deploy/train.Dockerfile",
    "sandbox/image/server.Dockerfile",
]


def copied(name):
    """What an image takes from the checkout."""
    lines = re.findall(r"^COPY (?!--from)(.*)$", (ROOT / name).read_text(), re.MULTILINE)
    return [source for line in lines for source in line.split()[:-1]]


@pytest.mark.parametrize("name", BUILT)
def test_an_image_copies_what_is_there_and_sent_to_the_engine(name):
    sent = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert copied(name)
    for source in copied(name):
        assert (ROOT / source).exists()
        assert source.partition("/")[0] in sent


@pytest.mark.parametrize("name", [BUILT[0], BUILT[2]])
def test_an_image_that_installs_the_package_has_the_files_that_its_build_reads(name):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    read = {"pyproject.toml", "setup.py", project["readme"], *project["license-files"], "requirements.lock"}
    assert read <= {*copied(name)}


def test_the_harness_has_the_version_of_the_lock():
    (locked,) = re.findall(r"^apache-beam==(\S+)$", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert f"FROM apache/beam_python3.11_sdk:{locked}\n" in DOCKERFILE


def test_a_template_names_both_images_and_has_a_parameter_for_every_option(tmp_path):
    path = tmp_path / "t.json"
    arguments = ["--image=launcher:1", "--worker_image=worker:1", f"--output={path}"]
    assert run_command(dataflow_template.main, arguments, name="dataflow_template") == 0
    template = json.loads(path.read_text())
    assert (template["image"], template["defaultEnvironment"]["sdkContainerImage"]) == ("launcher:1", "worker:1")
    parameters = {one["name"]: one for one in template["metadata"]["parameters"]}
    assert set(parameters) == {field.name for field in dataclasses.fields(BuildOptions)} - {"detach", "trust_programs"}
    assert [name for name, one in parameters.items() if not one["isOptional"]] == [
        "source",
        "input",
        "output",
        "sandbox_address",
    ]
    assert run_command(dataflow_template.main, arguments[1:], name="dataflow_template") == 2


def test_what_a_launcher_passes_is_a_command_line_of_a_build_that_does_not_wait():
    passed = ["--source=jsonl", "--tests_only=true", "--output=gs://bucket/out", "--temp_location=gs://bucket/tmp"]
    options, others = build_dataset.parse_options(dataflow_template.launcher_arguments(passed))
    assert (options.tests_only, options.detach, options.output) == (True, True, "gs://bucket/out")
    assert others == ["--temp_location=gs://bucket/tmp"]
    assert "--tests_only" not in dataflow_template.launcher_arguments(["--tests_only=false"])
