"""Edge: measures on the local backend while the wall clock steps; a script, which prints what it found as JSON."""

import json
import os
import time

from sandbox import bundle, client
from sandbox.protocol import Limits, RunRequest, Suite

SPIN_S, LIMIT_S = 0.05, 0.3
# Says whether the clock steps for programs too.
SPIN = f"""
import time
looks = [time.time() for _ in range(4)]
until = time.thread_time() + {SPIN_S}
while time.thread_time() < until: pass
print(max(looks) - min(looks) > 3600)
"""
ENDLESS = "while True: pass"


def main() -> None:
    """Time a spin, three times, and a program without an end."""
    looks = [time.time() for _ in range(4)]
    bundle.ENVIRONMENT["LD_PRELOAD"] = os.environ["LD_PRELOAD"]
    suite = Suite(inputs=("",), expected=("True\n",))
    limits = Limits(wall_s=LIMIT_S)
    start_s = time.monotonic()
    with client.connect("local", workers=1) as sandbox:
        sandbox.upload(suite)
        spun = sandbox.run(RunRequest(SPIN, suite.sha256, repeats=3, limits=limits)).results[0]
        endless = sandbox.run(RunRequest(ENDLESS, suite.sha256, limits=limits)).results[0]
    found = {
        "step_s": max(looks) - min(looks),
        "spun": [str(spun.verdict), spun.cpu_s, spun.wall_s, spun.wall_std_s],
        "endless": [str(endless.verdict), endless.wall_s],
        "elapsed_s": time.monotonic() - start_s,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
