"""Messages between learner and actors: exact arrays, nothing that is not understood, no rollout of another start."""

import msgpack
import numpy as np
import pytest

from optimrl_jax.actors import messages
from optimrl_jax.actors.endpoint import Reception
from optimrl_jax.actors.rollout_worker import RestartedError
from optimrl_jax.actors.rpc import Asker, LearnerLostError, Server
from optimrl_jax.actors.weight_store import Board
from optimrl_jax.actors.work_queue import Ledger, RunEndedError, WrongWorkError
from optimrl_jax.distributed import codec
from optimrl_jax.errors import UserError
from optimrl_jax.rollout.groups import QueueTimeoutError, stacked
from tests.optimrl_jax.actors import job
from tests.optimrl_jax.grpo.groups import SETTINGS, copied_params, group
from tests.optimrl_jax.model import tiny


class Endless:
    """Problems 0, 1, 2, ... with a position that can be stored, as a Grain iterator has."""

    def __init__(self) -> None:
        self.position = 0

    def __next__(self) -> int:
        self.position += 1
        return self.position - 1

    def get_state(self) -> dict:
        return {"position": self.position}

    def set_state(self, state: dict) -> None:
        self.position = state["position"]


def ledger(*, most: int = 4) -> Ledger:
    return Ledger(Endless(), work_problems=2, most_unfinished=most)


def answer(work, *, version: int = 0):
    named = {"batch": np.int32(work.batch)}
    return [
        group(problem, version=version)._replace(place=np.int32(place), **named)
        for place, problem in enumerate(work.problems)
    ]


def test_arrays_arrive_bit_for_bit():
    arrays = {"half": np.arange(6, dtype=np.float32).reshape(2, 3).astype(codec.DTYPES["bfloat16"])}
    arrays |= {"none": np.zeros((0, 4), np.int32), "one": np.float32(2.5), "is": np.array([True, False])}
    found = codec.unpacked([bytes(frame) for frame in codec.packed("groups", {"batch": 3}, arrays)])
    assert (found.kind, found.facts) == ("groups", {"batch": 3})
    for name, array in arrays.items():
        assert found.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays[name], array)


BROKEN = [
    [],
    [b"\xc1"],
    [msgpack.packb(["kind"])],
    [msgpack.packb(["kind", {}, [["a", "object", [1]]]]), b"12345678"],
    [msgpack.packb(["kind", {}, [["a", "int32", [3]]]]), b"12345678"],
    [msgpack.packb(["kind", {}, [["a", "int32", [-2]]]]), b"12345678"],
    [msgpack.packb(["kind", {}, []]), b"more"],
]


@pytest.mark.parametrize("frames", BROKEN)
def test_frames_that_say_nothing_are_refused(frames):
    with pytest.raises(codec.MessageError):
        codec.unpacked(frames)


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": np.full((1, 4, 12), 40, np.int32)},
        {"policy_version": np.full((1, 4), 8, np.int32)},
        {"reward": np.full((1, 4), np.nan, np.float32)},
        {"reward": np.zeros((1, 4), np.float16)},
        {"is_completion": np.zeros((1, 4, 12), bool)},
        {"problem": np.zeros((2,), np.int32)},
        {"surplus": np.zeros((1,), np.int32)},
    ],
)
def test_groups_that_no_actor_of_this_run_could_send_are_refused(change):
    sent = stacked([group(1)])
    (found,) = messages.groups_of(sent, settings=SETTINGS, vocabulary=40, step=7)
    np.testing.assert_array_equal(found.rollouts.tokens, group(1).rollouts.tokens)
    with pytest.raises(codec.MessageError):
        messages.groups_of(sent | change, settings=SETTINGS, vocabulary=40, step=7)


def test_a_full_ledger_hands_out_nothing_until_the_learner_takes():
    own = ledger()
    first, second = (own.hand_out("a", holding=(0,), wait_s=0) for _ in range(2))
    assert (first.problems, second.problems) == ((0, 1), (2, 3))
    assert own.hand_out("b", holding=(), wait_s=0.01) is None
    own.take_in(first.batch, answer(first))
    assert own.hand_out("b", holding=(), wait_s=0.01) is None
    assert [own.take(timeout_s=0).id for _ in range(2)] == [(0, 0), (0, 1)]
    assert own.hand_out("b", holding=(), wait_s=0).problems == (4, 5)
    with pytest.raises(QueueTimeoutError):
        own.take(timeout_s=0.01)


def test_work_of_a_lost_actor_is_handed_out_again_and_taken_once():
    own = ledger()
    work = own.hand_out("a", holding=(), wait_s=0)
    assert own.lose("a") == 2
    again = own.hand_out("b", holding=(), wait_s=0)
    assert again == work
    assert own.take_in(work.batch, answer(work))
    assert not own.take_in(again.batch, answer(again))
    assert (len(own), own.counts["repeated_groups"]) == (2, 2)


def test_work_that_never_reached_its_actor_is_handed_out_again():
    own = ledger()
    assert own.hand_out("a", holding=(), wait_s=0) == own.hand_out("a", holding=(), wait_s=0)


def test_an_answer_to_other_problems_is_refused():
    own = ledger()
    work = own.hand_out("a", holding=(), wait_s=0)
    with pytest.raises(WrongWorkError, match="batch 0"):
        own.take_in(work.batch, answer(work)[::-1])


def test_a_restored_ledger_goes_on_with_what_waited_and_what_was_out():
    own, other = ledger(), ledger()
    first, second = own.hand_out("a", holding=(), wait_s=0), own.hand_out("a", holding=(0,), wait_s=0)
    own.take_in(second.batch, answer(second))
    other.restore(*own.state())
    assert other.hand_out("b", holding=(), wait_s=0) == first
    assert [other.take(timeout_s=0).id for _ in range(2)] == [(1, 0), (1, 1)]
    assert other.hand_out("b", holding=(0,), wait_s=0).problems == (4, 5)
    other.end()
    with pytest.raises(RunEndedError):
        other.hand_out("b", holding=(), wait_s=0)


def reception(own: Ledger, *, version: int = 0) -> Reception:
    board = Board([], for_others=True)
    board.post(job.POLICY.params, version)
    return Reception(own, board, settings=job.settings_of(), vocabulary=job.MODEL.vocabulary, job=job.JOB)


def test_an_actor_outlives_its_learner_and_its_old_rollouts_do_not():
    first, later = ledger(), ledger()
    old, new = reception(first, version=3), reception(later, version=3)
    server = Server("", old.answer)
    desk = job.desk(server.address, job.settings_of(heartbeat_s=60.0), name="a")
    work = desk.work(holding=(), idle_s=0.0)
    assert desk.weights()[0] == 3
    assert desk.weights() is None
    server.close()
    server = Server(server.address, new.answer)
    with pytest.raises(RestartedError):
        desk.deliver(work, answer(work), {})
    assert (len(later), later.counts["rejected_groups"]) == (0, 2)
    assert desk.work(holding=(), idle_s=0.0).run == new.run
    # The same number of version, but of another start: the weights are fetched anew.
    assert desk.weights()[0] == 3
    later.end()
    with pytest.raises(RunEndedError):
        desk.work(holding=(), idle_s=0.0)
    assert new.present() == 0
    desk.close()
    server.close()


def test_an_actor_of_another_configuration_is_refused_and_none_waits_for_ever():
    server = Server("", reception(ledger()).answer)
    with pytest.raises(UserError, match="refuses: a: expected the configuration"):
        job.desk(server.address, job.settings_of(), name="a", job="another")
    server.close()
    with pytest.raises(LearnerLostError, match=r"expected an answer within 0\.2 s"):
        Asker(server.address, patience_s=0.2, answer_s=0.1).ask("hello", {})


def test_weights_of_another_shape_are_refused():
    arrays = {name: np.asarray(leaf) for name, leaf in codec.named_leaves(copied_params()).items()}
    same = codec.tree_like(tiny.params(), arrays)
    np.testing.assert_array_equal(same["embedding"], tiny.params()["embedding"])
    with pytest.raises(codec.MessageError, match="shape of this policy"):
        codec.tree_like(tiny.params(), arrays | {next(iter(arrays)): np.zeros(3, np.float32)})
