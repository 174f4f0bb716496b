"""Edge: checks what on this host disturbs timing, with one line of advice each. `python -m sandbox.host`."""

import os
import pathlib
import platform
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sandbox.flags import FlagParser
from sandbox.inside import kernel

STEAL_SHARE = 0.005
SAMPLE_S = 0.2
CPU = pathlib.Path("/sys/devices/system/cpu")


class Finding(NamedTuple):
    """One look at the host.

    Attributes:
      name: what was looked at.
      value: what was found; "unknown" where the host does not say.
      is_fit: whether timing can live with it.
      advice: what to do otherwise.
    """

    name: str
    value: str
    is_fit: bool
    advice: str

    def __str__(self) -> str:
        return f"{self.name}: {self.value}" if self.is_fit else f"{self.name}: {self.value} - {self.advice}"


def governor() -> Finding:
    """Look at the frequency governor: any but `performance` changes the clock between runs."""
    value = _read(CPU / "cpu0/cpufreq/scaling_governor")
    return Finding("governor", value, value in ("performance", "unknown"), "cpupower frequency-set -g performance")


def turbo() -> Finding:
    """Look at turbo frequencies, which depend on the temperature and on the neighbours; Intel only."""
    value = {"1": "off", "0": "on"}.get(_read(CPU / "intel_pstate/no_turbo"), "unknown")
    return Finding("turbo", value, value != "on", "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo")


def siblings() -> Finding:
    """Look at hyper-threading: a busy sibling slows its core down."""
    value = _read(CPU / "smt/active")
    value = {"1": "shared cores", "0": "off"}.get(value, "unknown")
    return Finding("smt", value, value != "shared cores", "echo off > /sys/devices/system/cpu/smt/control")


def steal() -> Finding:
    """Measure, for SAMPLE_S, the share of processor time that the hypervisor gave to other machines."""
    before, after = _processor_ticks(), None
    time.sleep(SAMPLE_S)
    after = _processor_ticks()
    ticks = [late - early for early, late in zip(before, after, strict=True)]
    share = ticks[7] / max(1, sum(ticks)) if len(ticks) > 7 else 0.0
    return Finding("steal", f"{share:.1%}", share <= STEAL_SHARE, "move to a host whose cores are not oversold")


def swap() -> Finding:
    """Look for swap, which turns a lack of memory into slowness instead of a verdict."""
    rows = _read(pathlib.Path("/proc/swaps")).splitlines()
    value = "on" if len(rows) > 1 else "off"
    return Finding("swap", value, value == "off", "swapoff -a")


def cgroup() -> Finding:
    """Say which version of control groups accounts for memory and processor time; timing can live with both."""
    is_v2 = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
    return Finding("cgroup", "v2" if is_v2 else "v1", True, "")


def clock_source() -> Finding:
    """Look at the kernel's clock: slow ones, such as hpet, add their own reading time to short runs."""
    value = _read(pathlib.Path("/sys/devices/system/clocksource/clocksource0/current_clocksource"))
    is_fit = value in ("tsc", "kvm-clock", "arch_sys_counter", "unknown")
    return Finding("clock source", value, is_fit, "boot with clocksource=tsc")


def isolated_cores() -> Finding:
    """Look for cores on which the kernel schedules nothing of its own accord."""
    value = _read(CPU / "isolated") or "none"
    return Finding("isolated cores", value, value not in ("none",), "boot with isolcpus= for the workers' cores")


def memory_layout() -> Finding:
    """Look at address randomization, which moves the seconds of one program from start to start.

    Runners turn it off for themselves where the kernel lets them; a thread that ends at once tries that here.
    """
    found: list[bool] = []
    trial = threading.Thread(target=lambda: found.append(kernel.fix_layout()))
    trial.start()
    trial.join()
    is_off = _read(pathlib.Path("/proc/sys/kernel/randomize_va_space")) == "0"
    value = "fixed" if is_off else "fixed by each runner" if found == [True] else "random"
    advice = "let processes turn it off (personality), or set kernel.randomize_va_space=0: 1 % less variation"
    return Finding("memory layout", value, value != "random", advice)


def system_load() -> Finding:
    """Compare the load of the last minute with the cores that this process may use; half of them may be busy."""
    one_minute, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    is_fit = one_minute <= 0.5 * cores
    return Finding("load", f"{one_minute:.1f} on {cores} cores", is_fit, "give the workers' cores to nothing else")


def instruction_counter() -> Finding:
    """Say whether the host counts instructions; timing can live without."""
    value = _read(pathlib.Path("/proc/sys/kernel/perf_event_paranoid"))
    has_events = pathlib.Path("/sys/bus/event_source/devices/cpu").exists()
    return Finding("instruction counter", f"{'present' if has_events else 'absent'} (paranoid {value})", True, "")


CHECKS: tuple[Callable[[], Finding], ...] = (
    governor,
    turbo,
    siblings,
    steal,
    swap,
    cgroup,
    clock_source,
    isolated_cores,
    memory_layout,
    system_load,
    instruction_counter,
)
# Without these alone a host still measures well; they are advice, not a verdict.
OPTIONAL = ("isolated cores", "smt", "turbo", "memory layout")


def inspect() -> list[Finding]:
    """Run all checks and return their findings in a fixed order; takes SAMPLE_S, for the processor's ticks."""
    return [check() for check in CHECKS]


def identity() -> dict[str, str]:
    """Name what of this host decides how fast programs run, for whoever compares durations."""
    split = (row.partition(":") for row in _read(pathlib.Path("/proc/cpuinfo")).splitlines())
    rows = {name.strip(): value.strip() for name, colon, value in split if colon}
    is_virtual = "hypervisor" in rows.get("flags", "").split()
    vendor = _read(pathlib.Path("/sys/class/dmi/id/sys_vendor"))
    return {
        "cpu": rows.get("model name") or platform.processor() or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "governor": governor().value,
        "kernel": platform.release(),
        "virtualisation": ("unnamed" if vendor == "unknown" else vendor) if is_virtual else "none",
        "cgroup": cgroup().value,
    }


def unfit(findings: Sequence[Finding]) -> list[str]:
    """Return the names of what makes durations from this host doubtful; optional advice is not among them."""
    return [finding.name for finding in findings if not finding.is_fit and finding.name not in OPTIONAL]


def _read(path: pathlib.Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return "unknown"


def _processor_ticks() -> list[int]:
    rows = _read(pathlib.Path("/proc/stat")).splitlines()
    return [int(word) for word in rows[0].split()[1:]] if rows and rows[0].startswith("cpu ") else []


def main(arguments: Sequence[str] = ()) -> int:
    """Print a table of all findings and return 0, whatever they are.

    Args:
      arguments: the command line after the program's name, which knows no flag but `--help`.
    """
    FlagParser("sandbox.host", __doc__, usage="%(prog)s [--help]").parse_args(arguments)
    # Imported here, because the server needs the checks and not the table.
    from rich import console, table

    findings = inspect()
    shown = table.Table("check", "found", "fit", "advice")
    for finding in findings:
        shown.add_row(finding.name, finding.value, "yes" if finding.is_fit else "no", finding.advice)
    console.Console().print(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
