"""Edge: the console commands of an installed package: each is `python -m MODULE` under a name of its own."""

import functools
import os
import runpy
import sys

# The extra that a module's own libraries belong to, by the beginning of its name; `learner` for the others.
EXTRAS = {
    "beam_pipelines": "pipelines",
    "sandbox": "sandbox",
    "optimrl_jax.simulate": "simulator",
    # These two build their dataset themselves.
    "optimrl_jax.quickstart": "all",
    "optimrl_jax.study": "all",
}


def run_module(name: str) -> None:
    """Run a module as `python -m` does, with the current directory first in the search for modules.

    Where a library is missing, the process ends with code 2 and names the extra to install.
    """
    sys.path.insert(0, os.getcwd())
    try:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in {"optimrl_jax", "beam_pipelines", "sandbox"}:
            raise
        extra = next((extra for start, extra in EXTRAS.items() if name.startswith(start)), "learner")
        print(f"{name}: no module named {missing!r}: expected `pip install 'optimrl-jax[{extra}]'`", file=sys.stderr)
        sys.exit(2)


train = functools.partial(run_module, "optimrl_jax.train")
sft = functools.partial(run_module, "optimrl_jax.sft")
actor = functools.partial(run_module, "optimrl_jax.actor")
evaluate = functools.partial(run_module, "optimrl_jax.evaluate")
judge = functools.partial(run_module, "optimrl_jax.judge")
serve = functools.partial(run_module, "optimrl_jax.serve")
export = functools.partial(run_module, "optimrl_jax.export")
simulate = functools.partial(run_module, "optimrl_jax.simulate")
analyze = functools.partial(run_module, "optimrl_jax.analyze")
compare = functools.partial(run_module, "optimrl_jax.compare")
show_rollouts = functools.partial(run_module, "optimrl_jax.show_rollouts")
study = functools.partial(run_module, "optimrl_jax.study")
quickstart = functools.partial(run_module, "optimrl_jax.quickstart")
build_dataset = functools.partial(run_module, "beam_pipelines.build_dataset")
inspect_dataset = functools.partial(run_module, "beam_pipelines.inspect_dataset")
sample_generators = functools.partial(run_module, "beam_pipelines.sample_generators")
export_parquet = functools.partial(run_module, "beam_pipelines.export_parquet")
sandbox_server = functools.partial(run_module, "sandbox.server")
sandbox_calibrate = functools.partial(run_module, "sandbox.calibrate")
sandbox_host = functools.partial(run_module, "sandbox.host")
