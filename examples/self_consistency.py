"""Self-consistency with fewer calls: stop sampling a language model once its most common answer is clear.

Self-consistency asks a model the same question many times and takes the most common answer. Here the model is
simulated: every question has its own answer probabilities, most of them lopsided, some close. A rule is fitted to old
questions for which all samples are known, and promises how rarely the winner of a new question changes. It is compared
with the Beta rule of Adaptive-Consistency (Aggarwal et al., EMNLP 2023), which stops once
Pr(Beta(v1 + 1, v2 + 1) > 1/2) reaches a confidence, v1 and v2 being the votes of the two most common answers.

Run it with `python examples/self_consistency.py`; it takes about half a minute.
"""

from collections import Counter

import numpy as np
from scipy.special import betainc

from scurry.stopping import fit_plurality

N_CALLS = 40


def ask_model(rng, n_questions):
    """Return sampled answers as text, shape (n_questions, N_CALLS); any number of different answers may come."""
    share = rng.beta(2.5, 0.6, size=n_questions)  # of the favourite answer
    others = rng.integers(1, 30, size=(n_questions, N_CALLS))
    return np.where(rng.random((n_questions, N_CALLS)) < share[:, None], "42", others.astype("U2"))


def adaptive_consistency(answers, confidence):
    """Return winner and number of calls of the Beta rule."""
    counts = Counter()
    for answer in answers:
        counts[answer] += 1
        (winner, first), (_, second) = [*counts.most_common(2), (None, 0)][:2]
        if 1.0 - betainc(first + 1, second + 1, 0.5) >= confidence:
            break
    return winner, counts.total()


def fitted(answers, rule):
    """Return winner and number of calls of a fitted rule."""
    stopper = rule.stopper()
    for answer in answers:
        if stopper.update(answer):
            break
    return stopper.decision, stopper.n_seen


def main():
    rng = np.random.default_rng(0)
    known, new = ask_model(rng, 3_000), ask_model(rng, 4_000).tolist()
    full = [Counter(answers).most_common(1)[0][0] for answers in new]

    def show(name, outcomes):
        calls = np.mean([n_calls for _, n_calls in outcomes])
        changed = np.mean([winner != expected for (winner, _), expected in zip(outcomes, full, strict=True)])
        print(f"  {name:<52} {calls:5.2f} of {N_CALLS} calls, {changed:.2%} of the winners change")

    for max_disagreement in (0.01, 0.03):
        rule, promise = fit_plurality(known, max_disagreement, random_state=0)
        name = f"fitted, promise: at most {max_disagreement:.0%}, {promise.confidence:.0%} sure"
        show(name, [fitted(answers, rule) for answers in new])
    for confidence in (0.8, 0.9, 0.95):
        name = f"Adaptive-Consistency, confidence {confidence:.0%}"
        show(name, [adaptive_consistency(answers, confidence) for answers in new])


if __name__ == "__main__":
    main()
