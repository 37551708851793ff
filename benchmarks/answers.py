"""Calls of `fit_plurality` next to those of two published stop rules, at equal measured disagreement.

Questions are multinomial streams of 40 samples with 2 to 40 possible answers. Rules are fitted to ten samples of 3,000
questions and tried on 400,000 others. The rivals watch the votes a and b of the two most common answers:

- Adaptive-Consistency (Aggarwal et al., EMNLP 2023): stop once Pr(Beta(a + 1, b + 1) > 1/2) reaches a confidence;
- CITE (Ota et al., arXiv:2605.05873): an e-process for each rival, certified once the smallest reaches 1 / level. The
  e-process of a pair is the likelihood ratio of its votes against a fair coin, with the winner's share mixed uniformly
  over (1/2, 1); the smallest is that of the most common rival. The paper names its target in advance; here it is the
  current leader, which favours the rival. Its text allows other mixtures; this is the uniform one.

Confidence and level are searched so that each rival changes as many winners as each fitted rule does.

Run it with `python benchmarks/answers.py --jobs 2`; it writes `benchmarks/results/answers.json`.
"""

import argparse
import json
from itertools import product

import numpy as np
from scipy.special import betainc, betaln

from jobs import run_jobs
from report import RESULTS, commit
from scurry.stopping import fit_plurality

N_CALLS, N_CALIBRATION, N_FITS = 40, 3000, 10
N_NEW, N_AT_ONCE = 400_000, 20_000  # questions to try rules on, in parts that fit into memory
RIVALS = ("adaptive_consistency", "cite")


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
    return leader.astype(np.int16), first.astype(np.float32), second.astype(np.float32)


def judge(stops, leader):
    """Return mean calls and the share of changed winners of a rule, given where it would stop."""
    last = np.where(stops.any(axis=1), stops.argmax(axis=1), N_CALLS - 1)
    return float((last + 1).mean()), float((leader[np.arange(len(last)), last] != leader[:, -1]).mean())


def trade_off(statistic, leader):
    """Return the calls and changed winners of the rules ``statistic >= limit``, from many changed winners to few."""
    limits = np.unique(np.quantile(statistic[:20_000], np.linspace(0.0, 1.0, 400)))
    return np.transpose([judge(statistic >= limit, leader) for limit in limits])


def adaptive_consistency(first, second):
    return -np.log(np.maximum(betainc(first + 1, second + 1, 0.5), 1e-300))


def cite(first, second):
    above = np.maximum(1.0 - betainc(first + 1, second + 1, 0.5), 1e-300)
    return (first + second + 1) * np.log(2.0) + betaln(first + 1, second + 1) + np.log(above)


def compare(streams):
    """Return the cells of one kind of stream: mean calls of rules fitted to several samples, and of the rivals."""
    n_choices, favour = streams
    rng = np.random.default_rng([n_choices, int(10 * favour)])
    known = [sample_answers(rng, N_CALIBRATION, n_choices, favour) for _ in range(N_FITS)]
    parts = [count_leaders(sample_answers(rng, N_AT_ONCE, n_choices, favour)) for _ in range(N_NEW // N_AT_ONCE)]
    leader, first, second = (np.concatenate(part) for part in zip(*parts, strict=True))
    curves = {rival: trade_off(globals()[rival](first, second).astype(np.float32), leader) for rival in RIVALS}
    cells = []
    for max_disagreement in (0.002, 0.01, 0.05):
        rules = [fit_plurality(sample, max_disagreement, random_state=0).rule for sample in known]
        calls, changed = np.transpose(
            [judge(rule.stops(np.arange(1, N_CALLS + 1), first, second), leader) for rule in rules]
        )
        cell = {"n_answers": n_choices, "favour": favour, "max_disagreement": max_disagreement}
        cell |= {"calls": round(float(calls.mean()), 3), "measured": float(changed.mean())}
        for rival, (its_calls, its_changed) in curves.items():
            # As many calls as the rival takes where it changes as many winners as each rule.
            cell[rival] = round(float(np.interp(-changed, -its_changed, its_calls).mean()), 3)
        cells.append(cell)
        print(cell, flush=True)
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    found = {}
    for streams, cells, error in run_jobs(
        compare, list(product((2, 3, 5, 10, 40), (2.5, 1.0))), parser.parse_args().jobs
    ):
        if error:
            raise SystemExit(error)
        found[streams] = cells
    cells = [cell for streams in sorted(found) for cell in found[streams]]
    result = {"commit": commit(), "n_calls": N_CALLS, "n_fits": N_FITS, "n_new": N_NEW, "cells": cells}
    (RESULTS / "answers.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for rival in RIVALS:
        ratios = [cell["calls"] / cell[rival] for cell in cells]
        print(f"calls relative to {rival}: mean {np.mean(ratios):.3f}, largest {max(ratios):.3f}")


if __name__ == "__main__":
    main()
