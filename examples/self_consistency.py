"""Self-consistency with fewer calls: stop sampling a language model once its majority answer is clear.

Self-consistency asks a model the same question many times and takes the most common answer. Here the model is
simulated: every question has its own answer probabilities, most of them lopsided, some close. Each scurry rule is
compared with the Beta rule of Adaptive-Consistency (Aggarwal et al., EMNLP 2023), which stops once
Pr(Beta(v1 + 1, v2 + 1) > 1/2) reaches a confidence, v1 and v2 being the votes of the two most common answers; its
confidence is set so that both differ from the full vote on equally many questions.

Run it with `python examples/self_consistency.py`; it takes about half a minute.
"""

from itertools import permutations

import numpy as np
from scipy.special import betainc

from scurry.stopping import fit_votes, solve_plurality

N_CALLS = 40
CONFIDENCES = np.r_[np.arange(0.7, 0.99, 0.0025), 1 - np.geomspace(1e-2, 1e-8, 100)]


def simulated_answers(rng, n_questions, n_choices):
    """Answers of shape (n_questions, N_CALLS); one choice is favoured, more or less strongly."""
    favour = rng.beta(2.5, 0.6, size=n_questions)
    others = rng.dirichlet(np.full(n_choices - 1, 0.5), size=n_questions)
    chances = rng.permuted(np.column_stack([favour, others * (1 - favour)[:, None]]), axis=1)
    passed = rng.random((n_questions, N_CALLS, 1)) > chances.cumsum(axis=1)[:, None, :]
    return np.minimum(passed.sum(axis=2), n_choices - 1)


def counted(answers, n_choices):
    return (answers[:, :, None] == np.arange(n_choices)).sum(axis=1)


def with_stopper(answers, make_stopper):
    """Ask until the stopper has enough; the decision and the calls made, per question."""
    decisions, calls = [], []
    for sampled in answers.tolist():
        stopper = make_stopper()
        remaining = iter(sampled)
        while not stopper.stopped:
            stopper.update(next(remaining))
        decisions.append(stopper.decision)
        calls.append(stopper.n_seen)
    return np.array(decisions), np.array(calls)


def calls_of_adaptive_consistency(answers, n_choices, disagreement):
    """Calls of the Beta rule whose confidence makes it differ from the full vote as often as `disagreement`."""
    counts = np.cumsum(answers[:, :, None] == np.arange(n_choices), axis=1)
    second, first = np.sort(counts, axis=2)[:, :, -2:].transpose(2, 0, 1)
    surest = 1.0 - betainc(first + 1, second + 1, 0.5)
    surest[:, -1] = 1.0
    leader = counts.argmax(axis=2)
    wrong, calls = [], []
    for confidence in CONFIDENCES:
        last = (surest >= confidence).argmax(axis=1)
        wrong.append((leader[np.arange(len(answers)), last] != leader[:, -1]).mean())
        calls.append((last + 1).mean())
    return np.interp(-disagreement, -np.array(wrong), calls)


def compare(name, answers, n_choices, make_stopper):
    full = counted(answers, n_choices).argmax(axis=1)
    decisions, calls = with_stopper(answers, make_stopper)
    disagreement = (decisions != full).mean()
    other = calls_of_adaptive_consistency(answers, n_choices, disagreement)
    print(
        f"  {name:<58} {calls.mean():5.2f} calls, {disagreement:.3%} differ from all {N_CALLS}"
        f"   (Adaptive-Consistency: {other:5.2f} calls)"
    )


def histogram(answers, n_choices):
    """How often the full vote falls in each way, whichever the choices are called, and a little for any other way."""
    counts = counted(answers, n_choices)
    weights = np.zeros((N_CALLS + 1,) * (n_choices - 1))
    for renamed in permutations(range(n_choices)):
        np.add.at(weights, tuple(counts[:, renamed].T[1:]), 1.0)
    possible = np.indices(weights.shape).sum(axis=0) <= N_CALLS
    return weights / weights.sum() + 0.05 * possible / possible.sum()


def main():
    rng = np.random.default_rng(0)

    print("Yes/no questions")
    calibration, answers = simulated_answers(rng, 4_000, 2), simulated_answers(rng, 10_000, 2)
    for max_disagreement in (0.002, 0.01):
        rule, promise = fit_votes(calibration.sum(axis=1), N_CALLS, max_disagreement, random_state=0)
        name = f"fitted; promise: at most {max_disagreement:.1%}, confidence {promise.confidence:.0%}"
        compare(name, answers, 2, lambda rule=rule: rule.stopper(rng))

    print("Questions with four choices")
    calibration, answers = simulated_answers(rng, 4_000, 4), simulated_answers(rng, 5_000, 4)
    rule = solve_plurality(N_CALLS, 4, 0.1)
    compare("pairwise; at most 10 % for each question, nothing fitted", answers, 4, lambda: rule.stopper(None, rng))
    counted = solve_plurality(N_CALLS, 4, 0.003, "class-counts", histogram(calibration, 4))
    compare("class counts; at most 0.3 % of the questions fitted to", answers, 4, lambda: counted.stopper(None, rng))


if __name__ == "__main__":
    main()
