"""The host check names what disturbs timing and never fails to look."""

import os
import pathlib
import platform

from sandbox import host
from sandbox.backends import local


def test_every_check_answers_with_advice_where_the_host_is_unfit():
    findings = host.inspect()
    assert len({finding.name for finding in findings}) == len(host.CHECKS)
    assert all(finding.is_fit or finding.advice for finding in findings)


def test_advice_that_is_optional_makes_no_host_unfit():
    findings = [host.Finding("smt", "shared cores", False, "x"), host.Finding("swap", "on", False, "swapoff -a")]
    assert host.unfit(findings) == ["swap"]
    assert str(findings[1]) == "swap: on - swapoff -a"


def test_the_command_prints_a_table(capsys):
    assert host.main() == 0
    assert "steal" in capsys.readouterr().out


def test_seconds_name_the_processor_and_the_kernel_that_they_come_from():
    found = local.local_identity()
    assert found["kernel"] == platform.release()
    assert int(found["cores"]) == len(os.sched_getaffinity(0))
    assert found["cpu"] in pathlib.Path("/proc/cpuinfo").read_text() or found["cpu"] == platform.machine()
    assert found["cgroup"] in ("v1", "v2")
    assert all(found.values())
