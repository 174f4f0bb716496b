"""Languages beside Python: verdicts of a compiled language, and what an image without it says."""

import dataclasses
import os

import pytest

from sandbox import client
from sandbox.inside import languages
from sandbox.protocol import InvalidRequestError, Limits, RunRequest, Suite, Verdict
from tests.sandbox.engine import require_docker

SUITE = Suite(inputs=("3\n", "4\n"), expected=("6\n", "8\n"))
BODY = "#include <iostream>\n#include <vector>\nint main() { int n; std::cin >> n; %s }\n"
COMPILER = languages.LANGUAGES["cpp"].needs
needs_compiler = pytest.mark.skipif(not os.access(COMPILER, os.X_OK), reason=f"{COMPILER} is not here")


@pytest.fixture(scope="module")
def sandbox():
    with client.connect("local", workers=1) as connected:
        connected.upload(SUITE)
        yield connected


def verdicts(sandbox, program, *, limit_s=1.0, **options):
    request = RunRequest(program, SUITE.sha256, language="cpp", limits=Limits(wall_s=limit_s), **options)
    return [result.verdict for result in sandbox.run(request).results]


@needs_compiler
@pytest.mark.parametrize(
    ("statement", "verdict"),
    [
        ("std::cout << 2 * n << std::endl;", Verdict.SUCCESS),
        ("std::cout << n << std::endl;", Verdict.WRONG_OUTPUT),
        ("return n;", Verdict.RUNTIME_ERROR),
        ("*(volatile int *)nullptr = n;", Verdict.RUNTIME_ERROR),
        ("for (;;) { volatile int k = n; }", Verdict.TIME_LIMIT),
        ("std::cout << m;", Verdict.COMPILE_ERROR),
    ],
)
def test_a_compiled_program_has_its_verdict(sandbox, statement, verdict):
    limit_s = 0.2 if verdict is Verdict.TIME_LIMIT else 1.0
    assert verdicts(sandbox, BODY % statement, limit_s=limit_s, repeats=2) == [verdict] * 2


@needs_compiler
def test_a_program_cannot_change_itself_for_the_next_test(sandbox):
    overwrite = f'FILE *own = fopen("/proc/self/fd/{languages.PROGRAM_DESCRIPTOR}", "r+"); if (own) return 1;'
    program = "#include <cstdio>\n" + BODY % (overwrite + "std::cout << 2 * n << std::endl;")
    assert verdicts(sandbox, program) == [Verdict.SUCCESS] * 2


def test_a_language_that_the_image_lacks_is_the_callers_mistake(sandbox):
    if os.access(languages.LANGUAGES["pypy3"].needs, os.X_OK):
        pytest.skip("this machine has every language")
    with pytest.raises(
        InvalidRequestError, match=r"language = 'pypy3'.*is not in this image; it has python3, python3_f"
    ):
        sandbox.run(RunRequest("print(6)", SUITE.sha256, language="pypy3"))
    assert sandbox.run(RunRequest("print(2 * int(input()))", SUITE.sha256)).results[0].verdict is Verdict.SUCCESS


GREEDY_PYTHON = "x = []\nwhile n: x.append(bytearray(b'x' * (1 << 24)))"
VERDICTS = (
    Verdict.SUCCESS,
    Verdict.RUNTIME_ERROR,
    Verdict.TIME_LIMIT,
    Verdict.COMPILE_ERROR,
    Verdict.MEMORY_LIMIT,
)
# A program in each language that doubles a number, and what makes it fail in each way.
BODIES = {
    "pypy3": ("n = int(input())\n@\nprint(2 * n)", "1 / 0", "while n: pass", "(", GREEDY_PYTHON),
    "c": (
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
        'int main() { int n; scanf("%d", &n); @ printf("%d\\n", 2 * n); }',
        "abort();",
        "for (;;) { volatile int k = n; }",
        "int int;",
        "for (;;) memset(malloc(1 << 24), 1, 1 << 24);",
    ),
    "rust": (
        "use std::io; fn main() { let mut s = String::new(); io::stdin().read_line(&mut s).unwrap();"
        'let n: i64 = s.trim().parse().unwrap(); @ println!("{}", 2 * n); }',
        'if n > 0 { panic!("x"); }',
        "let mut k = n; while k > 0 { k = if k > 5 { 1 } else { k + 1 }; }",
        "let x",
        "let mut v: Vec<Vec<u8>> = vec![]; while n > 0 { v.push(vec![1u8; 1 << 24]); }",
    ),
    "go": (
        'package main\nimport "fmt"\nfunc main() { var n int; fmt.Scan(&n); @; fmt.Println(2 * n) }',
        'panic("x")',
        "for n > 0 { }",
        "x :=",
        "var v [][]byte; for n > 0 { b := make([]byte, 1<<24); for i := range b { b[i] = 1 }; v = append(v, b) }",
    ),
    "java": (
        "import java.util.*; public class Main { public static void main(String[] a) {"
        "int n = new Scanner(System.in).nextInt(); @ System.out.println(2 * n); } }",
        "if (n > 0) throw new RuntimeException();",
        "while (n > 0) { }",
        "int x",
        "List<byte[]> v = new ArrayList<>();"
        "while (n > 0) { byte[] b = new byte[1 << 24]; Arrays.fill(b, (byte) 1); v.add(b); }",
    ),
    "javascript": (
        'const n = parseInt(require("fs").readFileSync(0)); @; console.log(2 * n)',
        "throw 1",
        "while (n > 0);",
        "let let",
        "let v = []; while (n > 0) v.push(Buffer.alloc(1 << 24, 1))",
    ),
}


@pytest.fixture(scope="module")
def container():
    require_docker()
    with client.connect("docker", workers=1) as connected:
        connected.upload(SUITE)
        yield connected


@pytest.mark.docker
@pytest.mark.parametrize("language", BODIES)
def test_every_language_of_the_image_has_its_verdicts(container, language):
    body, *failures = BODIES[language]
    limits = Limits(wall_s=1.0, memory_bytes=256 << 20)
    found = []
    for statement in ("", *failures):
        program = body.replace("@", statement)
        request = RunRequest(program, SUITE.sha256, language=language, limits=limits, tests=(0,))
        try:
            found.append(container.run(request).results[0].verdict)
        except InvalidRequestError as error:
            pytest.skip(str(error))
    assert tuple(found) == VERDICTS


def test_limits_are_multiplied_by_the_factor_of_the_language_where_a_caller_asks_for_it():
    program = "import time\ntime.sleep(0.6)\nprint(6)"
    plain = RunRequest(program, SUITE.sha256, tests=(0,), limits=Limits(wall_s=0.5))
    scaled = dataclasses.replace(plain, scales_limits=True)
    with client.connect("local", workers=1) as connected:
        connected.upload(SUITE)
        late, in_time = connected.run_many([plain, scaled])
    assert late.results[0].verdict is Verdict.TIME_LIMIT
    assert "limits_factor" not in late.measured_under
    assert in_time.results[0].verdict is Verdict.SUCCESS
    assert in_time.measured_under["limits_factor"] == "5"
    assert scaled.limits_of(0) == Limits(wall_s=2.5)
    assert dataclasses.replace(scaled, limits=Limits(wall_s=300.0, cpu_s=2.0)).limits_of(0) == Limits(600.0, cpu_s=10.0)
    assert {languages.LANGUAGES[name].limits_factor for name in ("c", "cpp", "rust")} == {1.0}
