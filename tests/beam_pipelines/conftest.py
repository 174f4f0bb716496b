"""A finished dataset that several files of tests look at."""

import json

import pytest

from beam_pipelines import storage
from beam_pipelines.dmc_optim import dmc_optim_dataset_builder as dmc_optim
from tests.beam_pipelines import planted


@pytest.fixture(scope="package")
def finished_dataset(tmp_path_factory):
    """The directory of a small dataset with its summary and traces, as a build leaves it."""
    root = tmp_path_factory.mktemp("finished")
    for name in "abcd":
        storage.write_record(planted.timed(name), directory=str(root / "r"))
    dmc_optim.prepare_dataset(root, records_directory=root / "r", splits=planted.SPLITS)
    (root / "summary.json").write_text(
        json.dumps(
            {
                "source": "jsonl",
                "splits": {"rl_train": 2},
                "stages": [{"stage": "read", "kept": 4, "rejected": 0, "reasons": {}}],
            }
        )
    )
    step = {
        "stage": "generate_correctness",
        "correct": 6,
        "incorrect": 1,
        "tests": 2,
        "notes": [*planted.PASS_RATES.items(), ("accepted", 1)],
    }
    (root / "traces.jsonl").write_text(json.dumps({"id": "planted/a", "trace": [step]}) + "\n")
    (root / "COMPLETE").write_text("")
    return root
