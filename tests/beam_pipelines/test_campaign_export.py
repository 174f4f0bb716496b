"""From a dataset to a calibration campaign: what is exported is measured again, and gives a map."""

import json

import numpy as np

from beam_pipelines import inspect_dataset
from beam_pipelines.report.campaign_export import campaign_lines
from sandbox import calibrate

SECONDS = np.array([[0.3, 0.1, 0.2], [0.6, 0.2, 10.0], [9.0, 9.0, 9.0]])
EXAMPLE = {
    "id": b"p",
    "test_kind": np.array([2, 2, 0]),
    "test_input": [b"a", b"b", b"c"],
    "reference_program": [b"slow", b"fast", b"middle"],
    "duration_s": SECONDS,
    "status": np.array([[0, 0, 0], [0, 0, 1], [0, 0, 0]]),
}


def test_fastest_and_slowest_references_come_with_the_seconds_of_their_successes():
    lines = campaign_lines(EXAMPLE, references=2, tests=5)
    assert [(line["program"], line["inputs"], line["stored_s"]) for line in lines] == [
        ("fast", ["a", "b"], [0.1, 0.2]),
        ("slow", ["a", "b"], [0.3, 0.6]),
    ]


def test_a_timeout_is_not_measured_again():
    (middle,) = (line for line in campaign_lines(EXAMPLE, references=9, tests=9) if line["program"] == "middle")
    assert (middle["inputs"], middle["stored_s"]) == (["a"], [0.2])


def test_an_exported_campaign_gives_an_affine_map(finished_dataset, tmp_path):
    campaign = tmp_path / "campaign.jsonl"
    flags = ["--campaign_references=1", "--campaign_tests=2"]
    inspect_dataset.main([f"--dataset={finished_dataset}", f"--campaign={campaign}", *flags])
    lines = [json.loads(line) for line in campaign.read_text().splitlines()]
    assert all(0 < len(line["inputs"]) == len(line["stored_s"]) <= 2 for line in lines)
    output = tmp_path / "calibration"
    command = [f"--campaign={campaign}", f"--output={output}", "--address=local", "--repeats=1"]
    assert calibrate.main(command) == 0
    summary = json.loads((output / "summary.json").read_text())
    assert summary["problems"] == len({line["problem"] for line in lines})
    assert np.isfinite([summary["alpha"], summary["beta_s"]]).all()
