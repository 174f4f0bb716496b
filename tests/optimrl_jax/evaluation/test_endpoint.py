"""A server that limits its rate, fails and dies in the middle is asked until everything is answered, and not twice."""

import contextlib
import logging

import pytest

from optimrl_jax.evaluation.endpoint import Answer, PolicyEndpoint, Question
from optimrl_jax.jobs.errors import UserError
from tests.optimrl_jax.evaluation.endpoint import completion, scripted


def test_answers_come_in_order_with_their_length_and_are_not_asked_for_again(tmp_path):
    asked = []

    def answer(body):
        text = body["messages"][0]["content"]
        asked.append(text)
        return completion(text.upper(), reason="length" if text == "b" else "stop")

    with scripted(answer) as url:
        endpoint = PolicyEndpoint(url, "m", store=tmp_path / "answers.jsonl")
        found = endpoint.ask([Question("a"), Question("b"), Question("a", number=1)])
        assert found == [Answer("A", 5), Answer("B", 5, is_cut=True), Answer("A", 5)]
        with (tmp_path / "answers.jsonl").open("a") as file:
            file.write('{"question": "cut by a ki')
        again = PolicyEndpoint(url, "m", store=tmp_path / "answers.jsonl")
        assert again.ask([Question("b"), Question("c")])[0] == found[1]
        endpoint.close(), again.close()
    assert sorted(asked) == ["a", "a", "b", "c"]


def test_an_answer_of_another_model_server_or_seed_is_none(tmp_path, caplog):
    with scripted(lambda body: completion(body["model"])) as url, scripted(lambda _: completion("other")) as other:

        def said(url, model, seed=0):
            endpoint = PolicyEndpoint(url, model, store=tmp_path / "a")
            with contextlib.closing(endpoint):
                return endpoint.ask([Question("a", seed=seed)])[0].text

        assert [said(url, "m"), said(url, "n"), said(other, "m")] == ["m", "n", "other"]
        with caplog.at_level(logging.INFO):
            assert [said(url, "m", seed=1), said(f"{url}/", "m")] == ["m", "m"]
    assert len((tmp_path / "a").read_text().splitlines()) == 4
    assert f"1 of 1 answers were given before: {tmp_path / 'a'}" in caplog.text


def test_limits_of_rate_and_failures_are_waited_out(tmp_path):
    statuses = iter([(429, {"retry-after": "7"}, {}), (503, {}, {}), completion("fine")])
    pauses = []
    with scripted(lambda body: next(statuses)) as url:
        endpoint = PolicyEndpoint(url, "m", store=tmp_path / "a", sleep=pauses.append)
        assert endpoint.ask([Question("a")])[0].text == "fine"
        endpoint.close()
    assert 7.0 in pauses
    assert len(pauses) == 3


def test_a_server_that_refuses_is_a_mistake_in_one_line(tmp_path):
    with scripted(lambda body: (401, {}, {"error": "no key"})) as url:
        endpoint = PolicyEndpoint(url, "m", store=tmp_path / "a", sleep=lambda _: None)
        with pytest.raises(UserError, match=r"expected completions of 'm' \(status 401"):
            endpoint.ask([Question("a")])
        endpoint.close()


def test_a_server_without_a_list_of_models_takes_instructions_and_one_that_is_away_is_not_guessed_about(tmp_path):
    for models in (None, [], ["m"], [{"id": "m"}], "no list"):
        with scripted(lambda _: completion("x"), models=models) as url:
            endpoint = PolicyEndpoint(url, "m", store=tmp_path / "a")
            assert endpoint.has_chat_template()
            endpoint.close()
    away = PolicyEndpoint(url, "m", store=tmp_path / "a", sleep=lambda _: None)
    with contextlib.closing(away), pytest.raises(UserError, match=r"expected completions of 'm' \(ConnectError"):
        away.has_chat_template()
