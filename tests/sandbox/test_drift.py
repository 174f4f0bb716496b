"""A lasting shift becomes a map under a version of its own, a short one an alarm, and one wild probe neither."""

import asyncio

import pytest

from sandbox.protocol import InvalidRequestError
from sandbox.service import health, pool, probes
from sandbox.timing import drift
from sandbox.timing.drift import IDENTITY, AffineMap, Watch

FIRST_S = (0.001, 0.02, 0.04, 0.06, 0.08)
SLOWER = AffineMap(1.7, 0.004)


def watched(*series: tuple[float, ...]) -> Watch:
    watch = Watch()
    for seconds in series:
        watch = watch.after(seconds)
    return watch


STEADY = (FIRST_S,) * drift.SUSTAINED


def test_probes_find_slope_and_offset_of_a_drift():
    found = drift.fit_affine_map(FIRST_S, SLOWER.apply(FIRST_S))
    assert found == pytest.approx(SLOWER)
    assert found.is_alarming
    assert not drift.fit_affine_map(FIRST_S, AffineMap(1.1, 0.001).apply(FIRST_S)).is_alarming
    assert AffineMap(1.0, 0.02).is_alarming


def test_one_disturbed_program_does_not_move_the_map():
    now_s = [*SLOWER.apply(FIRST_S)]
    now_s[4] *= 3
    assert drift.fit_affine_map(FIRST_S, now_s) == pytest.approx(SLOWER, rel=0.05)


def test_a_steady_service_keeps_the_identity():
    watch = watched(*STEADY, AffineMap(1.05, 0.001).apply(FIRST_S))
    assert (watch.current, watch.is_accepted, watch.is_degraded) == (IDENTITY, True, False)
    assert watch.newest == pytest.approx((1.05, 0.001))
    assert watched(FIRST_S).newest is None


def test_a_short_spell_raises_an_alarm_and_leaves_the_map():
    spell = watched(*STEADY, SLOWER.apply(FIRST_S))
    assert (spell.is_degraded, spell.current) == (True, IDENTITY)
    assert not spell.after(FIRST_S).is_degraded


def test_a_lasting_shift_becomes_the_map_until_it_is_over():
    moved = watched(*STEADY, *[SLOWER.apply(FIRST_S)] * drift.SUSTAINED)
    assert moved.current == pytest.approx(SLOWER)
    assert (moved.is_accepted, moved.is_degraded) == (False, False)
    back = moved
    for _ in range(drift.SUSTAINED):
        back = back.after(FIRST_S)
    assert back.current == pytest.approx(IDENTITY)
    assert not back.is_accepted


def test_the_stamp_carries_version_and_map():
    assert drift.map_under(SLOWER.stamp()) == SLOWER
    assert SLOWER.stamp()["calibration"] == SLOWER.version != AffineMap(1.7, 0.005).version
    assert (IDENTITY.stamp(), drift.map_under({"calibration": "identity"})) == ({}, IDENTITY)


class Quiet:
    """Stands in for a pool of which only the counts of windows are looked at."""

    windows = health.Windows()


def sentinel(**options) -> probes.Sentinel:
    found = probes.Sentinel(Quiet(), **options)
    for seconds in STEADY:
        found.note(seconds)
    return found


def test_a_sentinel_stamps_what_it_knows_and_ends_its_alarm_when_told():
    found = sentinel()
    assert found.stamp() == {}
    found.note(SLOWER.apply(FIRST_S))
    assert found.stamp() == {"degraded": "drift"}
    found._workers.windows = health.Windows(was_burst=True)
    assert health.degraded_by(found.stamp()) == "burst+drift"
    for _ in range(drift.SUSTAINED):
        found.note(SLOWER.apply(FIRST_S))
    version = found.report()["version"]
    assert found.stamp()["calibration"] == version
    assert (found.probes, found.degraded_probes) == (7, 2)
    with pytest.raises(InvalidRequestError, match="expected the current one"):
        found.accept("drift-000000000000")
    assert not found.report()["is_accepted"]
    found.accept(version)
    assert found.report()["is_accepted"]


def test_a_baseline_outlives_the_server(tmp_path):
    path = tmp_path / "baseline.json"
    assert sentinel(baseline=path).watch.first_s == FIRST_S
    later = probes.Sentinel(Quiet(), baseline=path)
    later.note(SLOWER.apply(FIRST_S))
    assert later.stamp() == {"degraded": "drift"}


@pytest.mark.parametrize("text", ["", "{}", '{"loops": [1, 2], "seconds": [1, 2]}', "[]"])
def test_a_file_that_is_no_baseline_is_refused(tmp_path, text):
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"baseline = .*expected"):
        probes.Sentinel(Quiet(), baseline=path)


def test_probes_run_on_real_workers():
    workers = pool.open_pool("local", workers=1)
    found = probes.Sentinel(workers)
    asyncio.run(found.probe())
    workers.close()
    assert found.probes == 1
    assert 0 < found.watch.recent[0][0] < found.watch.recent[0][-1]
