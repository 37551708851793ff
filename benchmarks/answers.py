"""Calls of `fit_plurality` next to those of two published stop rules, at equal measured disagreement.

Questions are multinomial streams of 40 samples with 2 to 40 possible answers. The rule is fitted to 3,000 questions
and tried on 40,000 others. The rivals watch the votes a and b of the two most common answers:

- Adaptive-Consistency (Aggarwal et al., EMNLP 2023): stop once Pr(Beta(a + 1, b + 1) > 1/2) reaches a confidence;
- CITE (Ota et al., arXiv:2605.05873): an e-process for each rival, certified once the smallest reaches 1 / level. The
  e-process of a pair is the likelihood ratio of its votes against a fair coin, with the winner's share mixed uniformly
  over (1/2, 1); the smallest is that of the most common rival. The paper names its target in advance; here it is the
  current leader, which favours the rival. Its text allows other mixtures; this is the uniform one.

Confidence and level are searched so that each rival changes as many winners as the fitted rule does.

Run it with `python benchmarks/answers.py`; it writes `benchmarks/results/answers.json`.
"""

import json
from pathlib import Path

import numpy as np
from scipy.special import betainc, betaln

from scurry.stopping import fit_plurality

N_CALLS, N_CALIBRATION, N_NEW = 40, 3000, 40_000
RESULTS = Path(__file__).parent / "results" / "answers.json"


def sample_answers(rng, n_questions, n_choices, favour):
    """Return sampled answers of shape (n_questions, N_CALLS): one choice is favoured, more or less strongly."""
    share = rng.beta(favour, 0.6, size=n_questions)
    others = rng.dirichlet(np.full(n_choices - 1, 0.5), size=n_questions)
    chances = np.column_stack([share, others * (1 - share)[:, None]])
    passed = rng.random((n_questions, N_CALLS, 1)) > chances.cumsum(axis=1)[:, None]
    return np.minimum(passed.sum(axis=2), n_choices - 1)


def count_leaders(answers):
    """Return the leader and the votes of leader and runner-up after each call; three arrays like `answers`."""
    counts = np.cumsum(answers[:, :, None] == np.arange(answers.max() + 1), axis=1, dtype=np.int16)
    first_seen = (answers[:, :, None] == np.arange(answers.max() + 1)).argmax(axis=1)
    # A tie goes to the answer that was seen first.
    leader = (counts.astype(np.int32) * N_CALLS - first_seen[:, None, :]).argmax(axis=2)
    second, first = np.partition(counts, -2, axis=2)[:, :, -2:].transpose(2, 0, 1)
    return leader, first.astype(float), second.astype(float)


def judge(stops, leader):
    """Return mean calls and the share of changed winners of a rule, given where it would stop."""
    last = np.where(stops.any(axis=1), stops.argmax(axis=1), N_CALLS - 1)
    return float((last + 1).mean()), float((leader[np.arange(len(last)), last] != leader[:, -1]).mean())


def calls_at(statistic, leader, disagreement):
    """Return the calls of the rule ``statistic >= limit`` whose limit changes `disagreement` of the winners."""
    limits = np.quantile(statistic, np.linspace(0.0, 1.0, 400))
    calls, changed = np.transpose([judge(statistic >= limit, leader) for limit in np.unique(limits)])
    return float(np.interp(-disagreement, -changed, calls))


def adaptive_consistency(first, second):
    return -np.log(np.maximum(betainc(first + 1, second + 1, 0.5), 1e-300))


def cite(first, second):
    above = np.maximum(1.0 - betainc(first + 1, second + 1, 0.5), 1e-300)
    return (first + second + 1) * np.log(2.0) + betaln(first + 1, second + 1) + np.log(above)


def main():
    cells = []
    for n_choices in (2, 3, 5, 10, 40):
        for favour in (2.5, 1.0):
            rng = np.random.default_rng([n_choices, int(10 * favour)])
            known = sample_answers(rng, N_CALIBRATION, n_choices, favour)
            leader, first, second = count_leaders(sample_answers(rng, N_NEW, n_choices, favour))
            for max_disagreement in (0.002, 0.01, 0.05):
                rule = fit_plurality(known, max_disagreement, random_state=0).rule
                calls, changed = judge(rule.stops(np.arange(1, N_CALLS + 1), first, second), leader)
                cell = {
                    "n_answers": n_choices,
                    "favour": favour,
                    "max_disagreement": max_disagreement,
                    "calls": round(calls, 2),
                    "measured": changed,
                }
                for name, statistic in (("adaptive_consistency", adaptive_consistency), ("cite", cite)):
                    cell[name] = round(calls_at(statistic(first, second), leader, changed), 2)
                cells.append(cell)
                print(
                    f"{n_choices:3} answers, at most {max_disagreement:.1%}: {calls:5.2f} calls, {changed:.3%} changed;"
                    f" Adaptive-Consistency {cell['adaptive_consistency']:5.2f}, CITE {cell['cite']:5.2f}",
                    flush=True,
                )
    RESULTS.write_text(json.dumps({"n_calls": N_CALLS, "n_new": N_NEW, "cells": cells}, indent=1) + "\n")
    for name in ("adaptive_consistency", "cite"):
        ratios = [cell["calls"] / cell[name] for cell in cells]
        print(f"calls relative to {name}: mean {np.mean(ratios):.3f}, largest {max(ratios):.3f}")


if __name__ == "__main__":
    main()
