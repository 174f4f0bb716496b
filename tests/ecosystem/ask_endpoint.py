"""Runs with the `openai` client: asks a served policy everything that such a client asks, and prints what came back.

`python ask_endpoint.py URL KEY MODEL`; one JSON object on standard output.
"""

import json
import sys

import openai


def main(url: str, key: str, model: str) -> None:
    client = openai.OpenAI(base_url=url, api_key=key, max_retries=0)
    messages = [{"role": "user", "content": "case a"}]

    def chat(**fields):
        return client.chat.completions.create(model=model, messages=messages, seed=1, **fields)

    def refusal(**fields) -> list:
        try:
            chat(**fields)
        except openai.APIStatusError as error:
            return [type(error).__name__, error.status_code, error.body["message"]]
        return ["answered", 200, ""]

    def with_other_key() -> str:
        try:
            openai.OpenAI(base_url=url, api_key="other", max_retries=0).models.list()
        except openai.AuthenticationError as error:
            return type(error).__name__
        return "answered"

    whole = chat(temperature=0, logprobs=True, top_logprobs=2)
    text = whole.choices[0].message.content
    chunks = list(chat(temperature=0, stream=True, stream_options={"include_usage": True}))
    parts = [{"type": "text", "text": "case"}, {"type": "text", "text": " a"}]
    batch = client.completions.create(model=model, prompt=["case a", "case b"], n=2, max_tokens=4, seed=1, logprobs=1)
    answer = {
        "models": [entry.id for entry in client.models.list()],
        "text": text,
        "usage": whole.usage.completion_tokens,
        "log_probs": [
            [entry.logprob, len(entry.top_logprobs), entry.top_logprobs[0].logprob]
            for entry in whole.choices[0].logprobs.content
        ],
        "streamed": "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices),
        "streamed_usage": chunks[-1].usage.completion_tokens,
        "finish_reasons": [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1:],
        "one_token": chat(max_completion_tokens=1).usage.completion_tokens,
        "stopped": chat(temperature=0, stop=[text[1]]).choices[0].message.content,
        "narrow": chat(top_p=1e-6).choices[0].message.content,
        "in_parts": client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": parts}], temperature=0
        ).choices[0].message.content,
        "roles": len(client.chat.completions.create(
            model=model, n=3, messages=[{"role": "system", "content": "a"}, *messages], max_tokens=2
        ).choices),
        "batch": [[choice.index, choice.text, len(choice.logprobs.tokens)] for choice in batch.choices],
        "unknown_field": refusal(extra_body={"invented": 1}),
        "tools": refusal(tools=[{"type": "function", "function": {"name": "f"}}]),
        "unknown_model": [*refusal(extra_body={"model": "other"})],
        "other_key": with_other_key(),
    }  # fmt: skip
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
