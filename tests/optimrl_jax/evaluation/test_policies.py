"""Whatever can be evaluated or served: published weights are as good a policy as the workdir of a job."""

import fastapi.testclient
import pytest
import uvicorn

from optimrl_jax import serve
from optimrl_jax.evaluation import policies
from optimrl_jax.evaluation.held_out.problems import check_scores
from optimrl_jax.jobs.checked_fields import freeze
from optimrl_jax.jobs.command_line import Job
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.model.pretrained.transformers_files import save_for_transformers
from optimrl_jax.rollout.actor import SampledProgram, Sampler
from optimrl_jax.settings import Settings
from tests.optimrl_jax.evaluation.endpoint import completion, scripted
from tests.optimrl_jax.grpo.stored import POLICY, RECORDS

SAMPLES = 2
VALUES = {
    "data": {"prompt_tokens": 12, "completion_tokens": 8},
    "evaluation": {"samples": SAMPLES, "ks": (1, SAMPLES)},
    "serve": {"port": 0, "rows": 1},
}


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A directory as others publish weights."""
    directory = tmp_path_factory.mktemp("published")
    save_for_transformers(directory, POLICY.settings, POLICY.params, POLICY.tokenizer, dtype="float32")
    return directory


def test_published_weights_are_evaluated_as_the_policy_that_they_are(weights, tmp_path):
    settings = freeze(Settings, VALUES)
    found = policies.sample_programs(str(weights), RECORDS[:1], settings, answers=tmp_path / "answers")
    sampler = Sampler(POLICY, settings.data, settings.grpo.temperature)
    statements = [record.statement for record in RECORDS[:1]]
    assert found == sampler.sample_programs(statements, SAMPLES, seed=settings.seed)
    assert policies.policy_facts(str(weights))["source"] == str(weights)


def test_published_weights_are_served(weights, tmp_path, monkeypatch):
    answers = []

    def ask(server, sockets):
        client = fastapi.testclient.TestClient(server.config.app)
        question = {"model": "policy", "prompt": "case a", "max_tokens": 1}
        answers.append(client.post("/v1/completions", json=question).json())

    monkeypatch.setattr(uvicorn.Server, "run", ask)
    serve.main(Job(freeze(Settings, {**VALUES, "serve": {**VALUES["serve"], "weights": str(weights)}}), tmp_path))
    assert answers[0]["usage"]["completion_tokens"] == 1


@pytest.mark.parametrize(
    ("models", "asked"),
    [
        (None, ["Use Python.", "Be fast: {}"]),
        ([{"id": "m"}, {"id": "n", "has_chat_template": False}], ["Use Python.", "Be fast: {}"]),
        ([{"id": "m", "has_chat_template": False}], ["{}"]),
    ],
)
def test_a_server_is_asked_as_rollouts_are_and_its_answers_are_read_as_theirs(tmp_path, models, asked):
    own = tmp_path / "own.py"
    own.write_text("def read(text): return text.partition('ANSWER:')[2]\n")
    data = {"system": "Use Python.", "instruction": "Be fast: {statement}", "answer_function": f"{own}:read"}
    settings = freeze(Settings, {"data": data, "evaluation": {"samples": SAMPLES, "ks": (1,)}})
    heard = []

    def answer(body):
        heard.append([message["content"] for message in body["messages"]])
        return completion("```python\nno\n``` ANSWER:yes")

    with scripted(answer, models=models) as url:
        found = policies.sample_programs(f"{url}#m", RECORDS[:1], settings, answers=tmp_path / "answers")
    assert found == [[SampledProgram("yes", 5)] * SAMPLES]
    assert heard == [[text.format(RECORDS[0].statement) for text in asked]] * SAMPLES


def test_more_tries_than_samples_are_refused_before_anything_is_sampled():
    settings = freeze(Settings, {"evaluation": {"samples": 2, "ks": (1, 10)}})
    with pytest.raises(UserError, match=r"evaluation.ks = \(1, 10\): expected numbers up to evaluation.samples = 2"):
        check_scores(settings)
