"""Draws the picture of the data flow, `docs/data_flow.svg`: `python docs/draw_data_flow.py`.

Boxes are modules or folders, coloured by the package they belong to; what travels between them stands on the arrows.
"""

import pathlib
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 1120, 600
BOX_WIDTH, BOX_HEIGHT = 188, 62
COLUMNS = tuple(20 + index * 223 for index in range(5))
ROWS = (60, 220, 380, 500)
FILLS = {"beam_pipelines": "#dce9f7", "sandbox": "#f8e3cf", "optimrl_jax": "#e2f0dc", "data": "#f1f1f1"}
STROKES = {"beam_pipelines": "#3b6ea5", "sandbox": "#b8692a", "optimrl_jax": "#4f8a3c", "data": "#777777"}

# Name: column, row, package, title, what it does.
BOXES = {
    "problems": (0, 0, "data", "raw problems", "statements, programs, tests"),
    "pipelines": (1, 0, "beam_pipelines", "beam_pipelines", "13 stages, any Beam runner"),
    "dataset": (3, 0, "data", "DMC-Optim", "tests, references, seconds"),
    "prompts": (4, 0, "optimrl_jax", "data", "prompts, tokens, packing"),
    "sandbox": (2, 1, "sandbox", "sandbox", "times untrusted programs"),
    "rollout": (4, 1, "optimrl_jax", "rollout", "samples, runs, judges"),
    "environment": (2, 2, "optimrl_jax", "environment", "filter, limit, rank"),
    "rewards": (3, 2, "optimrl_jax", "rewards", "(c, g, q) to one number"),
    "grpo": (4, 2, "optimrl_jax", "grpo + training", "advantage, loss, update"),
    "simulator": (1, 3, "optimrl_jax", "simulator", "all environments, offline"),
    "evaluation": (3, 3, "optimrl_jax", "evaluation", "pass@k at p100 ... p10"),
}
# From, side, to, side, label.
ARROWS = (
    ("problems", "right", "pipelines", "left", ""),
    ("pipelines", "right", "dataset", "left", "filtered and timed"),
    ("dataset", "right", "prompts", "left", ""),
    ("prompts", "bottom", "rollout", "top", "prompts"),
    ("pipelines", "bottom", "sandbox", "left", "programs"),
    ("rollout", "left", "sandbox", "right", "sampled programs"),
    ("sandbox", "bottom", "environment", "top", "status, seconds"),
    ("environment", "right", "rewards", "left", ""),
    ("rewards", "right", "grpo", "left", ""),
    ("grpo", "top", "rollout", "bottom", "weights"),
    ("environment", "bottom", "simulator", "right", "the same functions"),
    ("environment", "bottom", "evaluation", "left", "stored executions"),
)


def main() -> None:
    pathlib.Path(__file__).with_name("data_flow.svg").write_text(picture())


def picture() -> str:
    """The whole picture as SVG text."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#444444"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        *(_arrow(*arrow) for arrow in ARROWS),
        *(_box(*box) for box in BOXES.values()),
        *_legend(),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _box(column: int, row: int, package: str, title: str, text: str) -> str:
    x, y = COLUMNS[column], ROWS[row]
    middle = x + BOX_WIDTH / 2
    shape = f'rx="8" fill="{FILLS[package]}" stroke="{STROKES[package]}" stroke-width="1.5"'
    return (
        f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" {shape}/>'
        + _text(middle, y + 26, title, size=15, weight="bold")
        + _text(middle, y + 46, text, size=12)
    )


def _arrow(start: str, start_side: str, end: str, end_side: str, label: str) -> str:
    (x0, y0), (x1, y1) = _port(start, start_side), _port(end, end_side)
    # An arrow that leaves downwards and arrives at a side turns once.
    points = [(x0, y0), (x0, y1), (x1, y1)] if start_side == "bottom" and end_side != "top" else [(x0, y0), (x1, y1)]
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    line = f'<polyline points="{path}" fill="none" stroke="#444444" stroke-width="1.5" marker-end="url(#head)"/>'
    if not label:
        return line
    if x0 == x1:
        return line + _text(x0 + 8, (y0 + y1) / 2 + 4, label, size=12, anchor="start")
    return line + _text((x0 + x1) / 2, y1 - 7, label, size=12)


def _port(name: str, side: str) -> tuple[float, float]:
    column, row, *_ = BOXES[name]
    x, y = COLUMNS[column], ROWS[row]
    across = {"left": 0.0, "right": BOX_WIDTH}.get(side, BOX_WIDTH / 2)
    down = {"top": 0.0, "bottom": BOX_HEIGHT}.get(side, BOX_HEIGHT / 2)
    return x + across, y + down


def _legend() -> list[str]:
    parts = [_text(COLUMNS[0], 30, "From a problem to a faster policy", size=17, weight="bold", anchor="start")]
    for index, (package, fill) in enumerate(FILLS.items()):
        x = 470 + index * 165
        parts.append(f'<rect x="{x}" y="18" width="14" height="14" fill="{fill}" stroke="{STROKES[package]}"/>')
        parts.append(_text(x + 20, 30, package, size=13, anchor="start"))
    return parts


def _text(x: float, y: float, text: str, *, size: int, weight: str = "normal", anchor: str = "middle") -> str:
    style = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="#222222"'
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(text)}</text>'


if __name__ == "__main__":
    main()
