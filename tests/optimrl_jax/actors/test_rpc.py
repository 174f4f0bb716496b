"""Messages between learner and actors: exact arrays, nothing that is not understood, no rollout of another start."""

import threading
import time
from concurrent import futures

import jax
import msgpack
import numpy as np
import pytest

from optimrl_jax.actors import messages
from optimrl_jax.actors.endpoint import LearnerService
from optimrl_jax.actors.rollout_worker import RestartedError
from optimrl_jax.actors.rpc import LearnerLostError, RpcClient, RpcServer
from optimrl_jax.actors.weight_store import WeightStore
from optimrl_jax.actors.work_queue import RunEndedError, WorkQueue, WrongGroupsError
from optimrl_jax.distributed import codec
from optimrl_jax.jobs.errors import UserError
from optimrl_jax.rollout.groups import QueueTimeoutError, stack_groups
from tests.optimrl_jax.actors import job
from tests.optimrl_jax.grpo.groups import SETTINGS, group


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


def work_queue(*, most: int = 4) -> WorkQueue:
    return WorkQueue(Endless(), item_problems=2, max_unfinished=most)


def answer(work, *, version: int = 0):
    named = {"batch": np.int32(work.batch)}
    return [
        group(problem, version=version)._replace(place=np.int32(place), **named)
        for place, problem in enumerate(work.problems)
    ]


def test_arrays_arrive_bit_for_bit():
    arrays = {"half": np.arange(6, dtype=np.float32).reshape(2, 3).astype(codec.DTYPES["bfloat16"])}
    arrays |= {"none": np.zeros((0, 4), np.int32), "one": np.float32(2.5), "is": np.array([True, False])}
    found = codec.decode_message([bytes(frame) for frame in codec.encode_message("groups", {"batch": 3}, arrays)])
    assert (found.kind, found.metadata) == ("groups", {"batch": 3})
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
        codec.decode_message(frames)


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
    sent = stack_groups([group(1)])
    (found,) = messages.decode_groups(sent, settings=SETTINGS, vocabulary=40, step=7)
    np.testing.assert_array_equal(found.rollouts.tokens, group(1).rollouts.tokens)
    with pytest.raises(codec.MessageError):
        messages.decode_groups(sent | change, settings=SETTINGS, vocabulary=40, step=7)


def test_a_full_ledger_hands_out_nothing_until_the_learner_takes():
    own = work_queue()
    first, second = (own.lease("a", in_flight=(0,), wait_s=0) for _ in range(2))
    assert (first.problems, second.problems) == ((0, 1), (2, 3))
    assert own.lease("b", in_flight=(), wait_s=0.01) is None
    own.complete(first.batch, answer(first))
    assert own.lease("b", in_flight=(), wait_s=0.01) is None
    assert [own.take(timeout_s=0).id for _ in range(2)] == [(0, 0), (0, 1)]
    assert own.lease("b", in_flight=(), wait_s=0).problems == (4, 5)
    with pytest.raises(QueueTimeoutError):
        own.take(timeout_s=0.01)


def test_work_of_a_lost_actor_is_handed_out_again_and_taken_once():
    own = work_queue()
    work = own.lease("a", in_flight=(), wait_s=0)
    assert own.requeue("a") == 2
    again = own.lease("b", in_flight=(), wait_s=0)
    assert again == work
    assert own.complete(work.batch, answer(work))
    assert not own.complete(again.batch, answer(again))
    assert (len(own), own.counts["repeated_groups"]) == (2, 2)


def test_work_that_never_reached_its_actor_is_handed_out_again():
    own = work_queue()
    assert own.lease("a", in_flight=(), wait_s=0) == own.lease("a", in_flight=(), wait_s=0)


def test_an_answer_to_other_problems_is_refused():
    own = work_queue()
    work = own.lease("a", in_flight=(), wait_s=0)
    with pytest.raises(WrongGroupsError, match="batch 0"):
        own.complete(work.batch, answer(work)[::-1])


def test_a_restored_ledger_goes_on_with_what_waited_and_what_was_out():
    own, other = work_queue(), work_queue()
    first, second = own.lease("a", in_flight=(), wait_s=0), own.lease("a", in_flight=(0,), wait_s=0)
    own.complete(second.batch, answer(second))
    other.restore(*own.state())
    assert other.lease("b", in_flight=(), wait_s=0) == first
    assert [other.take(timeout_s=0).id for _ in range(2)] == [(1, 0), (1, 1)]
    assert other.lease("b", in_flight=(0,), wait_s=0).problems == (4, 5)
    other.close()
    with pytest.raises(RunEndedError):
        other.lease("b", in_flight=(), wait_s=0)


def service(own: WorkQueue, *, version: int = 0) -> LearnerService:
    weight_store = WeightStore([], for_remote=True)
    weight_store.publish(job.POLICY.params, version)
    return LearnerService(own, weight_store, settings=job.settings_of(), vocabulary=job.MODEL.vocabulary, job=job.JOB)


def test_an_actor_outlives_its_learner_and_its_old_rollouts_do_not():
    first, later = work_queue(), work_queue()
    old, new = service(first, version=3), service(later, version=3)
    server = RpcServer("", old.answer)
    remote_learner = job.remote_learner(server.address, job.settings_of(heartbeat_s=60.0), name="a")
    work = remote_learner.next_item(in_flight=(), idle_s=0.0)
    assert remote_learner.weights()[0] == 3
    assert remote_learner.weights() is None
    server.close()
    server = RpcServer(server.address, new.answer)
    with pytest.raises(RestartedError):
        remote_learner.submit(work, answer(work), {})
    assert (len(later), later.counts["rejected_groups"]) == (0, 2)
    assert remote_learner.next_item(in_flight=(), idle_s=0.0).run == new.run
    # The same number of version, but of another start: the weights are fetched anew.
    assert remote_learner.weights()[0] == 3
    later.close()
    with pytest.raises(RunEndedError):
        remote_learner.next_item(in_flight=(), idle_s=0.0)
    assert new.present() == 0
    remote_learner.close()
    server.close()


def test_an_actor_of_another_configuration_is_refused_and_none_waits_for_ever():
    server = RpcServer("", service(work_queue()).answer)
    with pytest.raises(UserError, match="refuses: a: expected the configuration"):
        job.remote_learner(server.address, job.settings_of(), name="a", job="another")
    server.close()
    with pytest.raises(LearnerLostError, match=r"expected an answer within 0\.2 s"):
        RpcClient(server.address, patience_s=0.2, answer_s=0.1).call("hello", {})


@pytest.mark.parametrize("part_bytes", [8, 20, 1000])
def test_weights_travel_in_parts_of_limited_size(part_bytes):
    tree = {"a": np.arange(7, dtype=np.float32), "b": np.arange(12, dtype=np.int8).reshape(3, 4), "c": np.float32(2)}
    arrays = codec.named_leaves(jax.tree.map(np.asarray, tree))
    parts = codec.split_arrays(arrays, part_bytes)
    assert all(sum(piece.nbytes for piece in part.values()) <= part_bytes for part in parts)
    assert len(parts) == -(-(28 + 12 + 4) // part_bytes)
    joined = dict(codec.join_arrays(parts, tree))
    assert all(
        np.array_equal(joined[name], array) and joined[name].shape == array.shape for name, array in arrays.items()
    )
    taken: list[int] = []
    each = codec.join_arrays((part for part in parts if not taken.append(len(taken))), tree)
    # An array is there before the parts behind it are asked for.
    assert next((name, len(taken)) for name, _ in each) == (next(iter(arrays)), -(-28 // part_bytes))
    first, *others = parts
    wider = {name: piece.astype(np.float64) for name, piece in first.items()}
    for wrong in ((first, *others[:-1]) if others else ({},), (wider, *others), (first, first, *others)):
        with pytest.raises(codec.MessageError, match="shape of this policy"):
            dict(codec.join_arrays(wrong, tree))


def test_a_version_stays_while_an_actor_fetches_the_rest_of_it_and_no_longer():
    store = WeightStore([], for_remote=True)

    def publish(version: int) -> None:
        store.publish({"a": np.full(2, version, np.float32)}, version)

    def found() -> list[int]:
        return [store.on_host(wanted)[0] for wanted in range(5)]

    publish(0)
    publish(1)
    # Nobody was in the middle of the first one: what comes is the newest, from its beginning.
    assert found() == [1] * 5
    store.mark_fetch("slow", 1, is_last=False)
    publish(2)
    assert found() == [2, 1, 2, 2, 2]
    np.testing.assert_array_equal(store.on_host(1)[1]["['a']"], [1, 1])
    publish(3)
    assert found() == [3] * 5
    store.mark_fetch("slow", 3, is_last=False)
    store.mark_fetch("slow", 3, is_last=True)
    publish(4)
    assert found() == [4] * 5


class SlowLeaf:
    """A parameter whose copy to the host begins and then waits to be let go."""

    def __init__(self, leaf: np.ndarray) -> None:
        self.leaf, self.begun, self.goes_on = leaf, threading.Event(), threading.Event()

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        self.begun.set()
        assert self.goes_on.wait(30)
        return self.leaf


def test_an_actor_waits_while_the_next_version_takes_the_place_of_the_last_one():
    queue, store = work_queue(), WeightStore([], for_remote=True)
    store.publish(job.POLICY.params, 3)
    own = LearnerService(queue, store, settings=job.settings_of(), vocabulary=job.MODEL.vocabulary, job=job.JOB)
    kinds: list[str] = []

    def answer(message: codec.WireMessage) -> list:
        frames = own.answer(message)
        kinds.append(codec.decode_message(frames).kind)
        return frames

    server = RpcServer("", answer)
    leaves, form = jax.tree.flatten(job.POLICY.params)
    slow = SlowLeaf(np.asarray(leaves[0]) + 1)
    learner = job.remote_learner(server.address, job.settings_of(heartbeat_s=60.0), name="a")
    with futures.ThreadPoolExecutor(2) as threads:
        published = threads.submit(store.publish, jax.tree.unflatten(form, [slow, *leaves[1:]]), 4)
        assert slow.begun.wait(30)
        assert store.on_host() == (3, {})
        fetched = threads.submit(learner.weights)
        while kinds.count("wait") < 2:
            time.sleep(0.01)
        assert not fetched.done()
        slow.goes_on.set()
        published.result()
        version, params = fetched.result()
    assert version == 4
    np.testing.assert_array_equal(jax.tree.leaves(params)[0], slow.leaf)
    learner.close()
    server.close()
