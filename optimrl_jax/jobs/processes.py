"""Edge: runs one job in a process of its own, as a user would start it, and waits for its end."""

import signal
import subprocess
import sys
from collections.abc import Sequence


def run_job_process(module: str, flags: Sequence[str]) -> int:
    """Run `python -m module flags` and return its exit code, 2 after one line where a library is missing.

    Ctrl-C reaches the child by itself, which leaves its last checkpoint before it ends; this process waits for that.
    SIGTERM is handed on to it. Both stay so for the rest of this process.

    Args:
      module: of the job.
      flags: after the module's name.
    """
    start = f"from optimrl_jax.jobs import scripts; scripts.run_module({module!r})"
    with subprocess.Popen([sys.executable, "-c", start, *flags]) as child:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        return child.wait()
