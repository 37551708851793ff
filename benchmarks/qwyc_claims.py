"""What the paper on early exits of scores claims, next to what ensembles here gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paper_claims import CLOSE, UNEXPLAINED, Claim, Result, Table
from paper_pages import claim_cells
from paper_pictures import Line, Picture
from qwyc_ensembles import BIN_WIDTHS, READINGS, SEARCHED, trees_at
from report import Report
from scurry.stopping import qwyc

TARGETS = {"adult": 0.006, "nomao": 0.011}  # differences at which the figures were read off
READ_OFF = {  # trees of Figure 3, read off to within a tenth
    ("adult", "QWYC*"): 40,
    ("adult", "Alg. 2, GBT order"): 81,
    ("adult", "Fan, individual MSE"): 67,
    ("nomao", "QWYC*"): 8,
    ("nomao", "Alg. 2, GBT order"): 10,
    ("nomao", "Fan, individual MSE"): 15,
}
RIVALS = ("Alg. 2, GBT order", "Alg. 2, individual MSE", "Fan, individual MSE")
NO_DATA = "no data: private"
TABLES = {  # experiment: (table, stand-in, how trained, models by QWYC, by Fan, speed-up by QWYC, by Fan)
    "Experiment 3": ("Table 2", "1", "jointly", 1.54, 2.09, 2.7, 2.0),
    "Experiment 4": ("Table 3", "2", "jointly", 237, 309, 1.8, 1.1),
    "Experiment 5": ("Table 4", "1", "independently", 1.18, 1.20, 4.0, 3.5),
    "Experiment 6": ("Table 5", "2", "independently", 234, 268, 1.8, 1.3),
}
DATA_OF = {"1": "census income, 5 trees", "2": "covertype, 500 trees"}
BINS = "Bins per model"
GROWN_OTHERWISE = "Figure 3: nomao's trees grown otherwise"
SEARCH = "Figure 3, nomao: readings that were searched"
FINE_BINS = "Section 5: Fan's thresholds in bins of 0.01, the paper's best"
BETTER_BINS = "Section 5: Fan's thresholds in bins of 0.03, better for log-odds"
SAME_RATE = "Figure 1, appendix D.2 and section 5: smaller ensembles at the learning rate of the full one"
SQUARED = "Appendix C: nomao's trees boosted by squared loss"
ALL_ORDERS = "Appendix A.1: every order of the example"
COUNTEREXAMPLE = "Section 4.1: a counterexample to S_t(i) ⊇ S_t(1)"
UNDONE = ((-3, 2, 4), (0, 1, -4))  # scores of three models on two rows
ON_STAND_INS = "Mean models at 0.5 % differences"


class Found:
    """Finished cells by what they are about."""

    def __init__(self) -> None:
        self.cells: list[tuple[dict[str, Any], Any]] = []

    def add(self, cell: dict[str, Any], value: Any) -> None:
        self.cells.append((cell, value))

    def all(self, **wanted: Any) -> list[Any]:
        """Return the values of all cells with these entries, in order of their repeats."""
        wanted = {name.replace("_", "-"): value for name, value in wanted.items()}
        return [value for cell, value in self.cells if wanted.items() <= cell.items()]

    def both(self, dataset: str, *methods: str) -> list[tuple[Any, ...]]:
        """Return the curves of several methods, of every repeat that has them all."""
        by_seed: dict[int, dict[str, Any]] = {}
        for cell, value in self.cells:
            if cell.get("dataset") == dataset and cell.get("curve") in methods:
                by_seed.setdefault(cell["seed"], {})[cell["curve"]] = value
        complete = [found for _, found in sorted(by_seed.items()) if len(found) == len(methods)]
        return [tuple(found[method] for method in methods) for found in complete]

    @property
    def n_repeats(self) -> int:
        return 1 + max((cell["seed"] for cell, _ in self.cells if "curve" in cell), default=0)


def result_of(found: Found) -> Result:
    """Return all claims, pictures and tables."""
    claims = [
        *_table_1(found),
        *_figures_1_and_3(found),
        *_discussion(found),
        *_private(),
        *_histograms(found),
        *_theory(found),
        *_appendix_c(found),
    ]
    return Result(
        "qwyc",
        "Quit When You Can: published and obtained",
        f"scurry reproduce qwyc --repeats {found.n_repeats}",
        tuple(claims),
        seeds=f"seeds 0 to {found.n_repeats - 1}",
        notes=_notes(found),
        readings=_readings(found),
        stand_ins=(*_on_stand_ins(found), *_stand_ins(found)),
        pictures=_pictures(found),
        tables=_tables(found),
    )


def describe(report: Report, result: Result) -> None:
    """Print what the page will say."""
    header = ["", "published", "obtained", "repeats", "interval", "verdict", "why"]
    report.table("Claims", header, [claim_cells(claim) for claim in result.claims])
    report.table("Other readings and data", header, [claim_cells(claim) for claim in result.readings])
    for table in result.tables:
        report.table(table.title, table.header, table.rows)


def _table_1(found: Found) -> list[Claim]:
    published = {"adult": (14, 32_561, 16_281), "nomao": (8, 27_572, 6_893)}
    return [
        Claim("Table 1", f"{name}: {what}", number, (float(value),), "")
        for name, numbers in published.items()
        for values in found.all(table=1, dataset=name)
        for what, number, value in zip(("features", "training rows", "test rows"), numbers, values, strict=True)
    ]


def _figures_1_and_3(found: Found) -> list[Claim]:
    claims = []
    grown_otherwise = _grown_otherwise(found)
    for (name, method), published in READ_OFF.items():
        trees = [trees_at(curve, TARGETS[name]) for curve in found.all(curve=method, dataset=name)]
        what = f"{name}: trees at {TARGETS[name]:.1%} differences, {method}"
        missed = len(trees) - len(_finite(trees))
        why = f"in {missed} of {len(trees)} repeats more differ however cautious the rule is" if missed else ""
        claim = Claim("Figure 3", what, published, _finite(trees), "", 0.1 * published, 1, why)
        claims.append(_explained_by_growing(claim, method, grown_otherwise) if name == "nomao" else claim)
    for name, target in TARGETS.items():
        ahead = [
            min(trees_at(rival, target) for rival in rivals) - trees_at(own, target)
            for own, *rivals in found.both(name, "QWYC*", *RIVALS)
        ]
        what = f"{name}: trees that QWYC* saves against the best of {len(RIVALS)} others, at the same differences"
        claims.append(Claim("Figure 3", what, None, _finite(ahead), "", above=0.0))
    claims += [_against_40(found, name, "smaller ensemble, retuned", "Figure 1 and appendix D.2") for name in TARGETS]
    return claims


def _explained_by_growing(claim: Claim, method: str, grown_otherwise: Sequence[Claim]) -> Claim:
    """Return a claim that is different with the readings that make it close, and whether one does so for all three."""
    own = [one for one in grown_otherwise if one.what.endswith(f": {method}") and one.obtained]
    # An interval can be wide enough for anything: the mean has to come nearer, too.
    nearer = {one.what.partition(":")[0]: one for one in own if _distance(one) < _distance(claim)}
    close = [reading for reading, one in nearer.items() if one.verdict == CLOSE]
    if claim.verdict != UNEXPLAINED or not close:
        return claim
    methods = [method for name, method in READ_OFF if name == "nomao"]
    verdicts = {one.what: one.verdict for one in grown_otherwise}
    of_all = [r for r in close if all(verdicts.get(f"{r}: {method}") == CLOSE for method in methods)]
    how = f"with {' or '.join(of_all)} all three methods are close" if of_all else "no way gives all three methods"
    means = [one.mean for one in own]
    why = (
        f"how trees are grown moves it from {min(means):.1f} to {max(means):.1f}, and the paper, which searched that, "
        f"does not say what it found; close with {', '.join(f'{r} {nearer[r].mean:.1f}' for r in close)}; {how} "
        "(other readings)"
    )
    return replace(claim, why=why, evidence=GROWN_OTHERWISE)


def _distance(claim: Claim) -> float:
    return abs(claim.mean - (claim.published or 0.0))


def _against_40(found: Found, name: str, small: str, item: str) -> Claim:
    """That QWYC* with 40 trees in the mean is more accurate than an ensemble of 40 trees."""
    pairs = found.both(name, "QWYC*", small)
    gap = _finite([100 * (_accuracy_at(own, 40) - _accuracy_at(other, 40)) for own, other in pairs])
    what = f"{name}: QWYC* with at most 40 of 500 trees is more accurate than 40 trees, {small}, points"
    claim = Claim(item, what, None, gap, "", above=0.0)
    if item == SAME_RATE or claim.verdict == CLOSE:
        return claim
    full = [100 * (whole["accuracy"] - _accuracy_at(other, 40)) for whole, other in found.both(name, "full", small)]
    why = (
        f"with a learning rate of their own, 40 trees lack {np.mean(full):.2f} points of the accuracy of all 500; with "
        "that of the 500 it holds (other readings)"
    )
    return replace(claim, why=why, evidence=SAME_RATE)


def _discussion(found: Found) -> list[Claim]:
    item = "Section 5, discussion"
    claims = [*_against_fan(found, "smaller ensemble, retuned", item), *_thresholds_of_fan(found, item)]
    readings = [*_in_fine_bins(found), *_in_better_bins(found)]
    explained = []
    for claim in claims:
        close = [one.item for one in readings if one.what == claim.what and one.verdict == CLOSE]
        if claim.verdict == UNEXPLAINED and close:
            claim = replace(claim, why=f"close if read so: {close[0]} (other readings)", evidence=close[0])
        explained.append(claim)
    return explained


def _in_fine_bins(found: Found) -> list[Claim]:
    fan = "Fan, individual MSE, bins of 0.01"
    return _against_fan(found, "smaller ensemble, retuned", FINE_BINS, fan)


def _in_better_bins(found: Found) -> list[Claim]:
    return _thresholds_of_fan(found, BETTER_BINS, ", bins of 0.03")


def _thresholds_of_fan(found: Found, item: str, bins: str = "") -> list[Claim]:
    """That for many orders Fan's thresholds are better than Algorithm 2's."""
    orders = ("GBT order", "individual MSE", "greedy MSE", "random")
    claims = []
    for name, target in TARGETS.items():
        methods = [method for order in orders for method in (f"Alg. 2, {order}", f"Fan, {order}{bins}")]
        shares = []
        for curves in found.both(name, *methods):
            trees = np.array([trees_at(curve, target) for curve in curves]).reshape(-1, 2)
            trees[np.isnan(trees)] = np.inf  # out of reach
            shares.append(float((trees[:, 1] < trees[:, 0]).mean()))
        if shares:
            what = f"{name}: for many orders Fan's thresholds need fewer trees than Algorithm 2, share of 4 orders"
            claims.append(Claim(item, what, None, _finite([100 * share for share in shares]), "%", above=50.0))
    return claims


def _against_fan(found: Found, small: str, item: str, fan: str = "Fan, individual MSE") -> list[Claim]:
    """That 40 trees alone are better than Fan's rule with 40 trees in the mean."""
    pairs = found.both("adult", small, fan)
    accuracy = [100 * (_accuracy_at(one, 40) - _accuracy_at(other, 40)) for one, other in pairs]
    differences = [100 * (_difference_at(other, 40) - _difference_at(one, 40)) for one, other in pairs]
    what = f"adult: 40 trees, {small}, are more accurate than Fan* at 40, points"
    return [
        Claim(item, what, None, _finite(accuracy), "", above=0.0),
        Claim(
            item,
            f"adult: 40 trees, {small}, differ less from all 500 than Fan* at 40, points",
            None,
            _finite(differences),
            "",
            above=0.0,
        ),
    ]


def _private() -> list[Claim]:
    """The tables of private lattices: none of them can be run."""
    claims = []
    for experiment, (table, _, _, by_qwyc, by_fan, faster, fan_faster) in TABLES.items():
        item = f"Figures 2 and 4, Tables 2 to 5: {experiment}, {table}"
        for what, published, unit in (
            ("mean models, QWYC", by_qwyc, ""),
            ("mean models, Fan", by_fan, ""),
            ("speed-up, QWYC", faster, "×"),
            ("speed-up, Fan", fan_faster, "×"),
        ):
            claims.append(Claim(item, what, published, (), unit, why=NO_DATA))
    return claims


def _on_stand_ins(found: Found) -> list[Claim]:
    """What the paper says of its private lattices, on trees grown on public data."""
    claims = []
    for experiment, (_, which, trained, *_) in TABLES.items():
        cells = found.all(stand_in=which, trained=trained)
        item = f"{experiment}: {DATA_OF[which]}, {trained} trained"
        if experiment == "Experiment 6":
            least = min((min(cell["curve, QWYC*"][0]) for cell in cells), default=float("nan"))
            if any(np.isnan(cell["QWYC*"]) for cell in cells):
                what = f"a random order reaches 0.5 % differences, QWYC* only {least:.1%}"
                wins = tuple(float(np.isnan(c["QWYC*"]) and np.isfinite(c["Alg. 2, random"])) for c in cells)
                claims.append(Claim(item, what, None, wins, ""))
            for other in ("QWYC*", "Alg. 2, individual MSE", "Alg. 2, greedy MSE"):
                ahead = [cell[other] - cell["Alg. 2, random"] for cell in cells]
                what = f"a random order needs fewer models than {other}, models"
                claims.append(Claim(item, what, None, _finite(ahead), "", above=0.0))
        else:
            others = ("individual MSE", "greedy MSE", "random")
            ahead = [min(cell[f"Alg. 2, {order}"] for order in others) - cell["QWYC*"] for cell in cells]
            what = "models that QWYC* saves against the best fixed order"
            claims.append(Claim(item, what, None, _finite(ahead), "", above=0.0))
        saved = [100 * (1 - cell["QWYC*"] / cell["Fan*"]) for cell in cells]
        claims.append(Claim(item, "QWYC* evaluates fewer models than Fan*", None, _finite(saved), above=0.0))
    for which, name in DATA_OF.items():
        jointly, alone = (found.all(stand_in=which, trained=how) for how in ("jointly", "independently"))
        fewer = [one["QWYC*"] - two["QWYC*"] for one, two in zip(jointly, alone, strict=False)]
        what = f"{name}: models that training independently saves QWYC*"
        claims.append(Claim("Appendix D.3", what, None, _finite(fewer), "", above=0.0))
    reason = "no repeat has both methods at 0.5 % differences" if found.all(stand_in="1") else "no repeat was made yet"
    return [claim if claim.obtained else replace(claim, why=reason) for claim in claims]


def _histograms(found: Found) -> list[Claim]:
    claims = []
    for figure, name in (("Figure 5", "adult"), ("Figure 6", "nomao")):
        smooth = [tuple(map(_tapering, curves)) for curves in found.both(name, "QWYC*", *RIVALS)]
        own = [curves[0] for curves in smooth]
        among = [float(sorted(curves, reverse=True).index(curves[0]) < 2) for curves in smooth]
        what = f"{name}: rows by trees needed fall exponentially, R² of a line through their logarithms"
        claims.append(Claim(figure, what, None, _finite(own), "", above=0.8))
        what = f"{name}: QWYC* is among the two smoothest of {1 + len(RIVALS)}"
        claims.append(Claim(figure, what, None, tuple(among), ""))
    return claims


def _tapering(curve: dict[str, Any]) -> float:
    """R² of a line through the logarithms of the histogram, as far as bins have 5 rows."""
    rows = np.array(curve["histogram"], dtype=np.float64)
    last = int(np.argmax(rows < 5)) if (rows < 5).any() else len(rows)
    if last < 3:
        return float("nan")
    return float(np.corrcoef(np.arange(last), np.log(rows[:last]))[0, 1] ** 2)


def _example() -> NDArray[np.float64]:
    """The scores of appendix A.1, of shape (8, 3)."""
    scores = np.zeros((8, 3))
    for (model, row), value in {(0, 0): 1, (0, 1): -1, (1, 2): 1, (1, 3): 1, (1, 4): -1}.items():
        scores[row, model] = value
    scores[[4, 5, 6, 7], 2] = [-1, 1, -1, -1]
    return scores


def _costs_of_orders() -> dict[str, float]:
    """The cost of every order of the example, with the best thresholds."""
    return {
        str([model + 1 for model in order]): qwyc(_example(), max_disagreement=0.0, order=order).mean_cost
        for order in permutations(range(3))
    }


def _theory(found: Found) -> list[Claim]:
    costs = _costs_of_orders()
    best = min(costs, key=lambda order: costs[order])
    why = f"14/8 is the cost of [3, 2, 1]; {best} costs {8 * costs[best]:.0f}/8"
    what = "cost of the optimal order of the example"
    claims = [
        Claim("Appendix A.1", what, 1.75, (costs[best],), "models", 0.005, why=why, evidence=ALL_ORDERS),
    ]
    why = "models that come before move the sum of a decided row back among the others; see the counterexample"
    for n_models in sorted({cell["instance"] for cell, _ in found.cells if "instance" in cell}):
        values = found.all(instance=n_models)
        ratios, inclusion = ([value[name] for value in values] for name in ("ratio", "inclusion"))
        what = (
            f"{n_models} models: QWYC costs at most 4 times the optimum of all orders (here at most {max(ratios):.2f})"
        )
        claims.append(Claim("Theorem 1", what, None, tuple(float(ratio <= 4) for ratio in ratios), ""))
        what = f"{n_models} models: what a model decides when first, it decides at any position, S_t(i) ⊇ S_t(1)"
        claims.append(Claim("Theorem 1", what, None, tuple(inclusion), "", why=why, evidence=COUNTEREXAMPLE))
    return claims


def _theory_tables() -> list[Table]:
    """What the two errors of the theory can be checked with by hand."""
    rows = [(order, f"{8 * cost:.0f}/8") for order, cost in _costs_of_orders().items()]
    orders = Table(ALL_ORDERS, ("order", "mean cost"), tuple(rows), "No label changes; thresholds are the best ones.")
    header = ("row", "model 1", "model 2", "model 3", "sum", "label", "model 2 first", "model 2 after model 1")
    rows = [
        (name, *map(str, row), str(sum(row)), "+" if sum(row) > 0 else "−", str(row[1]), str(row[0] + row[1]))
        for name, row in zip("AB", UNDONE, strict=True)
    ]
    note = (
        "The ensemble decides by the sign of the sum. When model 2 comes first, it decides both rows rightly: "
        "2 is above the score of every row that ends negative, and 1 below that of every row that ends positive. After "
        "model 1 the running sums are −1 and 1, in the wrong order, and no threshold decides either row."
    )
    return [orders, Table(COUNTEREXAMPLE, header, tuple(rows), note)]


def _appendix_c(found: Found) -> list[Claim]:
    item, why = "Appendix C", f"sums here are log-odds, of a far wider range; see “{BINS}”"
    claims = []
    bins = [
        np.mean([curve["bins"] for curve in curves])
        for curves in zip(*(found.all(curve="Fan, individual MSE", dataset=name) for name in TARGETS), strict=False)
    ]
    what = "mean bins per model at λ = 0.1, of adult and nomao"
    claims.append(Claim(item, what, 10, _finite(bins), "", 5, 1, why, evidence=BINS))
    for name, target in TARGETS.items():
        pairs = found.both(name, "Fan, individual MSE", "Fan, individual MSE, bins of 0.01")
        fewer = [trees_at(wide, target) - trees_at(narrow, target) for wide, narrow in pairs]
        what = f"{name}: λ = 0.01 needs fewer trees than λ = 0.1"
        if np.isfinite(fewer).all():
            claims.append(Claim(item, f"{what}, trees", None, _finite(fewer), "", why=why, above=0.0, evidence=BINS))
        else:  # λ = 0.01 changes more labels than that however cautious it is
            claims.append(Claim(item, what, None, tuple(float(one > 0) for one in fewer), "", why=why, evidence=BINS))
        unseen = tuple(float(narrow["unseen"]) for _, narrow in pairs)
        what = f"{name}, λ = 0.01: test rows in bins without training rows"
        claims.append(Claim(item, what, 10, unseen, "rows", 5, 1, why=why, evidence=BINS))
    return claims


def _readings(found: Found) -> tuple[Claim, ...]:
    squared, claims = found.all(reading="squared loss"), []
    for other in (0.1, 0.001) if squared else ():
        fewer = [cell[f"Fan*, λ = {other:g}"] - cell["Fan*, λ = 0.01"] for cell in squared]
        reached = [cell["Fan*, λ = 0.01"] for cell in squared]
        # Where λ = 0.01 reaches the differences and the other never does, it needs fewer.
        holds = [bool(gap > 0 or (np.isnan(gap) and np.isfinite(own))) for gap, own in zip(fewer, reached, strict=True)]
        what = f"λ = 0.01 needs fewer trees than λ = {other:g}, or that one never differs so little"
        claims.append(Claim(SQUARED, what, None, tuple(map(float, holds)), ""))
    for width, published, tolerance in ((0.1, 10, 5), (0.001, 400, 50)) if squared else ():
        bins = tuple(round(cell[f"bins, Fan*, λ = {width:g}"], 2) for cell in squared)
        claims.append(Claim(SQUARED, f"λ = {width:g}: bins per model", published, bins, "", tolerance, 1))
        unseen = tuple(float(cell[f"unseen, Fan*, λ = {width:g}"]) for cell in squared)
        what = f"λ = {width:g}: test rows in bins without training rows"
        claims.append(Claim(SQUARED, what, 10, unseen, "rows", 5, 1))
    claims += [_against_40(found, name, "smaller ensemble", SAME_RATE) for name in TARGETS]
    claims += [*_against_fan(found, "smaller ensemble", SAME_RATE), *_in_fine_bins(found), *_in_better_bins(found)]
    return (*_grown_otherwise(found), *claims)


def _grown_otherwise(found: Found) -> list[Claim]:
    """Figure 3 for nomao with trees grown in other ways, those with ten repeats."""
    widths = {reading: (0.1, 0.01) if "squared" in options else BIN_WIDTHS for reading, options in READINGS.items()}
    claims = []
    for reading in READINGS:
        named = {"QWYC*": "QWYC*", "Alg. 2, GBT order": "Alg. 2, GBT order", "Fan*, λ = 0.1": "Fan, individual MSE"}
        named |= {f"Fan*, λ = {width:g}": f"Fan, individual MSE, λ = {width:g}" for width in widths[reading][1:]}
        for cell_name, method in named.items():
            cells = [cell[cell_name] for cell in found.all(reading=reading)]
            published = READ_OFF["nomao", method.partition(", λ")[0]]
            if cells:
                what, missed = f"{reading}: {method}", len(cells) - len(_finite(cells))
                why = f"in {missed} of {len(cells)} repeats more differ however cautious the rule is" if missed else ""
                tolerance = 0.1 * published
                claims.append(Claim(GROWN_OTHERWISE, what, published, _finite(cells), "", tolerance, 1, why))
    return claims


def _search_table(found: Found) -> list[Table]:
    """Every reading of nomao that was tried, whatever it gave."""
    methods = ("QWYC*", "Alg. 2, GBT order", *(f"Fan*, λ = {width:g}" for width in BIN_WIDTHS))
    own = {
        "QWYC*": "QWYC*",
        "Alg. 2, GBT order": "Alg. 2, GBT order",
        "Fan*, λ = 0.1": "Fan, individual MSE",
        "Fan*, λ = 0.03": "Fan, individual MSE, bins of 0.03",
    }
    curves = {method: found.all(curve=name, dataset="nomao") for method, name in own.items()}
    as_above = {
        method: [trees_at(curve, TARGETS["nomao"]) for curve in found_curves] for method, found_curves in curves.items()
    }
    accuracy = [cell["accuracy"] for cell in found.all(curve="full", dataset="nomao")]
    rows = [("as above: learning rate 0.05", *_search_row(methods, as_above, accuracy))] if accuracy else []
    for reading in (*READINGS, *SEARCHED):
        cells = found.all(reading=reading)
        if cells:
            by_method = {method: [cell[method] for cell in cells if method in cell] for method in methods}
            rows.append((reading, *_search_row(methods, by_method, [cell["accuracy"] for cell in cells])))
    published = ("published", "1", *(f"{READ_OFF['nomao', own[method]]}" for method in methods[:3]), "15", "15", "")
    header = ("reading", "repeats", *methods, "accuracy of all trees, %")
    note = (
        "Mean trees at 1.1 % differences, ± the deviation between repeats. “(k)”: so many repeats reach so few "
        "differences; the others are left out. Trees have 2^9 leaves or fewer and at least 20 rows in each, and every "
        "reading changes one thing, but for those that name two. The paper has one run, and does not say how wide bins "
        "were here."
    )
    return [Table(SEARCH, header, (published, *rows), note)] if rows else []


def _search_row(
    methods: Sequence[str], trees: Mapping[str, Sequence[float]], accuracy: Sequence[float]
) -> tuple[str, ...]:
    cells = []
    for method in methods:
        every = trees.get(method, ())
        reached = _finite(every)
        scatter = f" ± {np.std(reached, ddof=1):.1f}" if len(reached) > 1 else ""
        missed = f" ({len(reached)})" if len(reached) < len(every) else ""
        cells.append(f"{np.mean(reached):.1f}{scatter}{missed}" if reached else "out of reach" if every else "–")
    return (
        str(len(accuracy)),
        *cells,
        f"{100 * np.mean(accuracy):.2f} ± {100 * np.std(accuracy, ddof=min(1, len(accuracy) - 1)):.2f}",
    )


def _stand_ins(found: Found) -> list[Claim]:
    claims = []
    for experiment, (table, which, trained, by_qwyc, by_fan, *_) in TABLES.items():
        cells = found.all(stand_in=which, trained=trained)
        for method, published in (("QWYC*", by_qwyc), ("Fan*", by_fan)):
            models = _finite([cell[method] for cell in cells])
            if models:
                what = f"{experiment}, {table}: {DATA_OF[which]}, {trained} trained, {method}"
                claims.append(Claim(ON_STAND_INS, what, published, models, "", 0.005, 1))
    return claims


def _notes(found: Found) -> tuple[str, ...]:
    return (
        "**Repeats.** Figures with one repeat have no interval; more repeats go on from the kept cells. "
        "The paper has one run. Repeat 0 has UCI's split of adult; others draw splits of the same sizes. "
        "Published trees were read off Figure 3, hence the tolerance.",
        "**Stand-ins.** Experiments 3 and 5: census income, 183,755 training and 45,940 test rows, the 16 features of "
        "most gain, 5 trees on 13 random features each, 6 % positive. Experiments 4 and 6: covertype, class 2 against "
        "the rest, 83,817 and 20,955 rows, 30 features, 500 trees on 8 random features each. Rules are fitted on "
        "20,000 training rows and stop at the negative side only.",
        "**Time.** Estimated from single cells: about 25 minutes of one free core for ten repeats, two for `--quick`.",
    )


def _tables(found: Found) -> tuple[Table, ...]:
    rows = []
    methods = dict.fromkeys(cell["curve"] for cell, _ in found.cells if "curve" in cell)
    for method in methods:
        if method != "full":
            cells = []
            for name, target in TARGETS.items():
                curves = found.all(curve=method, dataset=name)[:1]
                trees = trees_at(curves[0], target) if curves else float("nan")
                accuracy = max(curves[0]["accuracy"]) if curves else float("nan")
                cells += [f"{trees:.1f}" if np.isfinite(trees) else "out of reach", f"{accuracy:.4f}"]
            rows.append((method, *cells))
    header = ("method", "adult, trees at 0.6 %", "best accuracy", "nomao, trees at 1.1 %", "best accuracy")
    tables = [Table("All methods, repeat 0", header, tuple(rows)), *_search_table(found), *_bins_table(found)]
    tables += _theory_tables()
    sizes = sorted({cell["overfit"] for cell, _ in found.cells if "overfit" in cell})
    if sizes:
        rows = []
        for n_rows in sizes:
            cells = found.all(overfit=n_rows)
            own = [f"{np.mean([100 * cell[m] for cell in cells]):.2f} %" for m in ("QWYC*", "Alg. 2, GBT order")]
            broken = [
                f"{sum(cell[m] > 0.005 for cell in cells)} of {len(cells)}" for m in ("QWYC*", "Alg. 2, GBT order")
            ]
            rows.append((f"{n_rows:,}", own[0], broken[0], own[1], broken[1]))
        header = ("rows fitted to", "QWYC*: changed", "above 0.5 %", "Alg. 2, GBT order: changed", "above 0.5 %")
        note = (
            "Labels of new rows of adult that change after a rule was fitted to so many rows with a limit of 0.5 %, "
            "without a promise. The search over orders and thresholds adapts to the rows it sees; one with a given "
            "order much less."
        )
        tables.append(Table("Overfitting", header, tuple(rows), note))
    return tuple(tables)


def _bins_table(found: Found) -> list[Table]:
    """How many bins Fan's rule fills."""
    kinds = {
        f"{name}, log-odds, λ = {width}": [curve["bins"] for curve in found.all(curve=method, dataset=name)]
        for width, method in (("0.1", "Fan, individual MSE"), ("0.01", "Fan, individual MSE, bins of 0.01"))
        for name in TARGETS
    }
    kinds |= {
        f"nomao, squared loss, λ = {width:g}": [
            cell[f"bins, Fan*, λ = {width:g}"] for cell in found.all(reading="squared loss")
        ]
        for width in (0.1, 0.01, 0.001)
    }
    rows = tuple(
        (title, str(len(bins)), f"{np.mean(bins):.1f}", f"{min(bins):.1f} to {max(bins):.1f}")
        for title, bins in kinds.items()
        if bins
    )
    note = (
        "The paper counts 10 bins in the mean at λ = 0.1 and 400 at 0.001, over all its experiments. Sums of trees "
        "boosted by squared loss lie between 0 and 1 and fill about as many; log-odds fill ten to twenty times as "
        "many, so that the same λ is another width there."
    )
    return [Table(BINS, ("", "repeats", "mean", "range"), rows, note)] if rows else []


def _pictures(found: Found) -> tuple[Picture, ...]:
    pictures = []
    for name in TARGETS:
        lines: list[Line] = []
        accuracy: list[Line] = []
        methods = ("QWYC*", *RIVALS, "Fan, GBT order", "smaller ensemble", "smaller ensemble, retuned")
        for at, method in enumerate(methods):
            for curve in found.all(curve=method, dataset=name)[:1]:
                lines.append(_line(method, curve["trees"], [100 * d for d in curve["difference"]], at))
                trees = curve.get("some_trees", curve["trees"])
                accuracy.append(_line(method, trees, curve["accuracy"], at))
        if lines:
            title = f"{name}: labels that differ from all 500 trees'"
            pictures.append(Picture(f"figure-3-{name}", "Figure 3", title, "mean trees", "% differ", tuple(lines)))
            title = f"{name}: accuracy by mean number of trees"
            item = "Figure 1 and appendix D.2"
            pictures.append(Picture(f"figure-1-{name}", item, title, "mean trees", "accuracy", tuple(accuracy)))
    for figure, name in (("Figure 5", "adult"), ("Figure 6", "nomao")):
        lines = []
        for at, method in enumerate(("QWYC*", *RIVALS)):
            for curve in found.all(curve=method, dataset=name)[:1]:
                rows = np.array(curve["histogram"])
                places = np.flatnonzero(rows)
                label = f"{method}, {100 * curve['histogram_difference']:.2f} %"
                x, y = tuple(map(float, 10 * places + 5)), tuple(np.log10(rows[places]).round(3).tolist())
                lines.append(Line(label, x, y, color=at))
        if lines:
            title = f"{name}: rows by the trees they need"
            pictures.append(
                Picture(figure.lower().replace(" ", "-"), figure, title, "trees", "log10 of rows", tuple(lines))
            )
    for experiment, (_, which, trained, *_) in TABLES.items():
        cells, lines = found.all(stand_in=which, trained=trained), []
        for at, method in enumerate(("QWYC*", "Alg. 2, random", "Alg. 2, individual MSE", "Alg. 2, greedy MSE")):
            if cells:
                difference, models = np.mean([cell[f"curve, {method}"] for cell in cells], axis=0)
                lines.append(_line(method, models, 100 * difference, at, most=500))
        if lines:
            title = f"{experiment}: {DATA_OF[which]}, {trained} trained"
            name = f"figure-{2 if trained == 'jointly' else 4}-{experiment.split()[1]}"
            pictures.append(Picture(name, title, title, "mean models", "% differ", tuple(lines)))
    sizes = sorted({cell["overfit"] for cell, _ in found.cells if "overfit" in cell})
    if sizes:
        lines = []
        for at, method in enumerate(("QWYC*", "Alg. 2, GBT order")):
            shares = [[100 * cell[method] for cell in found.all(overfit=n)] for n in sizes]
            x = tuple(round(float(np.log2(n)), 4) for n in sizes)
            mean, low, high = (tuple(round(float(f(one)), 4) for one in shares) for f in (np.mean, np.min, np.max))
            lines.append(Line(method, x, mean, low, high, color=at))
        ends = (lines[0].x[0], lines[0].x[-1])
        lines.append(Line("limit", ends, (0.5, 0.5), color=5, dashed=True))
        title = "New rows changed, after a fit with a limit of 0.5 %"
        pictures.append(Picture("overfitting", "Figure 3", title, "log2 of rows fitted to", "% changed", tuple(lines)))
    return tuple(pictures)


def _line(title: str, x: Sequence[float], y: Sequence[float], color: int, most: float = 200) -> Line:
    """Return a curve by ascending x, as far as it is of interest."""
    points = sorted((round(float(a), 3), round(float(b), 5)) for a, b in zip(x, y, strict=True) if a <= most)
    points = points or [(float(most), float(y[-1]))]
    return Line(title, tuple(a for a, _ in points), tuple(b for _, b in points), color=color)


def _finite(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(round(float(value), 4) for value in values if np.isfinite(value))


def _accuracy_at(curve: dict[str, Any], trees: float) -> float:
    return _at(curve.get("some_trees", curve["trees"]), curve["accuracy"], trees)


def _difference_at(curve: dict[str, Any], trees: float) -> float:
    return _at(curve["trees"], curve["difference"], trees)


def _at(trees: Sequence[float], values: Sequence[float], wanted: float) -> float:
    """Return the value at so many trees, or at the nearest number that there is."""
    order = np.argsort(trees, kind="stable")
    return float(np.interp(wanted, np.array(trees)[order], np.array(values)[order]))
