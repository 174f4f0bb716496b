"""Rates of a training run come out as they were planted in its journal: a warm-up, a burst, a repeated step."""

import dataclasses

import numpy as np
import pyarrow.parquet as pq
import pytest

from optimrl_jax.analysis.study import Study
from optimrl_jax.analysis.timing import service, service_log
from optimrl_jax.rollout import journal
from tests.optimrl_jax.analysis.planted_journal import BATCHES, BURST, ROLLOUTS, rollout, write_journal, write_shard


@pytest.fixture
def run(tmp_path):
    write_journal(tmp_path / "bursty")
    return tmp_path / "bursty"


def test_shares_of_a_batch_are_those_of_its_rollouts(run):
    log = service_log.read_service_log(run)
    assert log.batch.tolist() == list(range(BATCHES))
    assert (log.parsed[0], log.parsed[1]) == (0.0, 1.0)
    assert (log.service_only[0], log.service_only[1], log.service_only[20]) == (0.0, 1.0, 0.25)
    assert (log.fallback[20], log.unresolved[20], log.timeouts[10]) == (0.5, 0.25, 1 / 8)
    assert (log.reward[5], log.reward[20], log.correct[20]) == (0.5, -1.0, 0.0)


def test_a_repeated_step_counts_once_and_the_newer_one(run):
    again = [rollout(5, n, written_ns=2) | {"reward": 2.0} for n in range(ROLLOUTS)]
    write_shard(run, again, "1.parquet")
    log = service_log.read_service_log(run)
    assert (len(log.batch), log.reward[5]) == (BATCHES, 2.0)


def test_journals_from_before_the_fallback_was_written_down_are_read(run):
    path = run / journal.FOLDER / "0.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["is_fallback"]), path)
    log = service_log.read_service_log(run)
    assert (log.fallback.max(), log.service_only[20]) == (0.0, 0.75)


def test_a_burst_is_one_event_with_its_lowest_point_and_the_warm_up_is_none(run):
    log = service_log.read_service_log(run)
    assert service.find_bursts(log) == [service.Burst(*BURST)]
    early = dataclasses.replace(log, service_only=np.where(log.batch < 4, 0.0, 1.0))
    assert service.find_bursts(early) == []
    still = dataclasses.replace(log, service_only=np.where(log.batch >= 38, 0.5, 1.0))
    assert service.find_bursts(still) == [service.Burst(38, 39)]


def test_runs_without_rollouts_say_what_would_fill_the_section(tmp_path):
    study = Study([], [], (), (100.0,), runs=(tmp_path,))
    assert "grpo.keeps_rollouts" in service.bursts(study).missing
