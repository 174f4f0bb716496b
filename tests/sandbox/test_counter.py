"""Counts of the kernel's events, shown with one that every host has: the mechanism of the instruction counter."""

import mmap
import os

import pytest

from sandbox.inside import counter

SOFTWARE, PAGE_FAULTS = 1, 2
# More than any process touches by merely being forked.
PAGES = 10_000


def touching(pages: int) -> None:
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(pages):
            memory[page * mmap.PAGESIZE] = 1


@pytest.mark.parametrize("pages", [1, PAGES])
def test_what_a_forked_process_did_is_counted_once_it_ended(pages):
    counted = counter.opened(os.getpid(), kind=SOFTWARE, event=PAGE_FAULTS)
    if counted is None:
        pytest.skip("this kernel lets nobody count")
    before = counted.read()
    process = os.fork()
    if process == 0:
        try:
            touching(pages)
        finally:
            os._exit(0)
    os.waitpid(process, 0)
    found = counted.read() - before
    counted.close()
    assert (found > PAGES) == (pages == PAGES), found


def test_an_event_that_is_not_there_is_none():
    assert counter.opened(os.getpid(), kind=99, event=0) is None
    if not os.path.exists(counter.PROCESSOR_COUNTERS):
        assert counter.instructions_of(os.getpid()) is None
