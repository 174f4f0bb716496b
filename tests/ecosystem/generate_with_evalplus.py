"""Runs with evalplus: has a served policy write functions for a local problem file; prints what it kept as JSON.

`python generate_with_evalplus.py URL MODEL DIRECTORY`; the environment names the problems (`HUMANEVAL_OVERRIDE_PATH`),
since its own are a download, and the key (`OPENAI_API_KEY`).
"""

import json
import pathlib
import sys

from evalplus import codegen
from evalplus.data import humaneval

# Its own problems are 164, and it insists on all of them.
humaneval.completeness_check = lambda name, problems: None


def main(url: str, model: str, directory: str) -> None:
    for greedy, samples in ((True, 1), (False, 3)):
        codegen.run_codegen(
            model=model,
            dataset="humaneval",
            root=f"{directory}/{samples}",
            backend="openai",
            base_url=url,
            greedy=greedy,
            n_samples=samples,
            temperature=0.0 if greedy else 0.8,
        )
    found = {
        path.parent.parent.name: [json.loads(line) for line in path.read_text().splitlines()]
        for path in pathlib.Path(directory).glob("*/humaneval/*.raw.jsonl")
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
