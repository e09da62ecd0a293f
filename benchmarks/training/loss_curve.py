"""The loss curve of a training run as a picture, from its log: python benchmarks/training/loss_curve.py LOG OUT.svg"""

import csv
import math
import sys
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 860, 420, 64, 24, 190, 48
COLORS = ("#0b7285", "#b4530b", "#6741d9", "#2b8a3e", "#a61e4d")


def read(path: Path) -> dict[str, list[tuple[int, float]]]:
    """{curve: [(step, nats a token)]}: the smoothed training loss, and each held-out set."""
    smooth: list[tuple[int, float]] = []
    held_out: dict[str, list[tuple[int, float]]] = {}
    mean, before = None, 0
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["held_out"]:
                held_out.setdefault(row["held_out"], []).append((int(row["step"]), float(row["held_out_loss"])))
            else:
                step, loss = int(row["step"]), float(row["loss"])
                kept = 0.995 ** (step - before)  # by steps, however thin the log is
                mean, before = loss if mean is None else kept * mean + (1 - kept) * loss, step
                smooth.append((step, mean))
    return {"training (smoothed)": smooth[:: max(1, len(smooth) // 400)], **held_out}


def draw(curves: dict[str, list[tuple[int, float]]]) -> str:
    """The picture: step across, loss up, a name beside the end of each curve."""
    last = max(step for points in curves.values() for step, _ in points)
    low, high = math.floor(min(loss for points in curves.values() for _, loss in points)), 7

    def place(step: float, loss: float) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - RIGHT) * step / last
        share = (min(max(loss, low), high) - low) / (high - low)
        return x, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    ]
    for loss in range(low, high + 1):
        (x0, y), (x1, _) = place(0, loss), place(last, loss)
        parts.append(
            f'<path d="M{x0} {y}H{x1}" stroke="#dde1e9"/><text x="{x0 - 8}" y="{y + 4}" text-anchor="end">{loss}</text>'
        )
    for step in range(0, last + 1, 500 if last < 5000 else 1000):
        x, y = place(step, low)
        parts.append(f'<text x="{x}" y="{y + 18}" text-anchor="middle">{step}</text>')
    x, y = place(last / 2, low)
    parts.append(
        f'<text x="{x}" y="{y + 38}" text-anchor="middle">step</text>'
        f'<text transform="translate(18 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">loss (nats a token)'
        "</text>"
    )
    taken: list[float] = []
    colored = zip((*COLORS, "#444444"), curves.items(), strict=False)
    # From the top down, so that names that make room for each other keep the order of their curves.
    for color, (name, points) in sorted(colored, key=lambda each: -each[1][1][-1][1]):
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
        x, y = place(*points[-1])
        while any(abs(y - other) < 14 for other in taken):
            y += 1
        taken.append(y)
        parts.append(
            f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.6"/>'
            f'<text x="{x + 8}" y="{y + 4}" fill="{color}">{name} {points[-1][1]:.2f}</text>'
        )
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(draw(read(Path(sys.argv[1]))), encoding="utf-8")
