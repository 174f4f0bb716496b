"""The benchmark of the sweep runs small and prints the figures that it promises."""

from tests.benchmarks.simulator import figures


def test_the_figures_are_complete_and_finite():
    shape = {"problems": 8, "tests": 12, "references": 10}
    found = figures(shape=shape, growth={"problems": [shape | {"problems": n} for n in (200, 400)]})
    assert found["configurations"] == 1578
    assert found["total_s"] > 0
    assert found["numpy_ratio"] > 0
    assert found["peak_memory_bytes"] > 1 << 20
    assert list(found["growth_exponents"]) == ["problems"]
