"""Bounds of memory from traced programs, worked by hand; one array of 256 x 256 is the unit."""

import jax
import jax.numpy as jnp
import pytest

from optimrl_jax.planning import liveness

ARRAY = jax.ShapeDtypeStruct((256, 256), jnp.float32)


def turns(x):
    return jax.lax.scan(lambda total, _: (total + x @ x, total @ x), jnp.zeros_like(x), None, length=5)


PROGRAMS = {
    "a_product": (lambda x: x @ x, 1),
    "the_first_of_three_products_is_gone_at_the_third": (lambda x: x @ x @ x @ x, 2),
    "what_is_needed_again_stays": (lambda x: (y := x @ x) @ x @ y, 3),
    "elements_take_the_place_of_their_only_source": (lambda x: jnp.exp(x @ x) @ x, 2),
    "elements_that_are_only_summed_are_never_there": (lambda x: jnp.exp(x @ x).sum(), 1),
    "elements_of_arguments_are_there_for_a_product_alone": (lambda x: jnp.exp(x) @ x, 2),
    "elements_for_two_products_stay": (lambda x: (y := jnp.exp(x)) @ (y @ x), 3),
    "a_call_is_what_it_calls": (lambda x: jax.nn.silu(x @ x) @ x, 2),
    # The sum in one place, and the products of all turns.
    "a_loop_has_all_results_from_its_first_turn_on": (turns, 6),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_peaks_worked_by_hand(name):
    program, arrays = PROGRAMS[name]
    peak = liveness.peak_bytes(jax.make_jaxpr(program)(ARRAY))
    assert peak / liveness.array_bytes(ARRAY) == pytest.approx(arrays, abs=1e-3)


def test_sizes_are_the_callers_and_know_of_loops():
    found = []

    def size(array, in_loop):
        found.append((array.shape, in_loop))
        return 0

    assert liveness.peak_bytes(jax.make_jaxpr(turns)(ARRAY), size) == 0
    assert {in_loop for _, in_loop in found} == {True, False}
