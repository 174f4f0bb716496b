"""The wall clock may be set forth and back at any moment: nothing that measures or waits looks at it."""

import ast
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import sandbox
from tests.sandbox import stepping_clock

# Every look at the wall clock is an hour before or after the one before it.
STEPPING = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long step(void) { static volatile int looks; return (__sync_fetch_and_add(&looks, 1) % 2) ? 3600 : -3600; }
int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = syscall(SYS_clock_gettime, clock, now);
  if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += step();
  return result;
}
int gettimeofday(struct timeval *now, void *zone) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *now) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (now) *now = exact.tv_sec;
  return exact.tv_sec;
}
"""
WALL_CLOCKS = {
    "time": {"time", "time_ns", "localtime", "gmtime", "ctime", "strftime", "asctime"},
    "datetime": {"datetime", "date"},
}


def _looks(path: pathlib.Path) -> list[str]:
    tree = ast.parse(path.read_text())
    attributes = [
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    ]
    imported = [
        f"{node.module}.{name.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    ]
    return [name for name in attributes + imported if name.split(".")[-1] in WALL_CLOCKS.get(name.split(".")[0], ())]


def test_no_module_of_the_sandbox_looks_at_the_wall_clock():
    folder = pathlib.Path(sandbox.__file__).parent
    assert {str(path): looks for path in folder.rglob("*.py") if (looks := _looks(path))} == {}


def test_seconds_and_limits_hold_while_the_wall_clock_steps_by_hours(tmp_path):
    if not (compiler := shutil.which("gcc")):
        pytest.skip("no gcc to build a clock that steps")
    library = tmp_path / "stepping.so"
    (tmp_path / "stepping.c").write_text(STEPPING)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "stepping.c"], check=True)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.sandbox.stepping_clock"],
        env=os.environ | {"LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["step_s"] > 3600
    verdict, cpu_s, wall_s, wall_std_s = found["spun"]
    assert verdict == "success"
    assert stepping_clock.SPIN_S <= cpu_s <= wall_s < stepping_clock.LIMIT_S
    assert 0 < wall_std_s < stepping_clock.LIMIT_S
    assert found["endless"] == ["time_limit", stepping_clock.LIMIT_S]
    assert found["elapsed_s"] < 60
