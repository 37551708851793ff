"""Draw the pictures of docs/what-to-promise.md as SVG: one for each kind of promise.

    python docs/promise_drawings.py

Values and certainty are computed by scurry on real models. The other pictures show numbers that the page states.
"""

import numpy as np
from drawings import BLUE, FOLDER, GREEN, GREY, INK, ORANGE, PALE, Drawing
from sklearn.datasets import load_breast_cancer, make_friedman1
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier

import scurry


def rows_of_two_classes(name: str, title: str, heading: str, n_rare: int, n_other: int) -> None:
    """Draw a thousand rows, twenty of them of a rare class, and those whose labels change."""
    drawing = Drawing(780, 300, title)
    columns, size, x0, y0 = 50, 13, 65, 60
    drawing.text(x0, 36, heading, INK, "start", 15, "bold")
    rng = np.random.default_rng(3)
    changed = {*range(n_rare), *(20 + rng.choice(980, n_other, replace=False)).tolist()}
    for row in range(1000):
        x, y = x0 + row % columns * size, y0 + row // columns * 9
        base = "#f0c9ad" if row < 20 else PALE
        drawing.parts.append(f'<rect x="{x}" y="{y}" width="{size - 2}" height="7" fill="{base}"/>')
        if row in changed:
            drawing.parts.append(f'<rect x="{x}" y="{y}" width="{size - 2}" height="7" fill="{ORANGE}"/>')
    lost = f"{n_rare} of 20 rows of the rare class change" if n_rare else "None of 20 rows of the rare class changes"
    drawing.text(x0, 262, f"{lost}, and {n_other} of 980 others.", INK, "start")
    drawing.box(x0, 274, 12, 8, "#f0c9ad", "none")
    drawing.text(x0 + 18, 282, "rare class", GREY, "start", 12)
    drawing.box(x0 + 110, 274, 12, 8, ORANGE, "none")
    drawing.text(x0 + 128, 282, "another label than the model's", GREY, "start", 12)
    drawing.save(name)


def accuracy() -> None:
    """Draw losses and gains of accuracy, and what is left of them."""
    drawing = Drawing(780, 220, "Rows that become wrong, rows that become right, and the difference")
    x0, scale = 230, 6.5
    for y, words, start, length, color in (
        (50, "become wrong", 0, 60, ORANGE),
        (95, "become right", 15, 45, GREEN),
        (140, "accuracy falls by", 0, 15, INK),
    ):
        drawing.text(x0 - 14, y + 17, words, INK, "end")
        drawing.box(x0 + scale * start, y, scale * length, 24, color, "none")
        shown = f"{length} of 10,000 rows" if y < 140 else "0.15 points"
        drawing.text(x0 + scale * (start + length) + 10, y + 17, shown, GREY, "start", 13)
    drawing.line([(x0 + scale * 30, 36), (x0 + scale * 30, 176)], BLUE, 2, "5 4")
    drawing.text(x0 + scale * 30, 196, "promised: at most 0.3 points", BLUE, size=13)
    drawing.text(x0, 24, "105 labels change, but most changes make up for each other", INK, "start", 15, "bold")
    drawing.save("promise-accuracy")


def values() -> None:
    """Draw how far values of an early exit lie from the full model's."""
    X, y = make_friedman1(24_000, noise=1.0, random_state=0)
    model = GradientBoostingRegressor(n_estimators=200, max_depth=4, random_state=0).fit(X[:6000], y[:6000])
    rmse = float(np.sqrt(np.mean((model.predict(X[6000:12000]) - y[6000:12000]) ** 2)))
    most = round(rmse / 4, 2)
    fast = scurry.early_exit(model, X[6000:16000], X_fit=X[:6000], promise=scurry.promises.Values(most), random_state=0)
    run = fast.run(X[16000:])
    error = run.labels - model.predict(X[16000:])
    outside = float((np.abs(error) > most).mean())
    drawing = Drawing(780, 330, "How far the values of an early exit lie from the full model's")
    edges = np.linspace(-2 * most, 2 * most, 81)
    counts = np.histogram(error[~run.complete], edges)[0]
    x0, dx, y0, dy = 70, 8, 250, 180 / counts.max()
    for at, count in enumerate(counts):
        inside = -most <= (edges[at] + edges[at + 1]) / 2 <= most
        drawing.parts.append(
            f'<rect x="{x0 + dx * at:.1f}" y="{y0 - dy * count:.1f}" width="{dx - 1}" height="{dy * count:.1f}" '
            f'fill="{BLUE if inside else ORANGE}"/>'
        )
    drawing.line([(x0 - 6, y0), (x0 + 80 * dx + 6, y0)], GREY, 1)
    for value in (-most, 0, most):
        x = x0 + dx * 20 * (value / most + 2)
        if value:
            drawing.line([(x, 54), (x, y0)], INK, 1.5, "5 4")
        drawing.text(x, y0 + 20, f"{value:+.2g}" if value else "0", GREY, size=13)
    drawing.text(390, y0 + 42, "value of an early exit minus value of all trees, of rows that stopped", INK, size=13)
    heading = f"{run.mean_trees:.0f} of 200 trees per row; {100 * outside:.1f} % of values differ by more than {most:g}"
    drawing.text(x0, 34, heading, INK, "start", 15, "bold")
    drawing.text(390, 316, f"Simulated rows (Friedman); the model's own error (RMSE) is {rmse:.2f}.", GREY, size=13)
    drawing.save("promise-values")


def ranks() -> None:
    """Draw documents of a query that leave once they cannot be among the best three."""
    drawing = Drawing(780, 360, "Documents of a query leave at sentinels")
    sigma = np.array([1.0, 0.62, 0.4, 0.22, 0.0])
    rng = np.random.default_rng(11)
    final = np.sort(rng.normal(0, 1.2, 12))[::-1]
    seen = final[:, None] + rng.normal(size=(12, 5)) * sigma * 0.6
    alive = np.ones(12, bool)
    x0, dx, y0, dy = 90, 140, 190, 52
    left_at = np.full(12, 4)
    for j in range(4):
        third = np.sort(seen[alive, j])[-3]
        leaves = alive & (seen[:, j] < third - 1.6 * sigma[j])
        left_at[leaves] = j
        alive &= ~leaves
        y = y0 - dy * (third - 1.6 * sigma[j])
        drawing.line([(x0 + dx * j - 34, y), (x0 + dx * j + 34, y)], ORANGE, 2.5)
    for document in range(12):
        points = [(x0 + dx * j, y0 - dy * seen[document, j]) for j in range(left_at[document] + 1)]
        color = BLUE if document < 3 else GREY
        drawing.line(points, color, 1.6, opacity=0.8)
        drawing.circle(*points[-1], 5, color if left_at[document] == 4 else ORANGE, "#ffffff")
    for j, words in enumerate(["10 %", "25 %", "45 %", "70 %", "all trees"]):
        drawing.text(x0 + dx * j, 332, words, GREY, size=13)
    n_left = int((left_at < 4).sum())
    heading = f"{n_left} of 12 documents leave early; the best three are the model's"
    drawing.text(40, 30, heading, INK, "start", 15, "bold")
    drawing.text(
        390,
        352,
        "A document below the orange line is too far behind the third best and leaves. Simulated.",
        GREY,
        size=13,
    )
    drawing.save("promise-ranks")


def certain() -> None:
    """Draw the running vote of one row, and the least and most it can still become."""
    X, y = load_breast_cancer(return_X_y=True)
    model = RandomForestClassifier(100, max_depth=4, random_state=0).fit(X[:300], y[:300])
    votes = np.array([tree.predict(X[300:]) for tree in model.estimators_]).T
    running = votes.cumsum(axis=1)
    done = np.arange(1, 101)
    stop = np.argmax((running > 50) | (running + 100 - done <= 50), axis=1) + 1
    row = int(np.argsort(np.abs(stop - 62))[0])
    drawing = Drawing(780, 340, "A vote that is settled before all trees have voted")
    x0, dx, y0, dy = 80, 6.4, 290, 2.4
    n = int(stop[row])
    least = [(x0, y0), *((x0 + dx * r, y0 - dy * running[row, r - 1]) for r in range(1, n + 1))]
    most = [(x0, y0 - dy * 100), *((x0 + dx * r, y0 - dy * (running[row, r - 1] + 100 - r)) for r in range(1, n + 1))]
    drawing.area([*least, *reversed(most)], PALE, 0.7)
    drawing.line(least, BLUE, 2.2)
    drawing.line(most, ORANGE, 2.2)
    drawing.line([(x0, y0 - dy * 50), (x0 + dx * 100, y0 - dy * 50)], GREY, 1.5, "5 4")
    drawing.text(x0 + dx * 100, y0 - dy * 50 - 8, "half of the votes", GREY, "end", 13)
    drawing.line([(x0 + dx * n, y0), (x0 + dx * n, y0 - dy * 100)], GREEN, 1.8)
    drawing.text(x0 + dx * n + 8, y0 - 10, f"settled after {n} of 100 trees", GREEN, "start", 13)
    drawing.text(x0 + dx * n + 8, most[-1][1] + 4, "the most it can become", ORANGE, "start", 13)
    drawing.text(x0 + dx * n + 8, least[-1][1] + 20, "the least it can become", BLUE, "start", 13)
    for tree in range(0, 101, 20):
        drawing.text(x0 + dx * tree, y0 + 19, tree, GREY, size=12)
    drawing.text(x0 + dx * 50, y0 + 40, "trees evaluated", INK, size=13)
    drawing.text(40, 26, "votes for “benign” of one row", INK, "start", 15, "bold")
    drawing.save("promise-certain")


def main() -> None:
    """Draw all pictures."""
    FOLDER.mkdir(exist_ok=True)
    heading = "Labels(0.005): five of a thousand labels may change, whichever they are"
    rows_of_two_classes("promise-labels", "A promise about all labels, spent on a rare class", heading, 5, 0)
    heading = "LabelsPerClass({rare: 0.02, other: 0.002}): each class has its own limit"
    rows_of_two_classes("promise-class", "A promise about each class", heading, 0, 2)
    accuracy()
    values()
    ranks()
    certain()


if __name__ == "__main__":
    main()
