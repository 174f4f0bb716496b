"""Programs that touch what lies around a program: streams, the end, exits, errors, the environment, depth, encodings.

Each is run as `python program.py` would run it and by the fast path; every byte written and the exit status must agree.
"""

import itertools
import textwrap

INPUT = "3\n1 2 3\nwörld\r\nlast line without end"

ENDS = """
print(6, end="")
---
import sys; sys.stdout.write("6")
---
open(1, "w").write("6")
---
f = open(1, "w"); f.write("6")
---
f = open("/dev/stdout", "w"); f.write("6")
---
import sys; f = open("/proc/self/fd/1", "a"); f.write("6"); print("x")
---
import io, os; f = io.BufferedWriter(io.FileIO(1, "w")); f.write(b"6")
---
import os; f = os.fdopen(os.dup(1), "w"); f.write("dup"); print("own")
---
import os; f = os.fdopen(1, "wb", closefd=False); f.write(b"6"); print("x")
---
import sys, io; sys.stdout = io.TextIOWrapper(sys.stdout.buffer, write_through=False); print("wrapped")
---
import sys, io; sys.stdout = io.StringIO(); print("lost")
---
import sys, io; old = sys.stdout; sys.stdout = io.StringIO(); print("a"); old.write(sys.stdout.getvalue())
---
import sys, atexit, io; b = io.StringIO(); sys.stdout = b
atexit.register(lambda: sys.__stdout__.write(b.getvalue())); print("kept")
---
import sys; sys.stdout.close()
---
import sys; print(1); sys.stdout.close(); sys.exit(0)
---
import sys; sys.stdout.detach()
---
import sys; b = sys.stdout.detach(); b.write(b"raw")
---
import sys; sys.stdout = None; print("nothing")
---
import sys; del sys.stdout
---
import sys; print(1); del sys.stdout, sys.stderr
---
import os; os.close(1); print(1)
---
import os; print("x", flush=True); os.close(1)
---
import os; os.close(0); os.close(2); print(1)
---
import sys; sys.stdin.close(); print(1)
---
import sys; sys.stdin.close(); input()
---
import os; print("never flushed"); os._exit(3)
---
import os; print("flushed", flush=True); os._exit(0)
---
import atexit; atexit.register(print, "bye"); print("hi")
---
import atexit
for k in range(3): atexit.register(print, k)
---
import atexit
@atexit.register
def f(): raise ValueError("at exit")
print(1)
---
import atexit, sys
atexit.register(lambda: sys.exit(5))
---
import atexit, os
atexit.register(lambda: os._exit(7))
---
import atexit
def f(): atexit.register(print, "again")
atexit.register(f)
---
import atexit; atexit.register(print, "not"); atexit.unregister(print)
---
class A:
    def __del__(self): print("gone")
a = A()
---
class A:
    def __del__(self): print("gone")
a = A(); a.me = a
---
class A:
    def __init__(self, n): self.n = n
    def __del__(self): print("gone", self.n)
a, b, c = A(1), A(2), A(3)
---
class A:
    def __del__(self): print(sorted(k for k in globals() if not k.startswith("__")))
a = A()
---
class A:
    def __del__(self): 1 / 0
a = A()
---
class A:
    def __del__(self): import json; print(json.dumps([1]))
a = A()
---
import weakref
class A: pass
a = A(); weakref.finalize(a, print, "finalized")
---
import weakref
class A: pass
a = A(); r = weakref.ref(a, lambda _: print("ref"))
---
def g():
    try: yield 1
    finally: print("closed")
x = g(); next(x)
---
import builtins
class A:
    def __del__(self): print("from builtins")
builtins.a = A()
---
import sys
class A:
    def __del__(self): print("from sys")
sys.a = A()
---
import collections
class A:
    def __del__(self): print("in a deque")
d = collections.deque([A()]); d.append(d)
---
import functools
class A:
    def __del__(self): print("cached")
@functools.lru_cache
def f(): return A()
f()
---
import __main__
class A:
    def __del__(self): print("main", __main__.__name__)
a = A()
---
import tempfile; f = tempfile.NamedTemporaryFile(); f.write(b"x"); print(len(f.name) > 3)
---
import contextlib
s = contextlib.ExitStack(); s.callback(print, "unwound")
---
import contextlib
with contextlib.ExitStack() as s: s.callback(print, "unwound")
"""

THREADS = """
import threading, time
def f(): time.sleep(0.02); print("late")
threading.Thread(target=f).start(); print("main")
---
import threading, time
threading.Thread(target=time.sleep, args=(9,), daemon=True).start(); print("main")
---
import threading
def f(): raise ValueError("in a thread")
threading.Thread(target=f).start()
---
import threading
def f(): raise SystemExit(4)
threading.Thread(target=f).start(); print(1)
---
import threading
print(threading.main_thread().name, threading.current_thread() is threading.main_thread(), threading.active_count())
---
import threading
t = threading.Timer(0.01, print, ["tick"]); t.start()
---
import concurrent.futures as c
p = c.ThreadPoolExecutor(2); p.submit(print, "pooled")
---
import concurrent.futures as c
with c.ThreadPoolExecutor(2) as p: print(list(p.map(abs, [-1, 2])))
---
import threading, sys
threading.stack_size(1 << 26); sys.setrecursionlimit(50000)
def f(n): return 0 if n == 0 else 1 + f(n - 1)
t = threading.Thread(target=lambda: print(f(20000))); t.start(); t.join()
---
import threading, atexit
atexit.register(print, "exit"); threading.Thread(target=print, args=("thread",)).start()
---
import asyncio
async def main(): await asyncio.sleep(0.001); print("async")
asyncio.run(main())
---
import multiprocessing as m
def f(x): return x * x
if __name__ == "__main__":
    with m.Pool(2) as p: print(p.map(f, [1, 2, 3]))
---
import os
if os.fork() == 0: print("child"); raise SystemExit(0)
os.wait(); print("parent")
---
import os
print("buffered")
if os.fork() == 0: os._exit(0)
os.wait()
---
import os
print("twice")
if os.fork() == 0: raise SystemExit(0)
os.wait()
---
import subprocess, sys
print(subprocess.run([sys.executable, "-c", "print(input())"], input="x", text=True, capture_output=True).stdout)
---
import subprocess
print("a"); subprocess.run(["/bin/echo", "b"])
"""

EXITS = """
raise SystemExit
---
raise SystemExit(0)
---
raise SystemExit(3)
---
raise SystemExit(300)
---
raise SystemExit(-1)
---
raise SystemExit(10**30)
---
raise SystemExit("words")
---
raise SystemExit(None)
---
raise SystemExit(True)
---
raise SystemExit((1, 2))
---
raise SystemExit(1.5)
---
import sys; sys.exit()
---
import sys; sys.exit([1])
---
exit(2)
---
quit()
---
exit
---
raise KeyboardInterrupt
---
import os, signal; os.kill(os.getpid(), signal.SIGINT)
---
import os, signal; os.kill(os.getpid(), signal.SIGTERM)
---
import os; os.abort()
---
import signal; signal.raise_signal(signal.SIGSEGV)
---
1 / 0
---
raise ValueError("words", 3)
---
raise BaseException
---
raise GeneratorExit("x")
---
assert False, "words"
---
def f(): g()
def g(): [][1]
f()
---
try: 1 / 0
except ZeroDivisionError as e: raise KeyError("k") from e
---
try: 1 / 0
except ZeroDivisionError: undefined
---
try: 1 / 0
except ZeroDivisionError: raise ValueError from None
---
raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
---
e = ValueError("noted"); e.add_note("a note"); raise e
---
class E(Exception):
    def __str__(self): 1 / 0
raise E
---
import sys
sys.excepthook = lambda *a: print("hook", a[0].__name__)
1 / 0
---
import sys
def hook(*a): 1 / 0
sys.excepthook = hook
[][1]
---
import sys
def hook(*a): sys.exit(9)
sys.excepthook = hook
[][1]
---
import traceback
try: 1 / 0
except ZeroDivisionError: traceback.print_exc()
---
import traceback
def f(): traceback.print_stack()
f()
---
import sys; print(len(list(__import__("traceback").walk_stack(None))), sys._getframe().f_back)
---
import inspect
def f(): return [frame.function for frame in inspect.stack()]
print(f())
---
import warnings; warnings.warn("careful")
---
import logging; logging.warning("careful"); logging.info("not seen")
---
import sys; print("to stderr", file=sys.stderr); sys.stderr.write("no newline")
---
eval("1 +")
---
exec("def f(:\\n pass")
---
import nothing_of_that_name
---
def f(n): f(n + 1)
f(0)
"""

PLACES = """
print(__name__, __file__, __doc__, __package__, __spec__, __cached__)
---
print(sorted(globals()))
---
print(list(globals()))
---
print(type(__loader__).__name__, __builtins__)
---
import sys; print(sys.argv, sys.path[0])
---
import sys; print(sys.path)
---
import sys; print(sys.modules["__main__"].__dict__ is globals())
---
import __main__; print(__main__.__file__)
---
import os; print(os.getcwd(), sorted(os.listdir()))
---
import os; print(sorted(os.environ))
---
import os, sys; print(os.path.basename(sys.argv[0]), os.path.exists(__file__))
---
print(open(__file__).read()[:10])
---
import sys; print(sys.stdin.encoding, sys.stdout.encoding, sys.stderr.encoding)
---
import sys; print(sys.stdin.errors, sys.stdout.errors, sys.stderr.errors)
---
import sys; print(sys.stdin, sys.stdout, sys.stderr)
---
import sys
print(sys.stdin.fileno(), sys.stdout.fileno(), sys.stdin.isatty(), sys.stdin.seekable(), sys.stdout.line_buffering)
---
import sys; print(sys.stdin.newlines, sys.stdin.buffer, sys.stdin.buffer.raw)
---
import sys; print(sys.__stdin__ is sys.stdin, sys.__stdout__ is sys.stdout)
---
import sys
print(sys.getrecursionlimit(), sys.getswitchinterval(), sys.flags.optimize, sys.dont_write_bytecode)
---
import sys
print(sys.byteorder, sys.maxsize, sys.float_info.max, sys.hash_info.width, sys.int_info.default_max_str_digits)
---
import locale; print(locale.getpreferredencoding(), locale.getlocale())
---
import sys; print(sys.getfilesystemencoding(), sys.getdefaultencoding())
---
import signal; print([signal.getsignal(s) for s in (signal.SIGINT, signal.SIGPIPE, signal.SIGTERM, signal.SIGCHLD)])
---
import gc; print(gc.isenabled(), gc.get_threshold())
---
import resource; print(resource.getrlimit(resource.RLIMIT_STACK), resource.getrlimit(resource.RLIMIT_NOFILE))
---
import os; print(os.getpgrp() == os.getpid(), os.getuid() == os.geteuid(), os.umask(0))
---
import os; print(sorted(os.listdir("/proc/self/fd"))[:3])
---
import time; print(time.tzname, time.localtime(0).tm_hour)
---
print(hash("seeded"), hash(b"x"), hash(1.5), {"b", "a", "c"})
---
import random; random.seed(1); print(random.random(), random.sample(range(9), 3))
---
import pickle
class A: pass
print(pickle.loads(pickle.dumps(A())).__class__ is A)
---
import dataclasses
@dataclasses.dataclass
class A: x: int = 1
print(A(), A.__module__)
---
from __future__ import annotations
x: undefined = 1
print(__annotations__)
---
x: int = 1
print(__annotations__)
---
def f(n): return 0 if n == 0 else 1 + f(n - 1)
print(f(900))
---
import sys
def depth(n):
    try: return depth(n + 1)
    except RecursionError: return n
print(depth(0))
---
import sys
sys.setrecursionlimit(3000)
def f(n): return 0 if n == 0 else 1 + f(n - 1)
print(f(2900))
---
import sys
sys.setrecursionlimit(200000)
def f(n): return 0 if n == 0 else 1 + f(n - 1)
print(f(30000))
---
import json, re
print(json.loads("[" * 500 + "]" * 500) is not None)
---
import doctest; print(doctest.testmod())
---
import unittest
class T(unittest.TestCase):
    def test(self): self.assertEqual(1, 2)
unittest.main()
---
import timeit; print(timeit.timeit("1", number=1) >= 0)
---
import code; print(type(code.InteractiveConsole()).__name__)
---
import sys; sys.setswitchinterval(0.001); print(sys.getswitchinterval())
---
import sys; sys.settrace(lambda *a: None); print(1)
---
import faulthandler; print(faulthandler.is_enabled())
---
help
---
print(help, copyright.__class__, license.__class__.__name__)
"""

TEXTS = """
print(input(), input(), input(), input())
---
while True: print(repr(input()))
---
import sys; print([line for line in sys.stdin])
---
import sys; print(repr(sys.stdin.read()))
---
import sys; print(sys.stdin.buffer.read())
---
import sys; print(sys.stdin.readline(), sys.stdin.buffer.read())
---
import sys; next(sys.stdin); print(input())
---
import sys; print(sys.stdin.readlines(3), sys.stdin.read(2))
---
import sys; sys.stdin.seek(2); print(sys.stdin.read())
---
import sys; input(); print(sys.stdin.tell())
---
import os; print(os.read(0, 4), os.lseek(0, 0, 1), os.fstat(0).st_size)
---
print(open(0).read())
---
print(open(0, newline="").read().encode())
---
import fileinput; print(list(fileinput.input()))
---
import mmap; print(mmap.mmap(0, 0, access=mmap.ACCESS_READ)[:3])
---
import io, os; print(io.BytesIO(os.read(0, os.fstat(0).st_size)).readline())
---
import sys; input = sys.stdin.readline; print(input(), input())
---
print(input("prompt "))
---
import sys; sys.stdin = open("/dev/null"); input()
---
print("\\u00e9\\u4e16\\U0001f600")
---
print("\\ud800")
---
import sys; sys.stdout.buffer.write(b"\\xff\\x00")
---
print("a\\r\\nb\\rc")
---
import sys; sys.stdout.reconfigure(encoding="latin-1"); print("\\u00e9")
---
import sys; sys.stdout.reconfigure(line_buffering=True); print(1); import os; os._exit(0)
---
# -*- coding: latin-1 -*-
print("\\u00e9")
---
print(10 ** 5000)
---
print(int("9" * 5000))
---
import sys; sys.set_int_max_str_digits(0); print(len(str(10 ** 5000)))
---
print(0.1 + 0.2, 1e400, -0.0, 2 ** -1074, 1 / 3)
---
print(round(2.5), -7 // 2, -7 % 3, divmod(-7, 2), 7 .__pow__(-1, 5))
---
print("%.3f" % 2.0005, f"{1e16:,}", f"{3!r:>5}")
---
print(*range(5), sep="\\n", end="!")
---
print("x" * 200000)
---
import sys
for k in range(20000): sys.stdout.write("line\\n")
---
import decimal; print(decimal.Decimal(1) / 3, decimal.getcontext().prec)
---
import math; print(math.factorial(100), math.comb(50, 25), math.isqrt(10 ** 40))
---
import heapq, bisect, itertools, collections
print(heapq.nsmallest(2, [3, 1, 2]), collections.Counter("aab").most_common())
---
import array, struct; print(array.array("i", [1]), struct.pack("<q", 1))
---
import sys; print(sys.getsizeof([]), sys.getsizeof(0), sys.getsizeof(""))
---
a = b = 257; print(a is b, 256 is 256, "ab" is "a" "b")
---
print({}.__class__, type(int), object().__class__, print.__module__, len.__self__)
---
print([*map(str, [1, 2])], {**{"a": 1}}, (lambda *a, **k: (a, k))(1, x=2))
---
match [1, 2]:
    case [a, b]: print(a + b)
---
print((y := 5), y)
---
async def f(): pass
f()
---
import os; os.write(1, b"first "); print("second")
---
import sys; sys.stderr.write("e1\\n"); print("o1"); sys.stderr.write("e2\\n")
---
open("scratch.txt", "w").write("kept"); print(open("scratch.txt").read())
---
import os; os.makedirs("a/b"); os.chdir("a"); print(os.listdir("."))
---
import socket; a, b = socket.socketpair(); a.send(b"x"); print(b.recv(1))
---
import ctypes; print(ctypes.CDLL(None).abs(-3))
---
import sqlite3; print(sqlite3.connect(":memory:").execute("select 1 + 1").fetchone())
---
import zlib, hashlib; print(zlib.crc32(b"x"), hashlib.md5(b"x").hexdigest())
---
import uuid, datetime; print(uuid.UUID(int=1), datetime.date(2020, 1, 1).isoformat())
---
import typing, enum
class C(enum.Enum): A = 1
print(C.A, typing.Optional[int])
---
import string, textwrap, pprint; pprint.pprint({"b": [1] * 40, "a": 2})
---
import platform, sys; print(platform.python_implementation(), sys.version_info[:2])
---
print(
---
  print("indented")
---
\tif 1: pass
---
x = 1;; y = 2
---
return 1
---
print "old"
---
\\u00e9 = 1; print(\\u00e9)
---
nonlocal x
---
yield 1
---
def f(): x = 1; del x; print(x)
f()
---
lambda: (yield)
---
a = "unfinished
---
f"{1 +}"
"""


def _split(text: str) -> list[str]:
    return [textwrap.dedent(part).strip("\n") + "\n" for part in text.split("\n---\n")]


IDIOMS = list(itertools.chain.from_iterable(map(_split, (ENDS, THREADS, EXITS, PLACES, TEXTS))))
