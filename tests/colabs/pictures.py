"""Draws a figure of each notebook, as a reader gets it: `python -m tests.colabs.pictures [NAME ...]`.

`OPTIMRL_QUICKSTART`, `OPTIMRL_RECORDS`, `OPTIMRL_CAMPAIGN` and `DMC_OPTIM` in the environment name what they show.
"""

import base64
import io
import pathlib
import sys
import tempfile
from collections.abc import Sequence

import nbformat
from PIL import Image

from tests.colabs.reader import ROOT, Reader

PICTURES = ROOT / "colabs" / "pictures"
# Which figure of each notebook, in order of appearance.
SHOWN = {
    "calibration": 0,
    "dataset": 0,
    "evaluation": 2,
    "noise_study": 0,
    "quickstart": 0,
    "reward_shapes": 1,
    "simulator": 0,
}
WIDTH, COLOURS = 400, 64


def main(names: Sequence[str]) -> None:
    """Draw the pictures of these notebooks; of all of them where none is named."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        reader = Reader(pathlib.Path(directory))
        for name in names or SHOWN:
            book = reader.run(name, timeout_s=1200)
            shrink(figures_of(book)[SHOWN[name]]).save(PICTURES / f"{name}.png", optimize=True)


def figures_of(book: nbformat.NotebookNode) -> list[bytes]:
    """Collect the PNG figures of an executed notebook, in order."""
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    return [base64.b64decode(o["data"]["image/png"]) for o in outputs if "image/png" in o.get("data", {})]


def shrink(png: bytes) -> Image.Image:
    """Make a figure small enough to be read beside a line of text and to lie in a repository."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    small = image.resize((WIDTH, image.height * WIDTH // image.width), Image.Resampling.LANCZOS)
    return small.quantize(COLOURS)


if __name__ == "__main__":
    main(sys.argv[1:])
