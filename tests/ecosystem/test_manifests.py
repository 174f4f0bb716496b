"""Manifests of clusters against the schemas that Kubernetes publishes, unknown fields refused."""

import subprocess

import pytest
import yaml

from tests.ecosystem.environments import ROOT, python_with

MANIFESTS = ["docs/deploy/train.yaml", "sandbox/image/kubernetes.yaml"]


def validate(path):
    """Return what the validator says of a file, a line for each resource."""
    command = python_with("kubernetes", "kubernetes-validate").with_name("kubernetes-validate")
    done = subprocess.run([command, "--strict", str(path)], capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr).splitlines()


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_what_kubernetes_takes(name):
    code, lines = validate(ROOT / name)
    resources = [*yaml.safe_load_all((ROOT / name).read_text())]
    assert code == 0, lines
    assert sum(" passed for resource " in line for line in lines) == len(resources)


def test_a_field_that_kubernetes_does_not_know_is_found(tmp_path):
    text = (ROOT / MANIFESTS[0]).read_text()
    (tmp_path / "wrong.yaml").write_text(text.replace("parallelism:", "paralelism:"))
    code, lines = validate(tmp_path / "wrong.yaml")
    assert code != 0
    assert any("paralelism" in line for line in lines)
