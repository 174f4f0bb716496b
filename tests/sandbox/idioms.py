"""Programs that touch what lies around a program: streams, the end, exits, errors, the environment, depth, encodings.

Each is run as `python program.py` would run it and by the fast path; every byte written and the exit status must agree.
The programs stand in the files of the folder `idiom_programs`, one for each theme, parted by lines of three hyphens.
"""

import pathlib
import textwrap

INPUT = "3\n1 2 3\nwörld\r\nlast line without end"
FOLDER = pathlib.Path(__file__).with_name("idiom_programs")
THEMES = ("ends", "threads", "exits", "places", "texts")


def _programs_of(theme: str) -> list[str]:
    parts = (FOLDER / f"{theme}.txt").read_text(encoding="utf-8").split("\n---\n")
    return [textwrap.dedent(part).strip("\n") + "\n" for part in parts]


IDIOMS = [program for theme in THEMES for program in _programs_of(theme)]
