"""Which engine, which runtime, which users: one text wherever a backend is named, checked when a pool opens."""

import os
import types

import pytest

from sandbox import client
from sandbox.backends import docker, engine, engine_settings
from sandbox.backends.engine_settings import EngineSettings, parse_backend
from sandbox.inside import groups, worlds
from sandbox.protocol import InvalidRequestError
from tests.sandbox.engine import require_docker

DOCKER = {
    "MemTotal": 1 << 34,
    "Runtimes": {"runc": {}, "runsc": {}},
    "DefaultRuntime": "runc",
    "ServerVersion": "20.10",
}
PODMAN = {
    "Runtimes": {"crun": {}, "runc": {}},
    "DefaultRuntime": "crun",
    "ServerVersion": "4.3",
    "SecurityOptions": ["name=seccomp", "name=rootless"],
    "Components": [{"Name": "Podman Engine"}],
}
SOCKET = "unix:///run/podman/podman.sock"


def test_settings_stand_behind_the_name_of_a_backend():
    assert parse_backend("docker") == ("docker", EngineSettings())
    found = parse_backend(f"docker_clean?runtime=crun&engine={SOCKET}&user_namespace=auto")
    assert found == ("docker_clean", EngineSettings(SOCKET, "crun", "auto"))
    assert str(found[1]) == f"engine = '{SOCKET}', runtime = 'crun', user_namespace = 'auto'"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("docker?", None),
        ("docker?runtme=runc", "settings among engine, runtime, user_namespace"),
        ("docker?runtime=a&runtime=b", "each once"),
        ("docker?runtime", "as name=value"),
        ("docker?runtime=../runc", "runtime = '../runc': expected the name of a runtime"),
        ("docker?engine=/run/docker.sock", "engine = '/run/docker.sock': expected an address that begins with unix://"),
        ("docker?input_bytes=1e9", "input_bytes = '1e9': expected a whole number of bytes"),
        ("docker?input_bytes=99999999999999", "input_bytes = 99999999999999: expected a whole number in"),
        ("docker?user_namespace=yes", "user_namespace = 'yes': expected one of host, auto"),
        ("podman", "address = 'podman': expected local, docker, docker_clean"),
        ("local?runtime=runc", "expected local alone"),
    ],
)
def test_what_is_no_setting_is_refused_in_words(address, message):
    if message is None:
        assert parse_backend(address) == ("docker", EngineSettings())
        return
    with pytest.raises(InvalidRequestError, match=message.replace("?", "[?]")):
        client.connect(address)


def test_a_runtime_is_one_that_the_engine_offers():
    engine_settings.require_offered(EngineSettings(runtime="runsc"), DOCKER)
    engine_settings.require_offered(EngineSettings(runtime="crun", user_namespace="auto"), PODMAN)
    with pytest.raises(
        InvalidRequestError, match=r"runtime = 'kata': expected what docker 20[.]10 offers: runc, runsc"
    ):
        engine_settings.require_offered(EngineSettings(runtime="kata"), DOCKER)
    # It knows it, but takes it for all containers or none.
    with pytest.raises(InvalidRequestError, match=r"what podman 4.3 \(rootless\) offers: crun"):
        engine_settings.require_offered(EngineSettings(runtime="runc"), PODMAN)
    # Inputs as large as the memory of the host, in which each run has its copy.
    _, large = parse_backend(f"docker?input_bytes={1 << 34}")
    engine_settings.require_offered(large, DOCKER)
    with pytest.raises(InvalidRequestError, match="input_bytes = 17179869184: expected at most 8589934592, the memory"):
        engine_settings.require_offered(large, DOCKER | {"MemTotal": 1 << 33})
    with pytest.raises(InvalidRequestError, match="user_namespace = 'auto': expected nothing or host"):
        engine_settings.require_offered(EngineSettings(user_namespace="auto"), DOCKER)


def test_children_are_found_on_kernels_that_do_not_list_them(monkeypatch):
    monkeypatch.setattr(groups, "LISTS_CHILDREN", False)
    child = os.fork()
    if child == 0:
        os.read(os.pipe()[0], 1)
    try:
        assert child in groups.children_of(os.getpid())
        assert groups.children_of(child) == []
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_scratch_is_bounded_in_bytes_where_files_cannot_be_counted(monkeypatch):
    mounted = []

    def mount(kind, target, *, flags, options):
        if "nr_inodes" in options:
            raise OSError(22, "Invalid argument", target)
        mounted.append((kind, target, options))

    monkeypatch.setattr(worlds.kernel, "mount", mount)
    worlds.furnish()
    assert mounted == [("tmpfs", place, "size=64m,mode=1777") for place in ("/tmp", "/dev/shm")]


def test_every_worker_has_one_core_however_many_there_are_and_a_user_of_its_own(monkeypatch):
    made = []
    monkeypatch.setattr(docker, "require_image", lambda *_: "")
    monkeypatch.setattr(docker, "_try", lambda *_, **__: None)
    monkeypatch.setattr(docker, "DockerChannel", lambda _, **given: made.append(given))
    cores = sorted(os.sched_getaffinity(0))
    for worker in docker.docker_workers(2 * len(cores) + 1, where=types.SimpleNamespace(settings=EngineSettings())):
        worker._open_channel()
        worker._open_judge()
    assert [given["cpu"] for given in made[::2]] == [*cores, *cores, cores[0]]
    assert len({given["uid"] for given in made}) == len(made)


@pytest.mark.docker
def test_an_engine_that_cannot_give_what_is_asked_says_so_when_a_pool_opens(monkeypatch):
    require_docker()
    for backend, message in (
        ("docker?runtime=no-such-runtime", "runtime = 'no-such-runtime': expected what docker"),
        ("docker?user_namespace=auto", "user_namespace = 'auto': expected"),
        ("docker?engine=unix:///nowhere.sock", "no Docker engine answers"),
    ):
        with pytest.raises((InvalidRequestError, OSError), match=message.replace("?", "[?]")):
            client.connect(backend, workers=1)
    # A kernel that refuses worlds, as gVisor does: the line names the setting and what is missing.
    monkeypatch.setattr(engine.syscalls, "WORLDS", "mount umount2")
    with pytest.raises(OSError, match=r"user_namespace = 'host': expected containers of .* that can run .*setns"):
        client.connect("docker?user_namespace=host", workers=1)
