"""Mixtures of stopping policies: find the cheapest one under a few linear constraints, by column generation.

A randomised rule draws one deterministic policy; its expected votes and disagreement are the weighted means of the
policies' own. Finding the best weights is a linear program with a column for every possible policy and a row for each
constraint. Only a handful of columns matter: an oracle returns the policy that would lower the objective most at the
current dual prices, until none does. Every price vector also gives a lower bound on the optimum.

Everything is computed in the number type given: floats, or `fractions.Fraction` for a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Number = Any  # float or Fraction, the same within a program
Row = Any  # a sequence or array of numbers
Policy = Any  # whatever the oracle returns as a policy

_MAX_PIVOTS = 1000  # per added column; far more than needed, but rounding could make floats cycle for ever


class Column(NamedTuple):
    """A policy and its coordinates: one expected time per time row, one disagreement per risk row."""

    policy: Policy
    time: Sequence[Number]
    risk: Sequence[Number]


class Program(NamedTuple):
    """Minimise expected votes under bounds on disagreement.

    Parameters
    ----------
    time : sequence of rows of n_voters + 1 weights
        Expected votes are weighted by a row; the objective is the first row, or the largest with `worst_case`.
    risk : sequence of rows of n_voters + 1 weights
    bounds : sequence of positive numbers
        Row ``r`` demands sum over n of ``risk[r][n] * disagreement[n] <= bounds[r]``.
    worst_case : bool
    """

    time: Sequence[Row]
    risk: Sequence[Row]
    bounds: Sequence[Number]
    worst_case: bool


class Mixture(NamedTuple):
    """Weights over policies, the objective they reach, and a lower bound on that of any rule."""

    weights: list[Number]
    policies: list[Policy]
    objective: Number
    lower_bound: Number


class Prices(NamedTuple):
    """Dual prices of an expected vote in each time row, and of a disagreement in each risk row."""

    time: list[Number]
    risk: list[Number]


Oracle = Callable[[Prices], Column]


class _Simplex:
    """The simplex method over a growing list of columns, for a handful of rows and any number type.

    The basis is inverted afresh after every pivot and its solution refined once: near the optimum the columns are
    almost alike, and updates of an inverse would lose the digits that tell them apart.
    """

    def __init__(self, right: Sequence[Number], tolerance: Number, number: Callable[[Any], Number]) -> None:
        self.right = right
        self.tolerance = tolerance
        self.number = number
        self.columns: list[Sequence[Number]] = []
        self.costs: list[Number] = []
        self.basis: list[int] = []
        self.level: list[Number] = []  # value of each basic column
        self.inverse: list[list[Number]] = []

    def add(self, column: Sequence[Number], cost: Number) -> int:
        """Add a column and return its index."""
        self.columns.append([self.number(entry) for entry in column])
        self.costs.append(self.number(cost))
        return len(self.columns) - 1

    @property
    def objective(self) -> Number:
        return _dot([self.costs[k] for k in self.basis], self.level)

    @property
    def duals(self) -> list[Number]:
        costs = [self.costs[k] for k in self.basis]
        return [_dot(costs, column) for column in zip(*self.inverse, strict=True)]

    def make_basic(self, basis: list[int]) -> None:
        """Solve for the columns `basis`, one per row."""
        n_rows = len(basis)
        rows = list(zip(*(self.columns[k] for k in basis), strict=True))
        units = [[int(r == s) for s in range(n_rows)] for r in range(n_rows)]
        solved = _eliminate([[*row, b, *unit] for row, b, unit in zip(rows, self.right, units, strict=True)])
        self.basis = basis
        self.inverse = [row[n_rows + 1 :] for row in solved]
        level = [row[n_rows] for row in solved]
        # One step of refinement: the residual of the solution, multiplied by the inverse.
        missed = [b - _dot(row, level) for row, b in zip(rows, self.right, strict=True)]
        self.level = [x + _dot(row, missed) for x, row in zip(level, self.inverse, strict=True)]

    def optimise(self) -> bool:
        """Pivot until no listed column lowers the objective, and return whether any did.

        Bland's rule (the first column that helps enters) keeps exact arithmetic from cycling.
        """
        for n_pivots in range(_MAX_PIVOTS):
            duals, slack = self.duals, self.tolerance * abs(self.objective)
            better = (k for k, column in enumerate(self.columns) if self.costs[k] - _dot(duals, column) < -slack)
            entering = next((k for k in better if k not in self.basis), None)
            if entering is None:
                return n_pivots > 0
            change = [_dot(row, self.columns[entering]) for row in self.inverse]
            falling = [r for r in range(len(change)) if change[r] > self.tolerance]
            leaving = min(falling, key=lambda r: (self.level[r] / change[r], self.basis[r]))
            self.make_basic([entering if r == leaving else k for r, k in enumerate(self.basis)])
        return False


def _eliminate(rows: list[list[Number]]) -> list[list[Number]]:
    """Turn the leading square of `rows` into the identity by Gauss-Jordan elimination with the largest pivots."""
    for k in range(len(rows)):
        best = max(range(k, len(rows)), key=lambda r: abs(rows[r][k]))
        rows[k], rows[best] = rows[best], rows[k]
        rows[k] = [entry / rows[k][k] for entry in rows[k]]
        for r in range(len(rows)):
            if r != k and rows[r][k]:
                factor = rows[r][k]
                rows[r] = [entry - factor * by for entry, by in zip(rows[r], rows[k], strict=True)]
    return rows


def _dot(left: Sequence[Number], right: Sequence[Number]) -> Number:
    return sum(a * b for a, b in zip(left, right, strict=True))


class _Master:
    """The linear program over the columns found so far.

    Its rows: the weights sum to one, the risks are bounded and, in the worst case, no time exceeds the largest.
    """

    def __init__(
        self, program: Program, n_voters: int, start: Column, tolerance: Number, number: Callable[[Any], Number]
    ) -> None:
        self.bounds, self.worst_case, self.scale = program.bounds, program.worst_case, n_voters
        n_risk, n_time = len(program.bounds), len(program.time) if program.worst_case else 0
        n_rows = 1 + n_risk + n_time
        self.simplex = _Simplex([1] * (1 + n_risk) + [0] * n_time, tolerance, number)
        self.found: dict[int, Policy] = {}
        # The first policy never disagrees, so with one slack per row it is a feasible basis.
        basis = [self.add(start)]
        basis += [self.simplex.add([int(r == s) for r in range(n_rows)], 0) for s in range(1, n_rows)]
        if n_time:
            largest = max(range(n_time), key=lambda k: start.time[k])
            basis[1 + n_risk + largest] = self.simplex.add([0] * (1 + n_risk) + [-1] * n_time, 1)
        self.simplex.make_basic(basis)

    def add(self, column: Column) -> int:
        """Add a policy and return the index of its column."""
        # Rows are divided by their bounds and times by the number of voters, so that floats compare like with like.
        risk = [risk / bound for risk, bound in zip(column.risk, self.bounds, strict=True)]
        time = [time / self.scale for time in column.time]
        entries, cost = ([1, *risk, *time], 0) if self.worst_case else ([1, *risk], time[0])
        index = self.simplex.add(entries, cost)
        self.found[index] = column.policy
        return index

    @property
    def objective(self) -> Number:
        return self.simplex.objective * self.scale

    def prices(self) -> Prices:
        """Return the dual prices in the units of votes and chances."""
        duals = [max(-dual, 0) for dual in self.simplex.duals[1:]]
        n_risk = len(self.bounds)
        risk = [dual * self.scale / bound for dual, bound in zip(duals[:n_risk], self.bounds, strict=True)]
        return Prices(duals[n_risk:] if self.worst_case else [1], risk)

    def mixture(self, lower_bound: Number) -> Mixture:
        """Return the policies of the basis with their weights."""
        basic = [
            (level, self.found[k])
            for k, level in zip(self.simplex.basis, self.simplex.level, strict=True)
            if k in self.found and level > self.simplex.tolerance
        ]
        return Mixture([level for level, _ in basic], [policy for _, policy in basic], self.objective, lower_bound)


def find_cheapest_mixture(
    n_voters: int,
    program: Program,
    oracle: Oracle,
    start: Sequence[Column],
    *,
    number: Callable[[Any], Number],
    max_gap: Number = 0,
    tolerance: Number = 0,
    rounding: Number = 0,
) -> Mixture:
    """Solve `program` over all policies.

    Parameters
    ----------
    n_voters : int
    program : Program
    oracle : callable
        Maps prices to the policy of least priced cost.
    start : sequence of Column
        The first must have no disagreement at all.
    number : callable
        The type to compute in: float or Fraction.
    max_gap : number
        Stop once objective and lower bound differ by at most this fraction of the objective.
    tolerance : number
        What counts as zero in a pivot.
    rounding : number
        Relative error of the oracle's coordinates, subtracted from the lower bound. All three are 0 in exact
        arithmetic.
    """
    master = _Master(program, n_voters, start[0], tolerance, number)
    for column in start[1:]:
        master.add(column)
    master.simplex.optimise()
    lower_bound: Number = 0
    while True:
        prices = master.prices()
        column = oracle(prices)
        cost = _dot(prices.time, column.time) + _dot(prices.risk, column.risk)
        # Lagrangian duality: at any prices the least priced cost less the priced bounds is below every objective.
        bound = (cost * (1 - rounding) - _dot(prices.risk, program.bounds)) / sum(prices.time)
        lower_bound = max(lower_bound, bound)
        objective = master.objective
        if objective - lower_bound <= max_gap * objective:
            break
        master.add(column)
        if not master.simplex.optimise():
            break  # what remains is rounding
    return master.mixture(lower_bound)
