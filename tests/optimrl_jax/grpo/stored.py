"""A tiny job without a sandbox: three problems, a policy, and an executor that answers from a program's text alone."""

import dataclasses
import zlib

import numpy as np

from optimrl_jax.data import tokenizer
from optimrl_jax.rollout.execution import CandidateRun
from optimrl_jax.training import checkpoints
from tests.optimrl_jax import records
from tests.optimrl_jax.grpo.groups import SETTINGS
from tests.optimrl_jax.model import tiny

RECORDS = [records.record(name=f"case {name}") for name in "abc"]
TOKENIZER = tokenizer.train_tokenizer([record.statement for record in RECORDS], 300)
MODEL = dataclasses.replace(tiny.SETTINGS, vocabulary=TOKENIZER.size)
POLICY = checkpoints.Policy(tiny.params(MODEL), MODEL, TOKENIZER)
DATA = dataclasses.replace(SETTINGS.data, prompt_tokens=12, completion_tokens=8, row_tokens=32)


class Stopped(Exception):
    pass


class StoredExecutor:
    """Answers from the text of a program alone, as a store of executions does; stops at the given call."""

    def __init__(self, stops_at: int = 0) -> None:
        self.calls = 0
        self._stops_at = stops_at

    def execute(self, attempts, *, kinds, stops_early, reads_references):
        self.calls += 1
        if self.calls == self._stops_at:
            raise Stopped
        found = []
        for record, program in attempts:
            is_right = zlib.crc32(program.encode()) % 3 > 0
            k = len(record.test_input)
            status = np.full(k, 0 if is_right else 2, np.int8)
            found.append(CandidateRun(status, np.full(k, 0.005, np.float32)))
        return found
