"""Runs with lm-eval: evaluates a served policy on given answers and on free ones; prints samples and scores as JSON.

`python evaluate_with_lm_eval.py URL MODEL TOKENIZER QUESTIONS`; QUESTIONS is a JSON file with `prompt`, `choices` and
`target` in each entry. Its backend `local-completions` asks for echoed prompts with log-probabilities to compare
answers, and for greedy completions up to a stop text.
"""

import json
import sys

import lm_eval
from lm_eval.tasks import TaskManager


def main(url: str, model: str, tokenizer: str, questions: str) -> None:
    shared = {
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": questions}},
        "test_split": "test",
        "doc_to_text": "{{prompt}}",
    }
    chosen = {
        **shared,
        "task": "chosen",
        "output_type": "multiple_choice",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{target}}",
        "target_delimiter": "",
        "metric_list": [{"metric": "acc"}],
    }
    written = {
        **shared,
        "task": "written",
        "output_type": "generate_until",
        "doc_to_target": "{{choices[target]}}",
        "generation_kwargs": {"until": ["\n"], "max_gen_toks": 6, "do_sample": False},
        "metric_list": [{"metric": "exact_match"}],
    }
    results = lm_eval.simple_evaluate(
        model="local-completions",
        model_args={
            "model": model,
            "base_url": f"{url}/completions",
            "tokenizer": tokenizer,
            "tokenizer_backend": "huggingface",
            "max_length": 64,
            "batch_size": 2,
            "num_concurrent": 1,
            "max_retries": 1,
        },
        tasks=[chosen, written],
        task_manager=TaskManager(),
        log_samples=True,
        bootstrap_iters=0,
    )
    print(json.dumps({"samples": results["samples"], "results": results["results"]}, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
