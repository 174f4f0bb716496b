"""What ships beside the code: images that hold what the server needs, and manifests that agree with them."""

import importlib.metadata
import pathlib
import re
import shlex
import subprocess
import sys

import pytest
import yaml

from sandbox import protocol, server
from sandbox.backends import docker

ROOT = pathlib.Path(__file__).parents[2]
IMAGE = ROOT / "sandbox" / "image"
SERVER = (IMAGE / "server.Dockerfile").read_text()


def manifest(name: str) -> dict:
    return yaml.safe_load((IMAGE / name).read_text())


@pytest.fixture(scope="module")
def compose():
    return manifest("compose.yaml")["services"]["sandbox"]


@pytest.fixture(scope="module")
def pod():
    return manifest("kubernetes.yaml")["spec"]["template"]["spec"]


def instruction(name: str) -> list[str]:
    return yaml.safe_load(re.search(rf"^{name} (\[.*\])$", SERVER, re.MULTILINE)[1])


def distributions_of(names: list[str]) -> set[str]:
    """These and everything that they require, without extras, by normalized name."""
    found, waiting = set(), [*names]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name not in found:
            found.add(name)
            required = importlib.metadata.requires(name) or []
            waiting += [re.match(r"[\w.-]+", one)[0] for one in required if "extra ==" not in one and ";" not in one]
    return found


WITHOUT = """import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(name)
absent = set(sys.argv[1:])
sys.meta_path.insert(0, Absent())
import sandbox.server, sandbox.backends.docker, sandbox.backends.local
"""


def test_the_servers_image_holds_all_that_the_server_imports():
    installed = re.search(r"requirements.lock ([\w -]+)$", SERVER, re.MULTILINE)[1].split()
    locked = {line.partition("==")[0].lower() for line in (ROOT / "requirements.lock").read_text().splitlines()}
    assert set(installed) <= {name.replace("_", "-") for name in locked}
    present = distributions_of(installed)
    absent = [
        module
        for module, owners in importlib.metadata.packages_distributions().items()
        if module != "sandbox" and present.isdisjoint(re.sub(r"[-_.]+", "-", owner).lower() for owner in owners)
    ]
    assert {"jax", "numpy", "httpx"} <= {*absent}
    subprocess.run([sys.executable, "-c", WITHOUT, *absent], cwd=ROOT, check=True)


def test_the_manifests_start_the_server_with_flags_that_it_has(compose, pod, monkeypatch):
    (kubernetes,) = (one for one in pod["containers"] if one["name"] == "server")
    monkeypatch.setattr(server.pool, "open_pool", refused := _refusing)
    for arguments in (instruction("CMD"), kubernetes["args"]):
        assert server.main([*instruction("ENTRYPOINT")[3:], *arguments]) == 2
        assert refused.asked["backend"] == "docker"
    assert refused.asked["workers"] == 4
    assert "command" not in compose
    assert compose["build"]["dockerfile"] == str((IMAGE / "server.Dockerfile").relative_to(ROOT))


def _refusing(backend: str, **options: object) -> None:
    _refusing.asked = {"backend": backend, **options}
    raise OSError("not here")


def test_server_and_engine_meet_at_one_socket(compose, pod):
    engine, kubernetes = pod["containers"]
    sockets = {one["value"] for box in (engine, kubernetes) for one in box["env"] if one["name"] == "DOCKER_HOST"}
    sockets |= {compose["environment"]["DOCKER_HOST"], *[a[7:] for a in engine["args"] if a.startswith("--host=")]}
    assert sockets == {"unix:///engine/docker.sock"}
    assert any(volume.endswith(":/engine/docker.sock") for volume in compose["volumes"])
    for box in (engine, kubernetes):
        assert {"name": "engine", "mountPath": "/engine"} in box["volumeMounts"]
    user = kubernetes["securityContext"]["runAsGroup"]
    assert f"--group={user}" in engine["args"]
    assert f"USER {user}:{user}" in SERVER


def test_the_pod_is_guaranteed_whole_cores_and_the_image_that_workers_ask_for(pod):
    for box in pod["containers"]:
        assert box["resources"]["requests"] == box["resources"]["limits"]
        assert int(box["resources"]["limits"]["cpu"]) > 0
    engine, kubernetes = pod["containers"]
    assert f"--workers={engine['resources']['limits']['cpu']}" in kubernetes["args"]
    assert engine["lifecycle"]["postStart"]["exec"]["command"][-1].strip().endswith(f" {docker.IMAGE}")
    mounted = {mount["name"] for box in pod["containers"] for mount in box["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_both_ask_for_a_token(compose, pod):
    assert protocol.TOKEN_VARIABLE in compose["environment"]
    assert any(one["name"] == protocol.TOKEN_VARIABLE for one in pod["containers"][1]["env"])


FAKE_DOCKER = """#!/bin/sh
echo "$@" >> calls
case "$1 $2" in
  "image inspect") [ -f label ] && cat label || exit 1;;
esac
"""


@pytest.mark.parametrize(
    ("wanted", "built", "packages"),
    [
        ("", None, ""),
        ("", "", "exists"),
        ("g++ pypy3", "g++ pypy3", "exists"),
        ("pypy3,g++", "g++ pypy3", "exists"),
        ("pypy3, g++", "", "g++ pypy3"),
        ("", "g++", ""),
    ],
)
def test_the_image_is_built_anew_when_other_packages_are_asked_for(tmp_path, wanted, built, packages):
    fake = tmp_path / "docker"
    fake.write_text(FAKE_DOCKER)
    fake.chmod(0o755)
    if built is not None:
        (tmp_path / "label").write_text(built + "\n")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SANDBOX_PACKAGES": wanted}
    subprocess.run([IMAGE / "build"], cwd=tmp_path, env=environment, check=True, capture_output=True)
    builds = [shlex.split(call) for call in (tmp_path / "calls").read_text().splitlines() if call.startswith("build")]
    if packages == "exists":
        assert builds == []
    else:
        (call,) = builds
        assert " ".join(call[2 : call.index("--tag")]) == f"PACKAGES={packages}"
