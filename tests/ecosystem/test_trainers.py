"""Other trainers learn from our reward: a policy over programs comes to prefer the one that is right and fast."""

import json
import statistics

import pytest

from tests.ecosystem import environments, programs

TRAINERS = {
    "trl": (
        ("trl==1.16.*", "transformers>=5,<6", "datasets>=5,<6", environments.TORCH),
        "tests.ecosystem.train_with_trl",
    ),
    "verl": (("verl==0.9.*", environments.TORCH), "tests.ecosystem.train_with_verl"),
    "tunix": (("google-tunix==0.1.*",), "tests.ecosystem.train_with_tunix"),
}


@pytest.mark.parametrize("name", TRAINERS)
def test_a_trainer_learns_which_program_is_right_and_fast(name):
    packages, module = TRAINERS[name]
    python = environments.python_with(name, *packages, *environments.packages_of("integrations"))
    means = json.loads(environments.run_module(python, module).splitlines()[-1])
    assert len(means) >= programs.STEPS
    # Of the tokens one earns 1, one 0, and all others -1: random choice stands near -0.8.
    assert means[0] < 0
    assert statistics.fmean(means[-3:]) > 0.8
