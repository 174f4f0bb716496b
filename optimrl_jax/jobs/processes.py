"""Edge: runs one job in a process of its own, as a user would start it, and waits for its end."""

import signal
import subprocess
import sys
from collections.abc import Sequence


def run_job_process(module: str, flags: Sequence[str]) -> int:
    """Run `python -m module flags` and return its exit code.

    Ctrl-C reaches the child by itself, which leaves its last checkpoint before it ends; this process waits for that.
    SIGTERM is handed on to it. Both stay so for the rest of this process.

    Args:
      module: of the job.
      flags: after the module's name.
    """
    with subprocess.Popen([sys.executable, "-m", module, *flags]) as child:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        return child.wait()
