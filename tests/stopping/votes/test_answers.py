"""Rules for open answers: what a stopper does, what is promised about new questions, bad input."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.special import betainc

from scurry.errors import FormatError, InputError, ScurryWarning
from scurry.stopping import AnswerRule, fit_plurality
from scurry.stopping.losses import best_stake, loss_p_value
from scurry.stopping.votes import answers as answers_module
from scurry.stopping.votes.answers import _questions_needed, _shuffle


def sample_answers(rng, n_questions, n_voters, n_choices, favour=(2.5, 0.6)):
    """Return codes of sampled answers: one choice is favoured more or less strongly."""
    share = rng.beta(*favour, size=n_questions)
    others = rng.dirichlet(np.full(n_choices - 1, 0.5), size=n_questions)
    chances = np.column_stack([share, others * (1 - share)[:, None]])
    passed = rng.random((n_questions, n_voters, 1)) > chances.cumsum(axis=1)[:, None]
    return np.minimum(passed.sum(axis=2), n_choices - 1)


def play(rule, answers, weights=None):
    """Return decision and number of answers of one question, counted by hand."""
    totals, seen = {}, []
    for i, answer in enumerate(answers):
        totals[answer] = totals.get(answer, 0.0) + (1.0 if weights is None else weights[i])
        if answer not in seen:
            seen.append(answer)
        if rule.is_check(i + 1):
            ranked = sorted([0.0, *totals.values()])
            if rule.stops(i + 1, ranked[-1], ranked[-2]):
                break
    best = max(totals.values())
    return next(answer for answer in seen if totals[answer] == best), i + 1


def play_stopper(rule, answers):
    stopper = rule.stopper()
    for answer in answers:
        if stopper.update(answer):
            break
    return stopper.decision, stopper.n_seen


@pytest.mark.parametrize("batch_size", [1, 4, 7])
def test_a_stopper_counts_as_by_hand(batch_size):
    rng = np.random.default_rng(0)
    rule = fit_plurality(sample_answers(rng, 300, 20, 5), 0.05, batch_size=batch_size, random_state=0).rule
    for answers in sample_answers(rng, 200, 20, 5, favour=(1, 1)):
        decision, n_seen = play_stopper(rule, answers.tolist())
        assert (decision, n_seen) == play(rule, answers.tolist())
        assert n_seen % batch_size == 0 or n_seen == 20


@pytest.mark.parametrize("weighted", [False, True])
def test_shuffled_orders_are_counted_as_a_stopper_counts_them(weighted):
    rng = np.random.default_rng(1)
    codes = sample_answers(rng, 30, 12, 6, favour=(1, 2)).astype(np.int32)
    weights = rng.integers(0, 4, codes.shape).astype(float) if weighted else None
    rule = AnswerRule(12, 0.1, np.full((4, 13), 13, np.int32), batch_size=3, max_weight=3.0)
    orders = _shuffle(codes, weights, rule, np.random.default_rng(5))
    # The same shuffles again, counted one by one.
    shuffled = np.random.default_rng(5).permuted(np.tile(np.arange(12), (orders.winner.shape[1], 1)), axis=1)
    for column, order in enumerate(shuffled[:200]):
        question = column % 30
        totals = {}
        for i, position in enumerate(order):
            answer = codes[question, position]
            totals[answer] = totals.get(answer, 0.0) + (1.0 if weights is None else weights[question, position])
            if (i + 1) % 3 == 0:
                check = i // 3
                second, first = sorted([0.0, *totals.values()])[-2:]
                assert orders.winner[check, column] == max(totals, key=totals.get)
                assert (orders.leader[check, column], orders.runner_up[check, column]) == (first, second)


def test_fewer_answers_than_all_and_the_promise_kept():
    rng = np.random.default_rng(2)
    rule, promise = fit_plurality(sample_answers(rng, 2000, 40, 9), 0.01, random_state=0)
    new = sample_answers(rng, 4000, 40, 9)
    outcomes = [play_stopper(rule, answers) for answers in new.tolist()]
    full = [max(dict.fromkeys(answers), key=answers.count) for answers in new.tolist()]
    assert np.mean([n_seen for _, n_seen in outcomes]) < 10
    assert np.mean([decision != winner for (decision, _), winner in zip(outcomes, full, strict=True)]) <= 0.01
    assert promise.max_disagreement == 0.01
    assert promise.upper_bound <= 0.01
    assert promise.n_rows == 1500


@pytest.mark.slow
def test_certificates_break_no_more_often_than_allowed():
    # A known pool: the truth is the loss over all of its questions.
    rng = np.random.default_rng(3)
    pool = sample_answers(rng, 1500, 8, 4, favour=(1.5, 0.8)).astype(np.int32)
    certain = AnswerRule(8, 0.1, np.full((8, 9), 9, np.int32))
    truth = _shuffle(pool, None, certain, rng)
    n_draws, broken = 200, 0
    for draw in range(n_draws):
        chosen = pool[rng.integers(0, len(pool), 150)]
        rule = fit_plurality(chosen, 0.05, confidence=0.9, random_state=draw).rule
        broken += truth.losses(rule).mean() > 0.05
    # 10 % may break; 32 of 200 is beyond that with chance 0.005.
    assert broken <= 32


def test_a_stake_that_fits_proves_more():
    rng = np.random.default_rng(4)
    shaping, tested = (np.where(rng.random(2000) < 0.02, 0.05, 0.0) for _ in range(2))
    assert loss_p_value(tested, 0.003, stakes=[best_stake(shaping, 0.003)]) < loss_p_value(tested, 0.003) / 2


def test_any_hashable_answer_and_ties():
    rule = AnswerRule(4, 0.0, np.full((4, 5), 5, np.int32))
    stopper = rule.stopper()
    assert stopper.decision is None
    assert stopper.update_many([("x", 1), frozenset({2}), frozenset({2}), ("x", 1)])
    assert stopper.decision == ("x", 1)
    assert stopper.votes == {("x", 1): 2.0, frozenset({2}): 2.0}
    assert stopper.update("late")
    assert stopper.n_seen == 4


@pytest.mark.parametrize("answer", ["42", b"42"])
def test_a_text_is_one_answer_and_no_batch_of_letters(answer):
    stopper = AnswerRule(4, 0.0, np.full((4, 5), 5, np.int32)).stopper()
    with pytest.raises(InputError, match="42' is a single answer: pass it to update"):
        stopper.update_many(answer)
    assert stopper.n_seen == 0


def test_weights_decide_and_are_bounded():
    rng = np.random.default_rng(5)
    answers = sample_answers(rng, 400, 10, 3)
    weights = rng.uniform(0.1, 1.0, answers.shape)
    rule = fit_plurality(answers, 0.1, weights=weights, max_weight=1.0, random_state=0).rule
    stopper = rule.stopper()
    stopper.update_many(["a", "b"], [0.2, 0.9])
    assert stopper.decision == "b"
    with pytest.raises(InputError, match=r"at most 1, .* got 1.5. Pass the .* fit_plurality as max_weight="):
        stopper.update("a", 1.5)
    losses = [play(rule, a, w)[1] for a, w in zip(answers.tolist(), weights.tolist(), strict=True)]
    assert np.mean(losses) < 8


def test_an_answer_of_weight_0_is_asked_for_and_adds_nothing():
    rng = np.random.default_rng(11)
    answers = sample_answers(rng, 600, 12, 4)
    weights = np.where(rng.random(answers.shape) < 0.3, 0.0, rng.uniform(0.2, 1.0, answers.shape))
    rule, promise = fit_plurality(answers[:400], 0.1, weights=weights[:400], random_state=0)
    assert promise.confidence == 0.95
    changed = []
    for question, weight in zip(answers[400:].tolist(), weights[400:].tolist(), strict=True):
        stopper = rule.stopper()
        next(i for i, pair in enumerate(zip(question, weight, strict=True), 1) if stopper.update(*pair) or i == 12)
        assert (stopper.decision, stopper.n_seen) == play(rule, question, weight)
        votes = [sum(w for a, w in zip(question, weight, strict=True) if a == answer) for answer in question]
        changed.append(stopper.decision != question[int(np.argmax(votes))])
    assert np.mean(changed) <= 0.1


def test_weights_of_voters_are_those_of_all_their_answers():
    answers = sample_answers(np.random.default_rng(12), 300, 9, 3)
    weights = np.linspace(0.2, 1.0, 9)
    given, every = (
        fit_plurality(answers, 0.1, weights=w, random_state=0) for w in (weights, np.tile(weights, (300, 1)))
    )
    np.testing.assert_array_equal(given.rule.upper, every.rule.upper)
    assert given.promise == every.promise
    assert given.rule.weighted


def test_no_promise_possible_gives_the_certain_rule():
    rule, promise = fit_plurality([["a", "b", "a"]] * 8, 0.01, random_state=0)
    assert promise.confidence == 1.0
    assert promise.upper_bound == 0.0
    assert play_stopper(rule, ["a", "a", "b"]) == ("a", 2)
    assert play_stopper(rule, ["a", "b", "b"]) == ("b", 3)
    assert fit_plurality(sample_answers(np.random.default_rng(0), 50, 6, 3), 0.0).promise.upper_bound == 0.0


def test_without_confidence_the_rule_keeps_its_bound_on_the_questions_themselves():
    answers = sample_answers(np.random.default_rng(6), 500, 20, 4)
    rule, promise = fit_plurality(answers, 0.02, confidence=None, random_state=0)
    assert promise is None
    full = [max(dict.fromkeys(row), key=row.count) for row in answers.tolist()]
    decided = [play_stopper(rule, row)[0] for row in answers.tolist()]
    assert np.mean([a != b for a, b in zip(decided, full, strict=True)]) <= 0.04


def test_the_same_seed_gives_the_same_rule_and_parts_bring_it_back():
    answers = sample_answers(np.random.default_rng(7), 200, 15, 4)
    rule = fit_plurality(answers, 0.1, batch_size=4, random_state=3).rule
    again = fit_plurality(answers.tolist(), 0.1, batch_size=4, random_state=3).rule
    np.testing.assert_array_equal(rule.upper, again.upper)
    header, arrays = rule.to_parts()
    stored = AnswerRule.from_parts(header, arrays)
    np.testing.assert_array_equal(stored.upper, rule.upper)
    assert stored.to_parts()[0] == header
    with pytest.raises(FormatError, match="rule for answers"):
        AnswerRule.from_parts(header, {"upper": arrays["upper"][:, :-1]})


@pytest.mark.parametrize(
    ("answers", "options", "message"),
    [
        ([["a", "b"]], {}, "at least 2 questions"),
        ([["a", "b"], ["a"]], {}, "same number of answers"),
        ([[["a"], "b"], ["a", "b"]], {}, "not hashable"),
        (5, {}, "sequence of questions"),
        (["aab", "abb"], {}, "'aab' is a single answer"),
        ([["a", "b"]] * 4, {"weights": [[1.0, -1.0]] * 4}, "at least 0"),
        ([["a", "b"]] * 4, {"weights": [[1.0, np.inf]] * 4}, "finite"),
        ([["a", "b"]] * 4, {"weights": [[0.0, 0.0]] * 4}, "not all of them 0"),
        ([["a", "b"]] * 4, {"weights": [1.0] * 4}, r"shape \(4, 2\), one per answer, or \(2,\), one per voter, got"),
        ([["a", "b"]] * 4, {"weights": "heavy"}, "must be numbers"),
        ([["a", "b"]] * 4, {"batch_size": 0.5}, "batch_size"),
        ([["a", "b"]] * 4, {"max_weight": 0.5}, "below a weight"),
    ],
)
def test_bad_input_is_refused(answers, options, message):
    with pytest.raises(InputError, match=message):
        fit_plurality(answers, 0.1, **options)


def test_weights_that_no_float_holds_are_refused():
    with pytest.raises(InputError, match="weights must be numbers"):
        fit_plurality([["a", "b"]] * 50, 0.1, weights=10**400)


def test_too_few_questions_are_warned_of():
    answers = sample_answers(np.random.default_rng(0), 100, 20, 4)
    with pytest.warns(ScurryWarning, match=r"75 of 100 questions .* or more questions: 566 at least"):
        rule, promise = fit_plurality(answers, 0.01, random_state=0)
    assert promise.describe().startswith("Votes stop only where the outcome cannot change any more. On average")
    assert AnswerRule.from_parts(*rule.to_parts()).upper.tolist() == rule.upper.tolist()


def test_the_number_of_questions_that_a_warning_names_is_the_least():
    needed = _questions_needed(0.1, 0.95)
    agreeing = [["a"] * 6] * needed
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit_plurality(agreeing, 0.1, random_state=0).promise.confidence == 0.95
    with pytest.warns(ScurryWarning, match=f"or more questions: {needed} at least"):
        fit_plurality(agreeing[1:], 0.1, random_state=0)


def test_a_transposed_table_is_asked_about_before_anything_is_fitted(monkeypatch):
    answers = sample_answers(np.random.default_rng(0), 3000, 25, 4)
    monkeypatch.setattr("scurry.stopping.votes.answers._fit_tables", pytest.fail)
    with pytest.warns(ScurryWarning, match=r"566 at least.* 25 questions with 3,000 answers each: is the table transp"):
        rule, promise = fit_plurality(answers.T, 0.01, random_state=0)
    assert promise.confidence == 1.0
    assert rule.n_voters == 3000


def test_many_answers_take_memory_for_the_states_that_occur_only():
    answers = sample_answers(np.random.default_rng(0), 60, 400, 4)
    tracemalloc.start()
    promise = fit_plurality(answers, 0.2, random_state=0).promise
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert promise.confidence == 0.95
    assert peak < 300e6  # all pairs of leader and runner-up after each of 400 answers would take 1 GB


def test_tables_that_no_memory_holds_are_refused():
    answers = np.zeros((2, 9000), np.int8)
    with pytest.raises(InputError, match=r"9,000 answers in batches of 1 .* larger batch_size.*table transposed"):
        fit_plurality(answers, 0.1)
    with pytest.warns(ScurryWarning, match="certify none"):
        assert fit_plurality(answers, 0.1, batch_size=1000).rule.upper.shape == (9, 9001)


def fit_tables_over_all_states(orders, rule):
    """Return the best thresholds for each price from a table of all states, as the module describes it."""
    n_checks, n_rows = orders.winner.shape
    side, per_question = rule.n_voters + 1, n_rows // orders.n_questions
    a, b = (
        answers_module.count_votes(weight, rule.unit, rule.n_voters) for weight in (orders.leader, orders.runner_up)
    )
    votes = np.arange(side, dtype=float)
    prior = betainc(votes[:, None] + 1, votes + 1, 0.5)
    visits, changes = np.zeros((2, n_checks, side, side))
    for i in range(n_checks):
        np.add.at(visits[i], (a[i], b[i]), 1)
        np.add.at(changes[i], (a[i], b[i]), orders.winner[i] != orders.winner[-1])
    risks = (changes / per_question + 0.3 * prior) / (visits / per_question + 0.3)
    for price in np.geomspace(1e6, 1.0, 49):
        upper, value = np.full((n_checks, side), side), np.zeros((side, side))
        for i in range(n_checks - 2, -1, -1):
            ahead = np.zeros((side, side))
            np.add.at(ahead, (a[i], b[i]), value[a[i + 1], b[i + 1]])
            going_on = orders.n_seen[i + 1] - orders.n_seen[i] + ahead / np.maximum(visits[i], 1)
            for second in range(side):
                for first in range(side - 1, -1, -1):
                    if visits[i, first, second]:
                        if price * risks[i, first, second] > going_on[first, second]:
                            break
                        upper[i, second] = first
            stopped = np.arange(side)[:, None] >= upper[i]
            value = np.where(stopped, price * risks[i], going_on)
        yield upper


@pytest.mark.parametrize(("weighted", "batch_size"), [(False, 1), (True, 1), (False, 4)])
def test_tables_are_those_over_all_states(weighted, batch_size):
    rng = np.random.default_rng(10)
    codes = sample_answers(rng, 80, 10, 5, favour=(1, 1)).astype(np.int32)
    weights = rng.uniform(0.1, 1.0, codes.shape) if weighted else None
    n_batches = -(-10 // batch_size)
    unit = 0.5 if weighted else 1.0
    rule = AnswerRule(10, 0.1, np.full((n_batches, 11), 11, np.int32), batch_size=batch_size, unit=unit)
    orders = _shuffle(codes, weights, rule, rng)
    tables = list(answers_module._fit_tables(orders, rule))
    assert len({table.tobytes() for table in tables}) > 10
    for table, expected in zip(tables, fit_tables_over_all_states(orders, rule), strict=True):
        np.testing.assert_array_equal(table, expected)


@pytest.mark.parametrize("n_questions", [2, 3])
def test_two_questions_are_enough_to_fit_but_certify_nothing(n_questions):
    with pytest.warns(ScurryWarning, match="certify none that stops early"):
        rule, promise = fit_plurality([["a"] * 5, ["b"] * 5, ["a"] * 5][:n_questions], 0.3, random_state=0)
    assert promise.confidence == 1.0
    assert play_stopper(rule, ["a"] * 5) == ("a", 3)


def test_a_rule_with_weights_needs_the_weight_of_each_answer():
    answers = sample_answers(np.random.default_rng(8), 200, 6, 3)
    weights = np.tile([0.5, 0.5, 0.5, 1.5, 1.5, 1.5], (200, 1))  # their mean is 1
    rule = fit_plurality(answers, 0.2, weights=weights, random_state=0).rule
    for stopper in (rule.stopper(), AnswerRule.from_parts(*rule.to_parts()).stopper()):
        with pytest.raises(InputError, match=r"pass update\(answer, weight\)"):
            stopper.update("a")
        with pytest.raises(InputError, match=r"update_many\(answers, weights\)"):
            stopper.update_many(["a", "b"])
        assert stopper.n_seen == 0
        stopper.update_many(["a"], [1.0])
        assert stopper.votes == {"a": 1.0}


@pytest.mark.parametrize("confidence", [0.95, None])
def test_a_recorded_order_that_breaks_the_promise_is_warned_of(confidence):
    rng = np.random.default_rng(9)
    early = np.where(rng.random((600, 5)) < 0.85, 0, 1)
    late = np.repeat(rng.integers(0, 2, (600, 1)), 6, axis=1)  # one voter, as it were, that outvotes the others
    answers = np.hstack([early, late])
    with pytest.warns(ScurryWarning, match=r"in the order in which .* of (450|600) questions, clearly more than"):
        fit_plurality(answers, 0.05, confidence=confidence, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_plurality(rng.permuted(answers, axis=1), 0.05, confidence=confidence, random_state=0)


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT])
def test_a_missing_value_is_no_answer(missing):
    with pytest.raises(InputError, match="is no answer"):
        fit_plurality([["a", missing], ["b", "b"]], 0.1)
    stopper = AnswerRule(3, 0.1, np.full((3, 4), 4, np.int32)).stopper()
    with pytest.raises(InputError, match="is no answer"):
        stopper.update(missing)
    assert stopper.n_seen == 0


def test_ragged_questions_are_told_to_be_cut():
    with pytest.raises(InputError, match=r"Cut all of them to the shortest"):
        fit_plurality([["a", "b"], ["b"]], 0.1)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_tables_are_told_to_be_passed_as_arrays(make):
    # Iterating over them would take columns, or the letters of their names, for questions.
    with pytest.raises(InputError, match=r"got a table. Pass table.to_numpy\(\)"):
        fit_plurality(make({"a1": ["x", "y"], "a2": ["x", "x"]}), 0.1)


def test_the_promise_is_about_questions_and_says_what_is_asked_for():
    rng = np.random.default_rng(0)
    answers = [[f"a{q}" if rng.random() < 0.8 else "x" for _ in range(15)] for q in range(600)]
    rule, promise = fit_plurality(answers, 0.05, random_state=0)
    asked = []
    for question in answers:
        stopper = rule.stopper()
        for answer in rng.permutation(question).tolist():
            if stopper.update(answer):
                break
        asked.append(stopper.n_seen)
    assert promise.mean_asked == pytest.approx(np.mean(asked), rel=0.1)
    assert "new questions get another outcome" in promise.describe()
    assert promise.describe().endswith(f"On average {promise.mean_asked:.1f} answers are asked for.")
