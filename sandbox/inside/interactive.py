"""Inside the isolation boundary: a conversation of the program under test with the interactor of its problem.

Both run at the same time on the same core, each in a world, as a user and in a control group of its own. Neither has an
end of a pipe that the other has: what one says reaches the other through the runner, which counts it. So a flood is
seen, a partner that stops listening breaks nobody's pipe, and nothing can be learned from a pipe but what was said.

    program  -> pipe -> runner -> pipe -> interactor
    program <-  pipe <- runner <- pipe <- interactor

What counts as the program's time is the processor time of everything in its group. Its wall limit runs as well, against
partners that both wait; the time in which interactor and runner had work to do is given back. The interactor's own wall
limit runs only once the program has ended: until then it waits with reason.
"""

import contextlib
import os
import select
import time
from collections.abc import Mapping

from sandbox.inside import clocks, containment, held, zygote

CHUNK_BYTES = 1 << 16
GONE = select.POLLHUP | select.POLLERR
# A program whose output has closed is about to end, as a rule; its own end is worth waiting for so long.
LAST_WORDS_S = 0.2


class Relay:
    """One direction of a conversation: what a speaker says, on its way to the listener.

    Attributes:
      entry: the end into which the speaker writes, to be opened by its process.
      exit: the end from which the listener reads, likewise.
      said_bytes: what the speaker has said so far.
    """

    def __init__(self, record: int) -> None:
        """Make both pipes.

        Args:
          record: an open file that receives a copy of everything that is said.
        """
        self._source, self.entry = os.pipe()
        self.exit, self._target = os.pipe()
        os.set_blocking(self._target, False)
        self._record = record
        self._waiting = b""
        self.said_bytes = 0

    def interests(self) -> list[tuple[int, int]]:
        """Return the descriptors to poll, each with what to poll for."""
        found = []
        if self._source >= 0 and not self._waiting:
            found.append((self._source, select.POLLIN))
        if self._target >= 0:
            found.append((self._target, select.POLLOUT if self._waiting else 0))
        return found

    def step(self, ready: Mapping[int, int]) -> None:
        """Move what can be moved without waiting; what nobody listens to any more is dropped."""
        if ready.get(self._target, 0) & GONE:
            self._target = _closed(self._target)
            self._waiting = b""
        if self._waiting and ready.get(self._target, 0):
            self._write()
        if not self._waiting and ready.get(self._source, 0):
            self._waiting = os.read(self._source, CHUNK_BYTES)
            if not self._waiting:
                self._source = _closed(self._source)
                self._target = _closed(self._target)
                return
            self.said_bytes += len(self._waiting)
            os.write(self._record, self._waiting)
            self._write()

    def _write(self) -> None:
        if self._target < 0:
            self._waiting = b""
            return
        with contextlib.suppress(BlockingIOError):
            try:
                self._waiting = self._waiting[os.write(self._target, self._waiting) :]
            except BrokenPipeError:
                self._target = _closed(self._target)
                self._waiting = b""

    @property
    def is_closed(self) -> bool:
        """True once nobody can say anything any more and all that was said has been read."""
        return self._source < 0

    def close(self) -> None:
        """Close the ends of this process."""
        self._source, self._target = _closed(self._source), _closed(self._target)


def _closed(descriptor: int) -> int:
    """Close a descriptor, where it is one, and return -1."""
    if descriptor >= 0:
        os.close(descriptor)
    return -1


class Side:
    """One of the two programs of a conversation, from its start to its end.

    Attributes:
      limits: what it may use.
      spoken: what it says.
      killed_for: the limit that it exceeded, as `RunWatch.ended_for` names it, or "output".
      ended: how it ended; None while it runs, and where the kernel killed its zygote for want of memory.
      ended_at_s: `time.monotonic` at its end.
    """

    def __init__(self, holder: held.Holder, limits: dict) -> None:
        """Prepare the run of a program that a holder has made ready; nothing starts before `start`."""
        assert holder.zygote is not None
        self.limits = limits
        self._holder = holder
        self._zygote = holder.zygote
        self._record, self._errors = os.memfd_create("output"), os.memfd_create("errors")
        self._started, self._mark = os.pipe()
        self.spoken = Relay(self._record)
        self._spare: list[int] = []
        self.killed_for = ""
        self._is_ending = False
        self.ended: zygote.Ended | None = None
        self.ended_at_s = 0.0

    def start(self, listened: "Relay", files: int, *, given_s: containment.Given) -> None:
        """Start the program.

        Args:
          listened: what it listens to.
          files: an open file for `languages.unpack_files`; -1 for none.
          given_s: what others' work adds to its wall limit.
        """
        holder, meter = self._holder, self._holder.meter
        self._bytes_before, self._kills_before = holder.bounds.impose(self.limits)
        self.watch = containment.RunWatch(
            self._zygote, self.limits, group=holder.home.group, meter=meter, given_s=given_s
        )
        self._spare = [listened.exit, self.spoken.entry]
        streams = (listened.exit, self.spoken.entry, self._errors, self._mark, files)
        self._zygote.start(streams, self.limits, is_piped=True)

    @property
    def is_over(self) -> bool:
        """True once it has ended."""
        return self.ended_at_s > 0

    @property
    def has_left(self) -> bool:
        """True once it has ended, is being ended, or has closed its output, which comes before the news of an end."""
        return self.is_over or self.killed_for != "" or self.spoken.is_closed

    def interests(self) -> list[tuple[int, int]]:
        """Return the descriptors to poll: for its end, and for its beginning as long as that has not been seen."""
        found = [] if self.is_over else [(self._zygote.answers, select.POLLIN)]
        return [*found, (self._started, select.POLLIN)] if self._spare else found

    def step(self, ready: Mapping[int, int]) -> None:
        """Note its beginning and its end."""
        if not self.is_over and ready.get(self._zygote.answers, 0):
            self._end()
        # Once it has its streams, this process keeps no copy: their other ends have to notice when it goes.
        if self.is_over or ready.get(self._started, 0):
            while self._spare:
                os.close(self._spare.pop())

    def busy_s(self) -> float:
        """Return how long it has computed and waited for the core so far."""
        return self.watch.busy_s()

    def check(self) -> None:
        """End it where it exceeds a limit."""
        if self.has_been_ended:
            return
        said_too_much = self.spoken.said_bytes > self.limits["output_bytes"]
        if limit := "output" if said_too_much else self.watch.exceeded():
            self.end(limit)

    @property
    def has_been_ended(self) -> bool:
        """True once it has ended or is being ended."""
        return self.is_over or self._is_ending

    def end(self, limit: str) -> None:
        """End it, for the limit that it exceeded, or for none."""
        self.killed_for, self._is_ending = limit, True
        self.watch.kill()

    def _end(self) -> None:
        self.ended_at_s = time.monotonic()
        try:
            self.ended = self._zygote.ended()
        except zygote.Lost:
            if self._holder.bounds.kills == self._kills_before:
                raise
            self._holder.prepare_again()
            return
        self.ended_at_s = self.ended.at_s
        if not self._zygote.is_isolated:
            self._holder.end_stragglers()

    def report(self) -> dict:
        """Say how it ended and what it used, as `Holder.execute` does; its seconds are those of the processor."""
        if self.ended is None:
            return dict(held.OUT_OF_MEMORY)
        bounds = self._holder.bounds
        start = clocks.start_of(self._started, default=self.watch.forked)
        cpu_s = max(0.0, self.ended.used_s - start.used_s)
        return {
            "exit": os.waitstatus_to_exitcode(self.ended.status),
            "at_s": start.at_s,
            "waited_s": 0.0,
            "killed_for": self.killed_for,
            "oom_killed": bounds.kills > self._kills_before,
            "wall_s": cpu_s,
            "cpu_s": cpu_s,
            "elapsed_s": self.ended_at_s - start.at_s,
            "peak_memory_bytes": max(self.ended.peak_memory_kib * 1024, bounds.peak_bytes - self._bytes_before),
            "output_bytes": self.spoken.said_bytes,
            "errors": held.end_of(self._errors),
        }

    def said(self) -> bytes:
        """Return what it has said, cut one byte beyond its limit."""
        return os.pread(self._record, min(self.spoken.said_bytes, int(self.limits["output_bytes"]) + 1), 0)

    def close(self) -> None:
        """Close everything that was opened for this run."""
        self.spoken.close()
        for descriptor in (*self._spare, self._record, self._errors, self._started, self._mark):
            os.close(descriptor)


def converse(program: held.Holder, interactor: held.Holder, request: dict, *, files: int) -> tuple[dict, bytes]:
    """Let the program under test and the interactor talk until both have ended.

    Args:
      program: holds the program under test.
      interactor: holds the interactor.
      request: `limits` of the program, `interactor_limits`, and `accepting`: the exit statuses of the interactor after
        which the program may go on to its end. After any other it is ended at once.
      files: an open file with what the interactor is to read, see `languages.unpack_files`. It is emptied, and then
        holds what the interactor writes into its own output file.

    Returns:
      The program's report, with that of the interactor as `interactor`, and what the program said. `is_first` of the
      interactor tells whether it left before the program did.

    Raises:
      EOFError: whoever asked for the run was gone before it ended.
      zygote.Lost: a zygote ended, and not because memory ran out.
    """
    tested, partner = Side(program, request["limits"]), Side(interactor, request["interactor_limits"])
    try:
        containment.take_precedence()
        relayed_from_s = _own_busy_s()
        partner.start(tested.spoken, files, given_s=lambda: 0.0)
        most_s = (containment.MOST_EXTENSION - 1) * (tested.limits["wall_s"] + partner.limits["wall_s"])
        tested.start(partner.spoken, -1, given_s=lambda: min(most_s, partner.busy_s() + _own_busy_s() - relayed_from_s))
        is_first = _follow(tested, partner, request["accepting"], control=program.control)
        return tested.report() | {"interactor": partner.report() | {"is_first": is_first}}, tested.said()
    finally:
        tested.close()
        partner.close()


def _own_busy_s() -> float:
    """Return how long this process ran and waited for the core."""
    return time.process_time() + clocks.schedule_of("self").waited_s


def _follow(tested: Side, partner: Side, accepting: list[int], *, control: int | None) -> bool:
    """Relay and watch until both have ended; return whether the interactor left first, or made us end the program."""
    looked_at_s, first, was_ended = time.monotonic(), None, False
    while not (tested.is_over and partner.is_over):
        _step(tested, partner)
        first = first or next((side for side in (tested, partner) if side.has_left), None)
        is_due = partner.is_over and not tested.has_been_ended and _is_turned_down(partner, accepting)
        # A program that left first may be about to show itself how it ended.
        if is_due and (first is partner or time.monotonic() > partner.ended_at_s + LAST_WORDS_S):
            was_ended = True
            tested.end("")
        if time.monotonic() - looked_at_s < containment.POLL_S:
            continue
        looked_at_s = time.monotonic()
        if control is not None and containment.is_hung_up(control):
            raise EOFError("whoever asked for this run is gone")
        if not tested.is_over:
            partner.watch.postpone()
        tested.check()
        partner.check()
    return was_ended or first is partner


def _step(tested: Side, partner: Side) -> None:
    """Wait until something happens, at most POLL_S, and let every part deal with it."""
    parts, poll = (tested.spoken, partner.spoken, tested, partner), select.poll()
    for part in parts:
        for descriptor, events in part.interests():
            poll.register(descriptor, events)
    ready = dict(poll.poll(containment.POLL_S * 1e3))
    for part in parts:
        part.step(ready)


def _is_turned_down(partner: Side, accepting: list[int]) -> bool:
    """Tell whether an interactor that is over did not accept the program, or did not come to say so."""
    return partner.ended is None or os.waitstatus_to_exitcode(partner.ended.status) not in accepting
