"""What the runs of ``papers/budgetprune.py`` say about the paper's figures: claims, pictures and notes.

A run has, for each method, the mean cost and the test error of what it offers within each of 10 budgets. Errors are in
percentage points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_curves import BUDGETS, Curve, within
from paper_claims import UNEXPLAINED, Claim, Result
from paper_pictures import Line, Picture

Run = Mapping[str, Any]
Found = Mapping[str, Sequence[Run]]
NAMES = {
    "exact": "BudgetPrune",
    "λ alone": "BudgetPrune, λ alone",
    "ccp": "CCP",
    "greedy-prune": "GreedyPrune",
}
RIVALS = {"ccp": "CCP", "greedy-prune": "GreedyPrune", "BudgetRF": "BudgetRF"}
POINTS = "points"
PARTS = ("(a): MiniBooNE, entropy and Pairs", "(b): Forest, entropy and Pairs")
FIGURE_7 = "Figure 7: features drawn at each split"
HIGH, ALL = BUDGETS >= 0.8, BUDGETS > 0
STAND_INS = {
    "MiniBooNE": "no data; nomao stands in",
    "Yahoo": "no data; a ranking of thyroid patients stands in",
    "Scene15": "no data; satimage stands in",
}
UNRUN = "no run of it was made yet"
ELEVATION = (
    "every tree begins with the elevation, which alone costs 40 % of what a row pays: neither method can buy anything "
    "below that"
)
PRICED = ("heart_cleveland_cost", "thyroid_ann_cost", "pima_diabetes_cost", "hepatitis_cost", "liver_bupa_cost")


def make_result(found: Found, share: float, n_runs: int) -> Result:
    """Return the claims of the paper next to what the runs gave."""
    claims = [
        *_table_1(found),
        *_figure_2(found),
        *_hull(found),
        *_figure_5(found),
        *_figure_6(found),
        *_figure_7(found),
        *_solvers(found),
        *_priced(found),
    ]
    claims = [claim if claim.obtained or "no data" in claim.why else replace(claim, why=UNRUN) for claim in claims]
    open_claims = [f"{claim.item}, {claim.what}" for claim in claims if claim.verdict == UNEXPLAINED]
    notes = (
        f"**How it is measured.** Forest is covertype with {share:.0%} of the paper's rows (36,603 to grow on, 15,688 "
        "to price prunings on, 58,101 to test on), 40 trees by entropy, all features at each split. nomao, two "
        f"classes, 118 features: {min(1, 2.5 * share):.0%} of 12,062, 5,169 and 17,231 rows. satimage: Scene15's "
        "1,500, 300 and 2,685 rows, 60 trees, 3 or 18 of 36 features drawn at each split. BudgetPrune is the exact "
        "path, refined between its prunings; λ alone is what a sweep of λ finds. CCP offers every pruning of its "
        "path, GreedyPrune every round for three λ, BudgetRF forests grown with a tolerated impurity, GreedyMiser "
        "1,000 rounds (300 where features have prices) at the learning rate of .03, .1, .3 and 1 that was best on the "
        "first run's validation rows, two weights of cost, and the first 1/3, 1/10 and 1/30 of the rounds. "
        "Differences are means over budgets of 10 to 100 % of the unpruned cost, in percentage points.",
        "**What is not explained:** " + ("; ".join(open_claims) if open_claims else "nothing") + ".",
    )
    return Result(
        "budgetprune",
        "Pruning random forests on a budget: published and obtained",
        f"scurry reproduce budgetprune --share {share:g}",
        tuple(claims),
        notes=notes,
        seeds=f"seeds 0 to {n_runs - 1}",
        pictures=tuple(_pictures(found)),
    )


def _errors(run: Run, method: str) -> NDArray[np.float64]:
    return 100 * np.array(run["curves"][method][1], float)


def gaps(runs: Sequence[Run], method: str, other: str = "exact", where: NDArray[np.bool_] = ALL) -> tuple[float, ...]:
    """Of each run, the error of a method minus that of another, mean over budgets within which both have an answer."""
    return _rounded(np.nanmean((_errors(run, method) - _errors(run, other))[where]) for run in runs)


def _rounded(values: Any) -> tuple[float, ...]:
    return tuple(round(float(value), 4) for value in values)


def at_costs(run: Run, method: str, costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """The errors offered within budgets in units of cost."""
    curve = Curve(*run["curves"][method])
    return 100 * np.array([within(curve, run["full_cost"], cost) for cost in costs])


def _more(item: str, what: str, values: Sequence[float], why: str = "", unit: str = POINTS) -> Claim:
    """A difference that the paper says is above 0."""
    return Claim(item, what, None, tuple(values), unit, why=why, above=0.0)


def _missing(item: str, what: str, published: float | None, data: str, unit: str = "%") -> Claim:
    return Claim(item, f"{data}: {what}", published, unit=unit, why=STAND_INS[data])


def _table_1(found: Found) -> list[Claim]:
    item = "Table 1"
    published = {
        "unpruned": (7.3, 91.7, 1.0, 42.0, 6.6),
        "pruned": (68.3, 31.5, 0.2, 24.3, 6.7),
    }
    whats = ("rows that do not use the feature", "rows that use it 1 to 7 times", "more often", "cost", "error")
    claims = [
        _missing(item, f"{forest}, {what}", value, "MiniBooNE", "" if what == "cost" else "%")
        for forest, values in published.items()
        for what, value in zip(whats, values, strict=True)
    ]
    runs = found.get("usage", [])
    before, after = (np.array([run["rows"][at] for run in runs]).reshape(-1, 5) for at in (0, 1))
    spared = _rounded(100 * (after[:, 0] - before[:, 0]))
    shares = _rounded(100 * after[:, 3] / before[:, 3])
    other = "other data: nomao instead of MiniBooNE"
    return [
        *claims,
        _more(item, "nomao: more rows do without the feature after pruning", spared),
        _more(item, "nomao: less than 0.3 points of error for it", _rounded(0.3 - 100 * (after[:, 4] - before[:, 4]))),
        Claim(item, "nomao: cost after pruning, of that before", 57.9, shares, "%", 0.05, why=other),
    ]


def _figure_2(found: Found) -> list[Claim]:
    forest, miser = found.get("forest", []), found.get("forest, with GreedyMiser", [])
    item = "Figure 2 (b): Forest"
    claims = [
        _more(item, f"error of {title} minus that of BudgetPrune", gaps(forest, method))
        for method, title in RIVALS.items()
    ]
    claims.append(_more(item, "error of GreedyMiser minus that of BudgetPrune", gaps(miser, "GreedyMiser")))
    at_high = gaps(miser, "GreedyMiser", where=HIGH)
    claims.append(_more(item, "the same at 80 to 100 % of the cost: “significantly lower accuracy”", at_high))
    chosen = tuple(float(np.argmin(run["errors"]) == len(run["k"]) - 1) for run in found.get("features drawn", []))
    why = "8 or 18 of 54 features drawn at each split have a lower validation error here"
    claims.append(Claim(item, "validation rows choose the full set of features", None, chosen, why=why))

    item, nomao, nomao_miser = (
        "Figure 2 (a): MiniBooNE",
        found.get("nomao", []),
        found.get("nomao, with GreedyMiser", []),
    )
    claims.append(_missing(item, "BudgetPrune is best, 18 features instead of 40 are enough", 45.0, "MiniBooNE"))
    claims += [
        _more(item, f"nomao: error of {title} minus that of BudgetPrune", gaps(nomao, method))
        for method, title in RIVALS.items()
    ]
    what = "nomao: error of GreedyMiser minus that of BudgetPrune at 80 to 100 % of the cost"
    claims.append(_more(item, what, gaps(nomao_miser, "GreedyMiser", where=HIGH)))
    pairs = list(zip(gaps(forest, "ccp"), gaps(nomao, "ccp"), strict=False))
    what = "the distance of CCP on Forest minus that on nomao: “much larger in (b)”"
    claims.append(_more(item, what, _rounded(b - a for b, a in pairs)))

    item, ranking = "Figure 2 (c): Yahoo", found.get("ranking", [])
    claims.append(_missing(item, "cost at which BudgetPrune ranks as well as GreedyMiser, of its cost", 30.0, "Yahoo"))
    what = "thyroid: cost at which BudgetPrune ranks as well as GreedyMiser, of its cost"
    why = "other data: 21 features, of which few decide, instead of 519"
    claims.append(Claim(item, what, 30.0, _cost_of_equal_rank(ranking), "%", 2.5, why=why))
    for method, title in RIVALS.items():
        claims.append(_more(item, f"thyroid: loss of {title} minus that of BudgetPrune", gaps(ranking, method)))

    item, scene = "Figure 2 (d): Scene15", found.get("satimage, 3 drawn", [])
    claims.append(_missing(item, "cost at which BudgetPrune is as accurate as unpruned, of that", 28.1, "Scene15"))
    what = "satimage: cost at which BudgetPrune is as accurate as unpruned, of that"
    why = "other data: 36 features instead of 2,760 in 184 groups"
    claims.append(Claim(item, what, 28.1, _cost_of_equal_error(scene), "%", 2.5, why=why))
    claims += [
        _more(item, f"satimage: error of {title} minus that of BudgetPrune", gaps(scene, method))
        for method, title in (("ccp", "CCP"), ("BudgetRF", "BudgetRF"))
    ]
    what = "satimage: error of GreedyPrune minus that of BudgetPrune: “perform similarly”"
    claims.append(Claim(item, what, 0.0, gaps(scene, "greedy-prune"), POINTS, 0.5))
    return claims


def _hull(found: Found) -> list[Claim]:
    """By how much what a sweep of λ finds within a budget is worse than what there is."""
    item = "Section 2: “by adjusting λ we can obtain a classifier satisfying the budget constraint”"
    why = "λ reaches only vertices of the lower hull of cost and error, and jumps over the budgets between them"
    titles = {"Forest": "forest", "Forest, SVM costs": "forest, SVM prices", "nomao": "nomao"}
    return [
        Claim(
            item,
            f"{title}: error within a budget by λ alone minus that of the refined path",
            0.0,
            gaps(found.get(name, []), "λ alone"),
            POINTS,
            0.05,
            why=why,
        )
        for title, name in titles.items()
    ]


def _cost_of_equal_rank(runs: Sequence[Run]) -> tuple[float, ...]:
    """The least cost at which the exact path is at most half a point behind GreedyMiser's best, of GreedyMiser's."""
    shares = []
    for run in runs:
        costs, losses = (np.array(values, float) for values in run["curves"]["exact"])
        theirs = np.array(run["curves"]["GreedyMiser"], float)
        best = np.nanmin(theirs[1])
        good = costs[losses <= best + 0.005]
        shares.append(100 * (good.min() if len(good) else np.nan) / theirs[0][theirs[1] <= best + 1e-12].min())
    return _rounded(share for share in shares if np.isfinite(share))


def _cost_of_equal_error(runs: Sequence[Run]) -> tuple[float, ...]:
    """The least cost at which the exact path is at most 0.2 points above the unpruned error, in percent."""
    shares = []
    for run in runs:
        costs, errors = (np.array(values, float) for values in run["curves"]["exact"])
        shares.append(
            100 * costs[errors <= run["unpruned"][1] + 0.002].min(initial=run["unpruned"][0]) / run["unpruned"][0]
        )
    return _rounded(shares)


def _figure_5(found: Found) -> list[Claim]:
    item = "Figure 5: costs by SVM weights"
    claims = [
        _missing(item, "CCP drops with non-uniform costs", None, "MiniBooNE"),
        _missing(item, "BudgetPrune stays as good as with uniform costs", None, "MiniBooNE"),
    ]
    for data in ("nomao", "forest"):
        uniform, priced = found.get(data, []), found.get(f"{data}, SVM prices", [])
        drops = {
            method: [np.nanmean(_errors(b, method) - _errors(a, method)) for a, b in zip(uniform, priced, strict=False)]
            for method in ("ccp", "exact")
        }
        title, why = ("Forest", ELEVATION) if data == "forest" else (data, "")
        what = f"{title}: the same of BudgetPrune: “similar performance”"
        more = _rounded(np.subtract(drops["ccp"], drops["exact"]))
        claims += [
            _more(item, f"{title}: error of CCP with SVM costs minus uniform", _rounded(drops["ccp"]), why),
            Claim(item, what, 0.0, _rounded(drops["exact"]), POINTS, 0.5, why=why),
            _more(item, f"{title}: CCP's drop minus BudgetPrune's", more, why),
        ]
        claims += [
            _more(item, f"{title}, SVM costs: error of {name} minus that of BudgetPrune", gaps(priced, method))
            for method, name in RIVALS.items()
        ]
    return claims


def _figure_6(found: Found) -> list[Claim]:
    claims = []
    for part, data in zip(PARTS, ("nomao", "forest"), strict=True):
        item = f"Figure 6 {part}"
        runs = list(zip(found.get(data, []), found.get(f"{data}, Pairs", []), strict=False))
        title = "Forest" if data == "forest" else data
        if data == "nomao":
            claims.append(_missing(item, "entropy and Pairs coincide as more is pruned", None, "MiniBooNE"))
        errors, costs = (
            _rounded(scale * (b["unpruned"][at] - a["unpruned"][at]) for a, b in runs)
            for at, scale in ((1, 100), (0, -1))
        )
        claims.append(_more(item, f"{title}: unpruned error of Pairs minus that of entropy", errors))
        claims.append(_more(item, f"{title}: unpruned cost of entropy minus that of Pairs", costs, unit=""))
        for method in ("exact", "ccp", "greedy-prune", "BudgetRF"):
            name = NAMES.get(method, method)
            low, high = [], []
            for entropy, pairs in runs:
                budgets = entropy["full_cost"] * BUDGETS
                lead = at_costs(entropy, method, budgets) - at_costs(pairs, method, budgets)
                low.append(np.nanmean(lead[BUDGETS <= 0.3]))
                high.append(-np.nanmean(lead[BUDGETS >= 0.8]))
            if data == "nomao":
                if method in ("exact", "ccp"):
                    what = f"nomao, {name}: error of entropy minus that of Pairs up to 30 % of the cost"
                    claims.append(Claim(item, what, 0.0, _rounded(low), POINTS, 0.5))
                continue
            what = f"Forest, {name}: error of entropy minus that of Pairs up to 30 % of the cost"
            claims.append(_more(item, what, _rounded(low)))
            what = f"Forest, {name}: error of Pairs minus that of entropy at 80 to 100 % of the cost"
            claims.append(_more(item, what, _rounded(high)))
    return claims


def _figure_7(found: Found) -> list[Claim]:
    item = FIGURE_7
    runs = list(zip(found.get("satimage, 3 drawn", []), found.get("satimage, 18 drawn", []), strict=False))
    said = (
        "the forest with k = 20 is more accurate and more expensive than with k = 120",
        "BudgetPrune is slightly better with k = 20",
        "GreedyPrune drops for k = 120",
    )
    behind = [[gaps([run], "greedy-prune")[0] for run in pair] for pair in runs]
    better = []
    for few, many in runs:
        budgets = few["full_cost"] * BUDGETS
        better.append(np.nanmean(at_costs(many, "exact", budgets) - at_costs(few, "exact", budgets)))
    errors = _rounded(100 * (many["unpruned"][1] - few["unpruned"][1]) for few, many in runs)
    costs = _rounded(few["unpruned"][0] - many["unpruned"][0] for few, many in runs)
    return [
        *[_missing(item, what, None, "Scene15") for what in said],
        _more(item, "satimage: unpruned error with 18 drawn minus with 3", errors),
        _more(item, "satimage: unpruned cost with 3 drawn minus with 18", costs, unit=""),
        _more(item, "satimage, BudgetPrune: error with 18 drawn minus with 3, at equal cost", _rounded(better)),
        _more(
            item,
            "satimage, GreedyPrune: distance to BudgetPrune with 18 drawn minus with 3",
            _rounded(many - few for few, many in behind),
        ),
        *[
            _more(
                item,
                f"satimage, 18 drawn: error of {title} minus that of BudgetPrune",
                gaps([b for _, b in runs], method),
            )
            for method, title in RIVALS.items()
        ],
    ]


def _solvers(found: Found) -> list[Claim]:
    item, runs = "Theorem 3.2 and running time", found.get("solvers", [])
    above = {
        method: _rounded(100 * (run[method][1] / run["exact"][1] - 1) for run in runs)
        for method in ("lp", "primal-dual")
    }
    faster = {
        method: _rounded(run["lp"][0] / run[method][0] for run in runs if run[method][0])
        for method in ("primal-dual", "exact")
    }
    why = "50 steps of the dual, as in the authors' code, end above it; the exact path proves by how much"
    return [
        Claim(item, "objective of the linear program above the integer optimum", 0.0, above["lp"], tolerance=1e-4),
        Claim(
            item, "objective of the primal-dual algorithm above it", 0.0, above["primal-dual"], tolerance=1e-2, why=why
        ),
        Claim(
            item,
            "primal-dual, times as fast as the linear program: “from hours to minutes”",
            None,
            faster["primal-dual"],
            "",
            above=1.0,
            why="6 trees, 150 rows: small enough that the program is easy",
        ),
        Claim(
            item, "the exact path at one λ, times as fast as the linear program", None, faster["exact"], "", above=1.0
        ),
    ]


def _priced(found: Found) -> list[Claim]:
    """The same comparison on data with real prices, which are not in the paper."""
    item = "Five datasets with real prices (not in the paper)"
    why = "small data: forests grown with costs in mind, or smaller trees, are better than any pruning of this forest"
    claims = []
    for name in PRICED:
        runs = found.get(name, [])
        for method in ("ccp", "greedy-prune", "BudgetRF", "GreedyMiser"):
            what = f"{name.removesuffix('_cost')}: error of {NAMES.get(method, method)} minus that of BudgetPrune"
            claims.append(_more(item, what, gaps(runs, method) if runs else (), why))
    return claims


def _pictures(found: Found) -> list[Picture]:
    """Mean curves over runs of each figure."""
    of_one = (
        ("figure-2b", "Figure 2 (b): Forest", "Forest", "forest"),
        ("figure-2b-miser", "Figure 2 (b): Forest", "Forest, with GreedyMiser", "forest, with GreedyMiser"),
        ("figure-2a", "Figure 2 (a): MiniBooNE", "nomao, for MiniBooNE", "nomao"),
        ("figure-2a-miser", "Figure 2 (a): MiniBooNE", "nomao, for MiniBooNE", "nomao, with GreedyMiser"),
        ("figure-2c", "Figure 2 (c): Yahoo", "thyroid ranked, for Yahoo", "ranking"),
        ("figure-2d", "Figure 2 (d): Scene15", "satimage, for Scene15", "satimage, 3 drawn"),
    )
    of_two = (
        ("figure-5-nomao", "Figure 5: costs by SVM weights", ("nomao", "nomao, SVM prices"), ("uniform", "SVM")),
        ("figure-5-forest", "Figure 5: costs by SVM weights", ("forest", "forest, SVM prices"), ("uniform", "SVM")),
        ("figure-6a", f"Figure 6 {PARTS[0]}", ("nomao", "nomao, Pairs"), ("entropy", "Pairs")),
        ("figure-6b", f"Figure 6 {PARTS[1]}", ("forest", "forest, Pairs"), ("entropy", "Pairs")),
        ("figure-7", FIGURE_7, ("satimage, 3 drawn", "satimage, 18 drawn"), ("3 drawn", "18 drawn")),
    )
    drawn = [_budget_picture(name, item, title, found.get(case, [])) for name, item, title, case in of_one]
    drawn += [_two_sides(name, item, found, cases, sides) for name, item, cases, sides in of_two]
    return [picture for picture in drawn if picture is not None]


def _budget_picture(name: str, item: str, title: str, runs: Sequence[Run]) -> Picture | None:
    if not runs:
        return None
    lines = []
    for color, method in enumerate(runs[0]["curves"]):
        lines.append(
            _line(NAMES.get(method, method), np.array([_errors(run, method) for run in runs]), 100 * BUDGETS, color)
        )
    y_label = "100 minus Average Precision@5, %" if "ranked" in title else "test error, %"
    return Picture(name, item, f"{title}, mean of {len(runs)}", "budget, % of the unpruned cost", y_label, tuple(lines))


def _two_sides(name: str, item: str, found: Found, cases: tuple[str, str], sides: tuple[str, str]) -> Picture | None:
    """Two forests at equal costs, or two price lists at equal shares of what the forest costs."""
    by_cost = "SVM" not in sides
    methods = ("exact", "ccp", "greedy-prune") if item == FIGURE_7 else ("exact", "ccp")
    runs = [found.get(title, []) for title in cases]
    if not all(runs):
        return None
    top = float(np.mean([run["full_cost"] for run in runs[0]]))
    x = BUDGETS * (max(top, float(np.mean([run["full_cost"] for run in runs[1]]))) if by_cost else 100)
    lines = []
    for side, dashed, of_side in zip(sides, (False, True), runs, strict=True):
        for color, method in enumerate(methods):
            errors = np.array([at_costs(run, method, x) if by_cost else _errors(run, method) for run in of_side])
            lines.append(_line(f"{NAMES[method]}, {side}", errors, x, color, dashed))
    x_label = "budget, features per row" if by_cost else "budget, % of the unpruned cost"
    title = "Forest" if cases[0] == "forest" else cases[0].partition(",")[0]
    return Picture(name, item, f"{title}: {sides[0]} and {sides[1]}", x_label, "test error, %", tuple(lines))


def _line(title: str, errors: NDArray[np.float64], x: NDArray[np.float64], color: int, dashed: bool = False) -> Line:
    """The mean of runs with a band of two standard errors, where every run has an answer."""
    has = np.isfinite(errors).all(axis=0)
    mean, reach = errors[:, has].mean(axis=0), 2 * errors[:, has].std(axis=0) / np.sqrt(len(errors))
    return Line(title, *(_rounded(values) for values in (x[has], mean, mean - reach, mean + reach)), color, dashed)
