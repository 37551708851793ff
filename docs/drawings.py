"""Draw the pictures of docs/how-it-works.md as SVG: an exit rule, a step order and a pruning.

    python docs/drawings.py

The rules, orders and prunings are computed by scurry. The rows in the first picture are simulated.
"""

from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import scurry

FOLDER = Path(__file__).parent / "pictures"
INK, GREY, PALE, BLUE, ORANGE, GREEN = "#1f2933", "#7b8794", "#e4e7eb", "#1f6fb2", "#c2571a", "#2f855a"


class Drawing:
    """An SVG picture that grows shape by shape."""

    def __init__(self, width: int, height: int, title: str) -> None:
        # A white sheet of its own keeps the picture readable on a dark page.
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
            f'font-family="Helvetica, Arial, DejaVu Sans, sans-serif" font-size="14">',
            f"<title>{title}</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
        ]

    def line(self, points, color=INK, width=1.5, dash="", opacity=1.0) -> None:
        """Add a line through points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}" '
            f'stroke-linejoin="round" opacity="{opacity}"{dashed}/>'
        )

    def area(self, points, color, opacity) -> None:
        """Add a filled area."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polygon points="{path}" fill="{color}" opacity="{opacity}"/>')

    def circle(self, x, y, radius, fill, stroke="none") -> None:
        """Add a circle."""
        self.parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}" stroke="{stroke}" stroke-width="2"/>'
        )

    def box(self, x, y, width, height, fill, stroke=INK, dash="") -> None:
        """Add a rectangle."""
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width}" height="{height}" rx="4" fill="{fill}" '
            f'stroke="{stroke}" stroke-width="1.2"{dashed}/>'
        )

    def text(self, x, y, words, color=INK, anchor="middle", size=14, weight="normal") -> None:
        """Add a line of text."""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}" text-anchor="{anchor}" font-size="{size}" '
            f'font-weight="{weight}">{words}</text>'
        )

    def save(self, name: str) -> None:
        """Write the picture as an SVG file."""
        (FOLDER / f"{name}.svg").write_text("\n".join([*self.parts, "</svg>"]) + "\n", encoding="utf-8")


def exit_rule() -> None:
    """Draw running scores between two thresholds; a row stops where it leaves the space between them."""
    n_trees, x0, y0, dx, dy = 25, 60, 200, 26, 21
    rng = np.random.default_rng(7)
    scores = rng.normal(rng.normal(0, 0.9, size=4000)[:, None], 1.0, size=(4000, n_trees))
    rule = scurry.stopping.qwyc(scores, max_disagreement=0.01, order=np.arange(n_trees))
    upper, lower = (np.clip(limits, -18, 18) for limits in (rule.upper, rule.lower))
    drawing = Drawing(780, 420, "An exit rule: the running score of each row, and the two thresholds at which it stops")

    def at(tree, score):
        return x0 + dx * tree, y0 - dy * score

    top = [at(i, limit) for i, limit in enumerate(upper, start=1)]
    bottom = [at(i, limit) for i, limit in enumerate(lower, start=1)]
    drawing.area([*top, *reversed(bottom)], PALE, 0.6)
    drawing.line(top, BLUE, 2.5)
    drawing.line(bottom, ORANGE, 2.5)
    drawing.line([at(0, 0), at(n_trees + 0.4, 0)], GREY, 1)
    for tree in range(0, n_trees + 1, 5):
        drawing.line([at(tree, -0.2), at(tree, 0.2)], GREY, 1)
        drawing.text(at(tree, 0)[0], y0 + 19, tree, GREY, size=12)
    for strength in (2.6, 1.5, 0.75, 0.32, -0.9, -2.0):
        running = np.concatenate([[0.0], rng.normal(strength, 0.8, n_trees).cumsum()])
        outside = np.flatnonzero((running[1:n_trees] >= upper) | (running[1:n_trees] <= lower))
        stop = int(outside[0]) + 1 if len(outside) else n_trees
        color = BLUE if running[stop] > 0 else ORANGE
        drawing.line([at(i, running[i]) for i in range(stop + 1)], color, 1.6, opacity=0.75)
        x, y = at(stop, running[stop])
        drawing.circle(x, y, 5, color, "#ffffff")
        drawing.text(x, y - 11 if running[stop] > 0 else y + 21, stop, color, size=13, weight="bold")
    drawing.text(60, 30, "running score of a row", INK, "start")
    drawing.text(at(17.5, 0)[0], y0 + 38, "trees evaluated", INK, size=13)
    drawing.text(766, 46, "above this line: stop, answer “yes”", BLUE, "end")
    drawing.text(766, 356, "below this line: stop, answer “no”", ORANGE, "end")
    note = f"Six simulated rows, {n_trees} trees. The number at each dot is how many trees that row needed."
    drawing.text(390, 405, note, GREY, size=13)
    drawing.save("exit-rule")


def step_order() -> None:
    """Draw the steps of four trees in the order found for them, and accuracy after every step."""
    data = scurry.datasets.load("adult")
    train, test = data.split == "train", data.split == "test"
    forest = scurry.from_model(RandomForestClassifier(4, max_depth=3, random_state=3).fit(data.X[train], data.y[train]))
    X_order, y_order, X_new, y_new = data.X[test][:8000], data.y[test][:8000], data.X[test][8000:], data.y[test][8000:]
    found = scurry.orders.find(forest, X_order, y_order, order="optimal").steps
    by_tree = np.repeat(np.arange(forest.n_trees), forest.tree_depth)
    drawing = Drawing(780, 330, "A step order: the steps of four trees, numbered in the order in which they are made")
    n_done = 5
    drawing.text(180, 30, "the order in which steps are made", INK, weight="bold")
    for tree in range(forest.n_trees):
        x = 40 + 76 * tree
        drawing.text(x + 28, 58, f"tree {tree + 1}", GREY)
        for level, position in enumerate(np.flatnonzero(found == tree)):
            done = position < n_done
            if level:
                drawing.line([(x + 28, 70 + 62 * level - 18), (x + 28, 70 + 62 * level)], GREY)
            drawing.box(x, 70 + 62 * level, 56, 44, BLUE if done else "#ffffff", BLUE if done else GREY)
            color = "#ffffff" if done else INK
            drawing.text(x + 28, 70 + 62 * level + 28, position + 1, color, size=17, weight="bold")
    drawing.text(180, 285, "Each column is a tree, each box one step down it.", GREY, size=13)
    drawing.text(180, 305, f"Stopped after {n_done} steps, the answer uses the blue ones.", GREY, size=13)
    x0, y0, width, height = 430, 250, 310, 170
    curves = {
        "found order": (scurry.orders.accuracy_curve(forest, found, X_new, y_new), BLUE),
        "tree by tree": (scurry.orders.accuracy_curve(forest, by_tree, X_new, y_new), ORANGE),
    }
    least = min(curve.min() for curve, _ in curves.values())
    most = max(curve.max() for curve, _ in curves.values())

    def at(step, accuracy):
        return x0 + width * step / len(found), y0 - height * (accuracy - least) / (most - least)

    drawing.text(x0 + width / 2, 30, "accuracy on new rows", INK, weight="bold")
    drawing.line([(x0, y0 + 8), (x0 + width, y0 + 8)], GREY, 1)
    drawing.line([(x0, y0 + 8), (x0, 62)], GREY, 1)
    for step in range(0, len(found) + 1, 2):
        drawing.text(at(step, least)[0], y0 + 26, step, GREY, size=12)
    for accuracy in (least, most):
        drawing.text(x0 - 6, at(0, accuracy)[1] + 4, f"{accuracy:.1%}", GREY, "end", 12)
    drawing.line([(at(n_done, 0)[0], y0 + 8), (at(n_done, 0)[0], 62)], GREY, 1, "4 4")
    for curve, color in curves.values():
        drawing.line([at(step, accuracy) for step, accuracy in enumerate(curve)], color, 2.5)
    drawing.text(x0 + width - 60, 186, "tree by tree", ORANGE, "end", 13)
    drawing.text(at(8, 0)[0], 70, "order found by scurry", BLUE, "middle", 13)
    drawing.text(x0 + width / 2, y0 + 46, "steps made", INK, size=13)
    drawing.save("step-order")


def pruning() -> None:
    """Draw one tree with the branches that a pruning cuts, and the path of cost and error."""
    data = scurry.datasets.load("thyroid_ann_cost")
    rows = np.random.default_rng(0).permutation(len(data.y))
    train, validate = rows[:3600], rows[3600:]
    model = RandomForestClassifier(20, max_depth=3, max_features=0.5, random_state=0)
    model.fit(data.X[train], data.y[train])
    forest = scurry.from_model(model, feature_names=data.feature_names)
    prices = {"feature_costs": data.feature_costs, "groups": data.groups, "group_costs": data.group_costs}
    path = scurry.prune(forest, data.X[validate], data.y[validate], errors="validation", **prices)
    chosen = int(np.argmin(np.abs(path.costs - 0.7 * path.costs.max())))
    drawing = Drawing(780, 350, "A pruning: a tree with cut branches, and how cost and error change along the path")
    _tree(drawing, forest, path[chosen], data, n_tree=_most_cut(forest, path[chosen]))
    x0, y0, width, height = 490, 262, 250, 180
    costs, errors = path.costs, path.errors

    def at(cost, error):
        return x0 + width * cost / costs.max(), y0 - height * (error - errors.min()) / (errors.max() - errors.min())

    drawing.text(x0 + width / 2, 30, "all prunings on the path", INK, weight="bold")
    drawing.line([(x0, 62), (x0, y0 + 8), (x0 + width + 10, y0 + 8)], GREY, 1)
    drawing.line([at(c, e) for c, e in zip(costs, errors, strict=True)], GREEN, 1.5, opacity=0.6)
    for cost, error in zip(costs, errors, strict=True):
        drawing.circle(*at(cost, error), 3.5, GREEN)
    x, y = at(costs[chosen], errors[chosen])
    drawing.circle(x, y, 7, "#ffffff", GREEN)
    drawing.text(x + 4, y - 30, "shown on", GREEN, "start", 13)
    drawing.text(x + 4, y - 14, "the left", GREEN, "start", 13)
    for cost in (0, costs.max()):
        drawing.text(at(cost, 0)[0], y0 + 26, f"${cost:.0f}", GREY, size=12)
    for error in (errors.min(), errors.max()):
        drawing.text(x0 - 6, at(0, error)[1] + 4, f"{error:.1%}", GREY, "end", 12)
    drawing.text(x0 + width / 2, y0 + 46, "mean cost per patient", INK, size=13)
    drawing.text(x0 - 30, 54, "mean error of the trees", INK, "start", 13)
    drawing.text(x0 + width / 2, 332, "full forest on the right, no test at all at $0", GREY, size=13)
    drawing.save("pruning")


def _kept(forest, pruned, tree):
    """Return the nodes of a tree that the pruned forest still has, and those of them that are leaves there."""
    kept, leaves, pairs = set(), set(), [(forest.tree_offset[tree], pruned.tree_offset[tree])]
    while pairs:
        node, small = pairs.pop()
        kept.add(int(node))
        if pruned.left[small] < 0:
            leaves.add(int(node))
            continue
        pairs += [(forest.left[node], pruned.left[small]), (forest.right[node], pruned.right[small])]
    return kept, leaves


def _most_cut(forest, pruned) -> int:
    """Return a tree of which some branches stay and some are cut."""
    shares = [len(_kept(forest, pruned, t)[0]) / n for t, n in enumerate(np.diff(forest.tree_offset))]
    return int(np.argmin(np.abs(np.array(shares) - 0.6) + (np.diff(forest.tree_offset) < 11)))


def _tree(drawing, forest, pruned, data, n_tree) -> None:
    kept, leaves = _kept(forest, pruned, n_tree)
    drawing.text(225, 30, "one tree of the forest", INK, weight="bold")
    todo = [(int(forest.tree_offset[n_tree]), 225.0, 56.0, 104.0)]
    shapes = []
    while todo:
        node, x, y, spread = todo.pop()
        stays = node in kept
        if forest.left[node] < 0 or node in leaves:
            shapes.append(("leaf", node, x, y, stays))
        else:
            shapes.append(("split", node, x, y, stays))
        if forest.left[node] >= 0:
            for child, side in ((int(forest.left[node]), -1), (int(forest.right[node]), 1)):
                cut = child not in kept
                drawing.line(
                    [(x, y + 15), (x + side * spread, y + 75)], GREY if cut else INK, 1.5, "4 4" if cut else ""
                )
                todo.append((child, x + side * spread, y + 75, spread / 2))
    for kind, node, x, y, stays in shapes:
        name, cost = data.feature_names[forest.feature[node]], data.feature_costs[forest.feature[node]]
        if kind == "split" or (not stays and forest.left[node] >= 0):
            drawing.box(
                x - 39, y - 3, 78, 36, "#ffffff" if stays else PALE, INK if stays else GREY, "" if stays else "4 4"
            )
            drawing.text(x, y + 12, name[:11], INK if stays else GREY, size=11)
            drawing.text(x, y + 26, f"${cost:.2f}", INK if stays else GREY, size=11)
        else:
            drawing.circle(x, y + 12, 9, GREEN if stays else PALE, "#ffffff" if stays else GREY)
    drawing.circle(60, 322, 7, GREEN)
    drawing.text(74, 327, "answer of the pruned tree", GREY, "start", 13)
    drawing.line([(262, 322), (292, 322)], GREY, 1.5, "4 4")
    drawing.text(300, 327, "cut branch", GREY, "start", 13)


def main() -> None:
    """Draw all pictures."""
    FOLDER.mkdir(exist_ok=True)
    exit_rule()
    step_order()
    pruning()


if __name__ == "__main__":
    main()
