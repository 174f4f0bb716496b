"""Inside the isolation boundary: a process that forks zygotes, and that never saw a request.

A fork copies everything that its parent ever held and did not overwrite. The runner holds programs, inputs and outputs
of everybody: a program forked from it could search its own memory for theirs. So zygotes are forked by a process that
was itself forked before the first request came. It opens what a zygote needs, but reads none of it.
"""

import marshal
import os
import struct

from sandbox.inside import languages, zygote

_PID = struct.Struct("=i")
# Orders are short enough to be written, and so to be read, at once.
MOST_BYTES = 4096


class Spawner:
    """The runner's end of the process that forks zygotes; make it before the first request is read.

    Zygotes become children of the runner, which reaps them: what forks them ends at once, and the runner, as the first
    process of its container or as one that adopts orphans, is next in line.

    Attributes:
      process: number of the process that forks.
      living: this process and its zygotes, which outlive single runs.
    """

    def __init__(self, *homes: zygote.Home) -> None:
        """Fork the process.

        Args:
          homes: where programs run, and as whom.

        Raises:
          zygote.Born: in a zygote, later.
        """
        self._homes = homes
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(self._orders)
            os.close(self._answers)
            self._serve(orders, answers, runner=os.getppid())
        self.living = {self.process}
        os.close(orders)
        os.close(answers)

    def fork_zygote(
        self, language: str, role: str, program: languages.Prepared, *, home: zygote.Home, is_isolated: bool
    ) -> zygote.Zygote:
        """Fork a zygote and wait until it is ready.

        Args:
          language: a key of `languages.LANGUAGES`.
          role: what its children become: "become" (the program) or "tool" (what reads it first).
          program: what they are given.
          home: one of those that this was made for.
          is_isolated: whether each of them gets a world of its own.

        Raises:
          zygote.Lost: it ended before it was ready, or the process that forks has ended.
        """
        commands, to_zygote = os.pipe()
        from_zygote, answers = os.pipe()
        content = languages.in_memory("content", marshal.dumps(tuple(program)))
        order = (language, role, self._homes.index(home), is_isolated, commands, answers, content)
        try:
            os.write(self._orders, marshal.dumps(order))
            answer = os.read(self._answers, _PID.size)
        except BrokenPipeError:
            answer = b""
        finally:
            for descriptor in (commands, answers, content):
                os.close(descriptor)
        if not answer:
            raise zygote.Lost("the process that forks zygotes has ended")
        (process,) = _PID.unpack(answer)
        self.living.add(process)
        return zygote.Zygote(process, to_zygote, from_zygote, is_isolated=is_isolated)

    def close_zygote(self, ended: zygote.Zygote) -> None:
        """Let a zygote end, once its child has, and reap it."""
        ended.close()
        self.living.discard(ended.process)

    def close(self) -> None:
        """Let the process end, and reap it."""
        os.close(self._orders)
        os.close(self._answers)
        os.waitpid(self.process, 0)

    def _serve(self, orders: int, answers: int, *, runner: int) -> None:
        """Fork a zygote for each order, until there are no more; then exit.

        Its number is told once the process between has ended: only then is the zygote a child of the runner's, to be
        reaped by it.
        """
        number, to_number = os.pipe()
        while order := os.read(orders, MOST_BYTES):
            language, role, home, is_isolated, *descriptors = marshal.loads(order)
            modes = (os.O_RDONLY, os.O_WRONLY, os.O_RDONLY)
            pairs = zip(descriptors, modes, strict=True)
            opened = [os.open(f"/proc/{runner}/fd/{descriptor}", mode) for descriptor, mode in pairs]
            child = os.fork()
            if child == 0:
                forked = os.fork()
                if forked == 0:
                    os.close(number)
                    os.close(to_number)
                    become = getattr(languages.LANGUAGES[language], role)
                    own = self._homes[home]._replace(is_isolated=is_isolated)
                    raise zygote.Born(zygote.Nursery(become, own, streams=opened, runner=runner))
                os.write(to_number, _PID.pack(forked))
                os._exit(0)
            os.waitpid(child, 0)
            os.write(answers, os.read(number, _PID.size))
            for descriptor in opened:
                os.close(descriptor)
        os._exit(0)
