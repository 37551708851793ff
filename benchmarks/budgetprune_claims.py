"""What the runs of ``papers/budgetprune.py`` say about the paper's figures: claims, pictures and notes.

A run has, for each method, the mean cost and the test error of what it offers within each of 10 budgets. Errors are in
percentage points. Two forests are compared at equal costs, on the line between what a method offers next below and next
above: a row that is given to the one or to the other at random pays and errs so in the mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_curves import BUDGETS
from paper_claims import CLOSE, UNEXPLAINED, Claim, Result, Table
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
NOMAO, THYROID, SATIMAGE = "nomao for MiniBooNE", "thyroid patients for Yahoo", "satimage for Scene15"
FIGURE_7 = f"Figure 7, features drawn at each split: {SATIMAGE}"
FIGURE_5 = {"nomao": f"Figure 5, costs by SVM weights: {NOMAO}", "forest": "Figure 5 on Forest: costs by SVM weights"}
FIGURE_6 = {"nomao": f"Figure 6 (a), entropy and Pairs: {NOMAO}", "forest": "Figure 6 (b): Forest, entropy and Pairs"}
HULL = "Section 2: “by adjusting λ we can obtain a classifier satisfying the budget constraint”"
UNSPENT = "What is left of a budget"
CHOSEN_K = "Figure 2 (b): features drawn, other candidates"
HIGH, ALL = BUDGETS >= 0.8, BUDGETS > 0
STAND_INS = {
    "MiniBooNE": "no data; nomao stands in",
    "Yahoo": "no data; a ranking of thyroid patients stands in",
    "Scene15": "no data; satimage stands in",
}
UNRUN = "no run of it was made yet"
CROSSING = "Figure 6 (b): low is up to 70 % of the cost, high all of it (chosen after seeing the curves)"
BUDGETED = {
    "Forest": "forest",
    "Forest, SVM costs": "forest, SVM prices",
    "nomao": "nomao",
    "satimage, 3 drawn": "satimage, 3 drawn",
    "satimage, 18 drawn": "satimage, 18 drawn",
}
REFINED = "Budgets that λ cannot meet"
EXACT = "The exact path"
REAL_PRICES = "Five datasets with real prices"
PRICED = ("heart_cleveland_cost", "thyroid_ann_cost", "pima_diabetes_cost", "hepatitis_cost", "liver_bupa_cost")


def make_result(found: Found, share: float, n_runs: int) -> Result:
    """Return the claims of the paper next to what the runs gave."""
    all_claims = [
        *_table_1(found),
        *_figure_2(found),
        *_hull(found),
        *_figure_5(found),
        *_figure_6(found),
        *_figure_7(found),
        *_solvers(found),
        *_priced(found),
    ]
    all_claims = [claim if claim.obtained or claim.why else replace(claim, why=UNRUN) for claim in all_claims]
    elsewhere = [claim for claim in all_claims if claim.item.endswith((NOMAO, THYROID, SATIMAGE))]
    further = [claim for claim in all_claims if claim.item in (FIGURE_5["forest"], REFINED, EXACT, REAL_PRICES)]
    claims = [claim for claim in all_claims if claim not in elsewhere and claim not in further]
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
        "Differences are means over budgets of 10 to 100 % of the unpruned cost, in percentage points. Two forests are "
        "compared at equal costs, on the line between what a method offers next below and next above; before, the "
        "cheaper forest's budgets were rounded down, which was against Pairs and against 18 features drawn.",
        "**Time.** All runs take about two hours of one core; most of it goes to GreedyMiser's 1,000 rounds on Forest, "
        "150 seconds for each trade-off. Without it, a run of Forest with all rows takes about 80 seconds.",
        "**What is not explained:** " + ("; ".join(open_claims) if open_claims else "nothing") + ".",
    )
    return Result(
        "budgetprune",
        "Pruning random forests on a budget: published and obtained",
        "scurry reproduce budgetprune" + ("" if share == 1 else f" --share {share:g}"),
        tuple(claims),
        notes=notes,
        seeds=f"seeds 0 to {n_runs - 1}",
        readings=(*_features_drawn(found, (0, 2), CHOSEN_K), *_crossing(found)),
        stand_ins=tuple(elsewhere),
        further=tuple(further),
        pictures=tuple(_pictures(found)),
        tables=_tables(found),
    )


def _errors(run: Run, method: str) -> NDArray[np.float64]:
    return 100 * np.array(run["curves"][method][1], float)


def gaps(runs: Sequence[Run], method: str, other: str = "exact", where: NDArray[np.bool_] = ALL) -> tuple[float, ...]:
    """Of each run, the error of a method minus that of another, mean over budgets within which both have an answer."""
    return _rounded(np.nanmean((_errors(run, method) - _errors(run, other))[where]) for run in runs)


def _rounded(values: Any) -> tuple[float, ...]:
    return tuple(round(float(value), 4) for value in values)


def at_costs(run: Run, method: str, costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """The errors at some costs, on the line between what is offered; NaN below the cheapest offer."""
    offered, errors = (np.array(values, float) for values in run["curves"][method])
    by_cost = np.argsort(offered, kind="stable")[: int(np.isfinite(offered).sum())]
    return 100 * np.interp(costs, offered[by_cost], errors[by_cost], left=np.nan)


def _means(differences: Sequence[NDArray[np.float64]], where: NDArray[np.bool_]) -> tuple[float, ...]:
    """Of each run, the mean over some budgets; runs that have nothing within them are left out, or all if most have."""
    parts = [one[where][np.isfinite(one[where])] for one in differences]
    answered = [part.mean() for part in parts if len(part)]
    return _rounded(answered) if 2 * len(answered) > len(parts) else ()


def _more(
    item: str, what: str, values: Sequence[float], why: str = "", unit: str = POINTS, evidence: str = ""
) -> Claim:
    """A difference that the paper says is above 0."""
    claim = Claim(item, what, None, tuple(values), unit, why=why, above=0.0, evidence=evidence)
    return replace(claim, why="", evidence="") if claim.verdict == CLOSE else claim


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
    runs, item = found.get("usage", []), f"Table 1: {NOMAO}"
    before, after = (np.array([run["rows"][at] for run in runs]).reshape(-1, 5) for at in (0, 1))
    spared = _rounded(100 * (after[:, 0] - before[:, 0]))
    shares = _rounded(100 * after[:, 3] / before[:, 3])
    return [
        *claims,
        _more(item, "more rows do without the feature after pruning", spared),
        _more(item, "less than 0.3 points of error for it", _rounded(0.3 - 100 * (after[:, 4] - before[:, 4]))),
        Claim(item, "cost after pruning, of that before", 57.9, shares, "%", 0.05),
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
    claims += _features_drawn(found, (0, 1, 2), item)

    item, nomao, nomao_miser = (
        "Figure 2 (a): MiniBooNE",
        found.get("nomao", []),
        found.get("nomao, with GreedyMiser", []),
    )
    claims.append(_missing(item, "BudgetPrune is best, 18 features instead of 40 are enough", 45.0, "MiniBooNE"))
    item = f"Figure 2 (a): {NOMAO}"
    claims += [
        _more(item, f"error of {title} minus that of BudgetPrune", gaps(nomao, method))
        for method, title in RIVALS.items()
    ]
    what = "error of GreedyMiser minus that of BudgetPrune at 80 to 100 % of the cost"
    claims.append(_more(item, what, gaps(nomao_miser, "GreedyMiser", where=HIGH)))
    pairs = list(zip(gaps(forest, "ccp"), gaps(nomao, "ccp"), strict=False))
    what = "the distance of CCP on Forest minus that here: “much larger in (b)”"
    claims.append(_more(item, what, _rounded(b - a for b, a in pairs)))

    item, ranking = "Figure 2 (c): Yahoo", found.get("ranking", [])
    claims.append(_missing(item, "cost at which BudgetPrune ranks as well as GreedyMiser, of its cost", 30.0, "Yahoo"))
    item, shares = f"Figure 2 (c): {THYROID}", _cost_of_equal_rank(ranking)
    what = "cost at which BudgetPrune ranks as well as GreedyMiser, of its cost"
    never = f"in {len(ranking) - len(shares)} of {len(ranking)} runs it never does; those are left out"
    claims.append(Claim(item, what, 30.0, shares, "%", 2.5, why=never if len(shares) < len(ranking) else ""))
    for method, title in RIVALS.items():
        claims.append(_more(item, f"loss of {title} minus that of BudgetPrune", gaps(ranking, method)))

    item, scene = "Figure 2 (d): Scene15", found.get("satimage, 3 drawn", [])
    claims.append(_missing(item, "cost at which BudgetPrune is as accurate as unpruned, of that", 28.1, "Scene15"))
    item = f"Figure 2 (d): {SATIMAGE}"
    what = "cost at which BudgetPrune is as accurate as unpruned, of that"
    claims.append(Claim(item, what, 28.1, _cost_of_equal_error(scene), "%", 2.5))
    claims += [
        _more(item, f"error of {title} minus that of BudgetPrune", gaps(scene, method))
        for method, title in (("ccp", "CCP"), ("BudgetRF", "BudgetRF"))
    ]
    what = "error of GreedyPrune minus that of BudgetPrune: “perform similarly”"
    claims.append(Claim(item, what, 0.0, gaps(scene, "greedy-prune"), POINTS, 0.5))
    return claims


def _features_drawn(found: Found, candidates: tuple[int, ...], item: str) -> list[Claim]:
    """Whether validation rows choose all features at each split, of some numbers of them."""
    runs = found.get("features drawn", [])
    if not runs:
        return []
    tried = ", ".join(str(runs[0]["k"][at]) for at in candidates)
    errors = np.array([run["errors"] for run in runs])[:, list(candidates)]
    chosen = tuple((errors[:, -1] < errors[:, :-1].min(axis=1)).astype(float).tolist())
    what = f"validation rows choose the full set of 54 features at each split, of {tried}"
    if item == CHOSEN_K:
        return [Claim(item, what, None, chosen)]
    by_k = dict(zip(runs[0]["k"], 100 * np.mean([run["errors"] for run in runs], axis=0), strict=True))
    why = (
        "the paper does not name the candidates; mean validation errors are "
        + ", ".join(f"{error:.2f} % with {k}" for k, error in by_k.items())
        + f", so that of {runs[0]['k'][0]} and 54, a pair looked at after these errors were known, the full set "
        "is chosen (other readings)"
    )
    return [Claim(item, what, None, chosen, why=why, evidence=CHOSEN_K)]


def _hull(found: Found) -> list[Claim]:
    """By how much what a sweep of λ finds within a budget is worse than what there is."""
    why = f"λ reaches only vertices of the lower hull of cost and error; see “{UNSPENT}”"
    what = "error within a budget by λ alone minus that of the refined path"
    values = {title: gaps(found.get(name, []), "λ alone") for title, name in BUDGETED.items()}
    return [
        Claim(
            HULL if title == "Forest" else REFINED,
            f"{title}: {what}",
            0.0,
            gap,
            POINTS,
            0.05,
            why=why if title == "Forest" else "",
            evidence=UNSPENT if title == "Forest" and gap else "",
        )
        for title, gap in values.items()
    ]


def _tables(found: Found) -> tuple[Table, ...]:
    """How much of each budget the prunings that λ reaches leave, and those between them."""
    rows = []
    for title, name in BUDGETED.items():
        runs = found.get(name, [])
        if runs:
            left = [
                100 * (1 - np.mean([np.array(run["curves"][m][0]) / run["full_cost"] / BUDGETS for run in runs]))
                for m in ("λ alone", "exact")
            ]
            rows.append((title, str(len(runs)), *(f"{value:.1f} %" for value in left)))
    header = ("", "runs", "λ alone", "refined path")
    return (Table(UNSPENT, header, tuple(rows), "Mean over budgets of 10 to 100 %."),) if rows else ()


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
    for data, item in FIGURE_5.items():
        uniform, priced = found.get(data, []), found.get(f"{data}, SVM prices", [])
        drops = {
            method: np.array([_errors(b, method) - _errors(a, method) for a, b in zip(uniform, priced, strict=False)])
            for method in ("ccp", "exact")
        }
        own = drops["exact"].mean(axis=0) if len(drops["exact"]) else np.zeros(len(BUDGETS))
        at_budgets = (10, 20, 30, 50, 80)
        why = "by budget: " + ", ".join(f"{own[at // 10 - 1]:.1f} within {at} %" for at in at_budgets)
        by_run = {method: drop.mean(axis=1) if len(drop) else drop for method, drop in drops.items()}
        what = "the same of BudgetPrune: “similar performance”"
        more = _rounded(by_run["ccp"] - by_run["exact"])
        claims += [
            _more(item, "error of CCP with SVM costs minus uniform", _rounded(by_run["ccp"])),
            Claim(item, what, 0.0, _rounded(by_run["exact"]), POINTS, 0.5, why=why if more else ""),
            _more(item, "CCP's drop minus BudgetPrune's", more),
        ]
        claims += [
            _more(item, f"SVM costs: error of {name} minus that of BudgetPrune", gaps(priced, method))
            for method, name in RIVALS.items()
        ]
    return claims


def _figure_6(found: Found) -> list[Claim]:
    item = "Figure 6 (a): MiniBooNE, entropy and Pairs"
    claims = [_missing(item, "entropy and Pairs coincide as more is pruned", None, "MiniBooNE")]
    for data, item in FIGURE_6.items():
        runs = list(zip(found.get(data, []), found.get(f"{data}, Pairs", []), strict=False))
        errors, costs = (
            _rounded(scale * (b["unpruned"][at] - a["unpruned"][at]) for a, b in runs)
            for at, scale in ((1, 100), (0, -1))
        )
        claims.append(_more(item, "unpruned error of Pairs minus that of entropy", errors))
        claims.append(_more(item, "unpruned cost of entropy minus that of Pairs", costs, unit=""))
        for method in ("exact", "ccp", "greedy-prune", "BudgetRF"):
            name, leads = NAMES.get(method, method), _leads(runs, method)
            low, high = _means(leads, BUDGETS <= 0.3), _means([-lead for lead in leads], HIGH)
            what = f"{name}: error of entropy minus that of Pairs up to 30 % of the cost"
            if data == "nomao":
                if method in ("exact", "ccp"):
                    claims.append(Claim(item, what, 0.0, low, POINTS, 0.5))
                continue
            nothing = sum(not np.isfinite(lead[BUDGETS <= 0.3]).any() for lead in leads)
            if nothing:
                why, evidence = f"in {nothing} of {len(leads)} runs one of the forests is not offered so cheaply", ""
            else:
                why, evidence = "the paper does not say where low ends; see other readings", CROSSING
            claims.append(_more(item, what, low, why, evidence=evidence if low else ""))
            what = f"{name}: error of Pairs minus that of entropy at 80 to 100 % of the cost"
            why = "" if nothing else "nor where high begins"
            claims.append(_more(item, what, high, why, evidence="" if nothing or not high else CROSSING))
    return claims


def _leads(runs: Sequence[tuple[Run, Run]], method: str) -> list[NDArray[np.float64]]:
    """Of each run, the error of entropy minus that of Pairs at each of entropy's budgets."""
    return [
        at_costs(entropy, method, entropy["full_cost"] * BUDGETS)
        - at_costs(pairs, method, entropy["full_cost"] * BUDGETS)
        for entropy, pairs in runs
    ]


def _crossing(found: Found) -> list[Claim]:
    """Figure 6 (b) with the end of what is low moved to where the curves cross."""
    runs = list(zip(found.get("forest", []), found.get("forest, Pairs", []), strict=False))
    claims = []
    for method in ("exact", "ccp", "greedy-prune") if runs else ():
        leads = _leads(runs, method)
        low, all_of_it = _means(leads, BUDGETS <= 0.7), _means([-lead for lead in leads], BUDGETS == 1)
        claims.append(_more(CROSSING, f"{NAMES[method]}: error of entropy minus that of Pairs up to 70 %", low))
        claims.append(_more(CROSSING, f"{NAMES[method]}: error of Pairs minus that of entropy, unpruned", all_of_it))
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
    better = [
        at_costs(many, "exact", budgets) - at_costs(few, "exact", budgets)
        for few, many in runs
        for budgets in (few["full_cost"] * BUDGETS,)
    ]
    errors = _rounded(100 * (many["unpruned"][1] - few["unpruned"][1]) for few, many in runs)
    costs = _rounded(few["unpruned"][0] - many["unpruned"][0] for few, many in runs)
    return [
        *[_missing("Figure 7: features drawn at each split", what, None, "Scene15") for what in said],
        _more(item, "unpruned error with 18 drawn minus with 3", errors),
        _more(item, "unpruned cost with 3 drawn minus with 18", costs, unit=""),
        _more(item, "BudgetPrune: error with 18 drawn minus with 3, at equal cost", _means(better, ALL)),
        _more(
            item,
            "GreedyPrune: distance to BudgetPrune with 18 drawn minus with 3",
            _rounded(many - few for few, many in behind),
        ),
        *[
            _more(item, f"18 drawn: error of {title} minus that of BudgetPrune", gaps([b for _, b in runs], method))
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
    what = "6 trees, 150 rows: primal-dual, times as fast as the linear program: “from hours to minutes”"
    return [
        Claim(item, "objective of the linear program above the integer optimum", 0.0, above["lp"], tolerance=1e-4),
        Claim(item, "objective of the primal-dual algorithm above it", 0.0, above["primal-dual"], tolerance=1e-2),
        Claim(item, what, None, faster["primal-dual"], "", above=1.0),
        Claim(EXACT, "at one λ, times as fast as the linear program", None, faster["exact"], "", above=1.0),
    ]


def _priced(found: Found) -> list[Claim]:
    """The same comparison on data with real prices."""
    claims = []
    for name in PRICED:
        runs = found.get(name, [])
        for method in ("ccp", "greedy-prune", "BudgetRF", "GreedyMiser"):
            what = f"{name.removesuffix('_cost')}: error of {NAMES.get(method, method)} minus that of BudgetPrune"
            claims.append(_more(REAL_PRICES, what, gaps(runs, method) if runs else ()))
    return claims


def _pictures(found: Found) -> list[Picture]:
    """Mean curves over runs of each figure."""
    of_one = (
        ("figure-2b", "Figure 2 (b): Forest", "Forest", "forest"),
        ("figure-2b-miser", "Figure 2 (b): Forest", "Forest, with GreedyMiser", "forest, with GreedyMiser"),
        ("figure-2a", f"Figure 2 (a): {NOMAO}", "nomao, for MiniBooNE", "nomao"),
        ("figure-2a-miser", f"Figure 2 (a): {NOMAO}", "nomao, with GreedyMiser", "nomao, with GreedyMiser"),
        ("figure-2c", f"Figure 2 (c): {THYROID}", "thyroid ranked, for Yahoo: 100 − AP@5", "ranking"),
        ("figure-2d", f"Figure 2 (d): {SATIMAGE}", "satimage, for Scene15", "satimage, 3 drawn"),
    )
    of_two = (
        ("figure-5-nomao", FIGURE_5["nomao"], ("nomao", "nomao, SVM prices"), ("uniform", "SVM")),
        ("figure-5-forest", FIGURE_5["forest"], ("forest", "forest, SVM prices"), ("uniform", "SVM")),
        ("figure-6a", FIGURE_6["nomao"], ("nomao", "nomao, Pairs"), ("entropy", "Pairs")),
        ("figure-6b", FIGURE_6["forest"], ("forest", "forest, Pairs"), ("entropy", "Pairs")),
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
    y_label = "loss, %" if "ranked" in title else "test error, %"
    n_runs = f"mean of {len(runs)} runs" if len(runs) > 1 else "one run"
    return Picture(name, item, f"{title}, {n_runs}", "budget, % of the unpruned cost", y_label, tuple(lines))


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
