"""A small original problem that is interactive and takes two passes: its interactor, and parts of programs for it."""

# The first pass asks for the bits of a number and leaves a note, which may not be the number itself; the second, which
# sees the note alone, has to find the number again.
INTERACTOR = """
import os, sys
order, number = open(sys.argv[1]).read().split()
folder = sys.argv[3]
assert not os.path.exists(folder + "nextpass.in")
def turn_down(why):
    open(folder + "judgemessage.txt", "a").write(f"{order}: {why}")
    sys.exit(43)
print(order, flush=True)
said = ["?", "0"]
while said[0] == "?":
    said = sys.stdin.readline().split()
    if len(said) != 2 or said[0] not in ("?", "!"):
        turn_down("expected ? or ! and a number")
    if said[0] == "?":
        print(number if order == "find" else int(number) >> int(said[1]) & 1, flush=True)
if order == "hide":
    if said[1] == number:
        turn_down("that is the number")
    open(folder + ".number", "w").write(number)
    open(folder + "nextpass.in", "w").write("find " + said[1])
elif said[1] != open(folder + ".number").read():
    turn_down("that is another number")
sys.exit(42)
"""
START = """
def ask(n):
    print("?", n, flush=True)
    return int(input())
order = input()
"""
HIDE = "print('!', 2 * sum(ask(bit) << bit for bit in range(7)) + 1, flush=True)"
FIND = "print('!', ask(0) // 2, flush=True)"


def program_of(at_first, later):
    """A program that does one thing in the first pass and another in the second."""
    return f"{START}if order == 'hide':\n    {at_first}\nelse:\n    {later}\n"


RIGHT = program_of(HIDE, FIND)
