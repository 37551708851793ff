"""What the report says is what independent computations say."""

import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor

import scurry
from scurry.errors import InputError, OutputError
from scurry.predictor import Predictor
from scurry.report import exits, prunings, steps
from scurry.report import page as sections
from scurry.report.charts import Axis
from scurry.report.exits import FACTORS
from scurry.report.story import TestRows


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(3000, n_informative=6, flip_y=0.1, random_state=1)
    return {"fit": (X[:1000], y[:1000]), "cal": (X[1000:2000], y[1000:2000]), "test": (X[2000:], y[2000:])}


@pytest.fixture(scope="module")
def forest(data):
    return scurry.from_model(RandomForestClassifier(31, max_depth=6, random_state=0).fit(*data["fit"]))


def exit_by(forest, data, method):
    X, y = data["cal"]
    return scurry.early_exit(forest, X, y, max_disagreement=0.05, method=method, random_state=0)


@pytest.fixture(scope="module", params=["qwyc", "fan", "minimixed", "minimean"])
def fast(request, forest, data):
    return exit_by(forest, data, request.param)


def story_of(predictor, data):
    X, y = data["test"]
    return exits.tell(predictor, predictor.plan.stop, TestRows(predictor.forest, X, y))


def test_curve_passes_through_the_predictor_as_it_is(fast, data):
    X, y = data["test"]
    curve, labels = story_of(fast, data).curve, fast.predict(X)
    at = {column.name: column.values[curve.shipped] for column in curve.columns}
    assert curve.spent[curve.shipped] == fast.run(X).mean_trees
    assert at["accuracy"] == (labels == y).mean()
    assert at["labels changed"] == (labels != fast.forest.predict(X)).mean()
    assert at["became wrong"] - at["became right"] == pytest.approx(
        (fast.forest.predict(X) == y).mean() - at["accuracy"]
    )
    assert (np.diff(curve.spent) > 0).all()


def test_curve_ends_where_nothing_stops(fast, data):
    curve = story_of(fast, data).curve
    change = curve.columns[curve.n_drawn - 1]
    assert curve.spent[-1] == fast.forest.n_trees
    assert change.values[-1] == 0
    assert change.values[0] >= change.values[curve.shipped]


def test_the_middle_of_the_family_is_the_rule_itself(fast):
    rule, same = fast.plan.stop, fast.plan.stop.with_scaled_thresholds(fast.forest, float(FACTORS[len(FACTORS) // 2]))
    for name in rule.ARRAYS:
        np.testing.assert_array_equal(getattr(rule, name), getattr(same, name))


def test_caution_never_stops_a_row_sooner(fast, data):
    X, _ = data["test"]
    plan = fast.plan
    trees = [
        Predictor(
            fast.forest, scurry.Plan(order=plan.order, stop=plan.stop.with_scaled_thresholds(fast.forest, factor))
        )
        .run(X)
        .trees
        for factor in (1.0, 2.0, 8.0)
    ]
    assert (trees[0] <= trees[1]).all()
    assert (trees[1] <= trees[2]).all()


@pytest.mark.parametrize("method", ["qwyc", "minimixed"])
def test_leads_of_several_classes(method):
    X, y = load_digits(return_X_y=True)
    model = RandomForestClassifier(20, max_depth=6, random_state=0).fit(X[:600], y[:600])
    fast = scurry.early_exit(model, X[600:1200], max_disagreement=0.1, method=method, random_state=0)
    rule = fast.plan.stop
    whole = Predictor(fast.forest, scurry.Plan(order=fast.plan.order, stop=rule.without_stops())).run(X[1200:])
    assert (whole.trees == 20).all()
    bolder = Predictor(
        fast.forest, scurry.Plan(order=fast.plan.order, stop=rule.with_scaled_thresholds(fast.forest, 0.3))
    ).run(X[1200:])
    assert bolder.mean_trees < fast.run(X[1200:]).mean_trees
    story = exits.tell(fast, rule, TestRows(fast.forest, X[1200:], y[1200:]))
    assert story.curve.columns[story.curve.n_drawn - 1].values[-1] == 0


def test_verdict_and_interval(forest, data):
    fast = exit_by(forest, data, "qwyc")
    claim = story_of(fast, data).claims[0]
    n_changed, n = int((fast.predict(data["test"][0]) != forest.predict(data["test"][0])).sum()), 1000
    interval = binomtest(n_changed, n).proportion_ci(0.95, "exact")
    assert claim.measured.startswith(
        f"{100 * n_changed / n:.2f} %" if n_changed >= 10 else f"{100 * n_changed / n:.3f} %"
    )
    assert exits._find_interval(n_changed, n) == pytest.approx(tuple(interval))
    assert claim.promised == "at most 5 %"
    assert [exits._judge(m, low, 0.01) for m, low in ((0.01, 0.005), (0.012, 0.008), (0.03, 0.02))] == [
        "kept",
        "above it, perhaps by chance",
        "not kept on these rows",
    ]


@pytest.mark.parametrize("method", ["qwyc", "minimean", "schwing"])
def test_a_rule_without_confidence_promises_nothing_of_test_rows(forest, data, method):
    X, y = data["cal"]
    fast = scurry.early_exit(forest, X, y, max_disagreement=0.001, method=method, confidence=None, random_state=0)
    story = story_of(fast, data)
    assert story.claims[0].promised == "nothing"
    assert story.claims[0].verdict == ""
    assert story.curve.bound is None


def test_votes_are_compared_with_the_vote_and_the_model(forest, data):
    fast = exit_by(forest, data, "minimixed")
    X, _ = data["test"]
    labels = fast.predict(X)
    leaves = forest.apply(X)
    votes = forest.value[leaves].argmax(axis=2)
    full_vote = (2 * votes.sum(axis=1) > forest.n_trees).astype(int)
    claims = {claim.what: claim for claim in story_of(fast, data).claims}
    assert claims["labels other than the full vote's"].measured.startswith(_percent((labels != full_vote).mean()))
    assert claims["labels other than the model's"].measured.startswith(_percent((labels != forest.predict(X)).mean()))
    assert claims["labels other than the model's"].verdict == ""


def _percent(rate):
    return "0 %" if rate == 0 else f"{100 * rate:.{2 if rate >= 0.01 else 3}f} %"


def test_settling_is_the_last_change():
    rng = np.random.default_rng(0)
    answers = rng.integers(0, 2, (7, 200))
    expected = []
    for row in answers.T:
        at = 6
        while at > 0 and row[at - 1] == row[6]:
            at -= 1
        expected.append(at)
    assert steps._find_settling(answers).tolist() == expected


@pytest.mark.parametrize("readout", ["plain", "weighted"])
def test_anytime_curve(forest, data, readout):
    (X_order, y_order), (X, y) = data["cal"], data["test"]
    anyt = scurry.anytime(forest, X_order, y_order, order="random", readout=readout, random_state=0)
    story = steps.tell(anyt, TestRows(forest, X, y))
    for at in (0, story.curve.start, -1):
        labels = anyt.predict(X, max_steps=int(story.curve.spent[at]))
        assert story.curve.columns[0].values[at] == (labels == y).mean()
        assert story.curve.columns[1].values[at] == (labels != forest.predict(X)).mean()
    assert story.curve.columns[1].values[story.curve.start] <= 0.01
    trees = next(column for column in story.curve.columns if column.name == "trees entered")
    assert trees.values[[0, -1]].tolist() == [0, forest.n_trees]


def test_pruning_path(forest, data):
    (X_val, _), (X, y) = data["cal"], data["test"]
    costs = np.linspace(1, 5, forest.n_features)
    path = scurry.prune(forest, X_val, feature_costs=costs)
    story = prunings.tell(path, TestRows(forest, X, y))
    curve = story.curve
    assert curve.spent[0] == path.costs.min()
    assert curve.spent[-1] == path.costs.max()
    for at in (0, curve.start, -1):
        pruned = path.at(max_cost=_asked(curve.calls[at]))
        values = {column.name: column.values[at] for column in curve.columns}
        assert values["accuracy"] == (pruned.predict(X) == y).mean()
        assert values["labels changed"] == (pruned.predict(X) != forest.predict(X)).mean()
        assert values["splits kept"] == (pruned.left >= 0).sum()
        assert values["cost per test row"] == pytest.approx(_paid(pruned, X, costs).mean())
    assert story.claims[0].verdict == "kept"
    assert story.promise.startswith("whatever a unit of cost")
    some = prunings.tell(scurry.prune(forest, X_val, lambdas=[0.01, 0.02]), TestRows(forest, X, y))
    assert some.promise.startswith("at the prices of a unit of cost given")


@pytest.mark.parametrize(("method", "lambdas"), [("ccp", None), ("primal-dual", [0.01, 0.02])])
def test_only_exact_prunings_are_promised_to_be_the_best(forest, data, method, lambdas):
    path = scurry.prune(forest, data["cal"][0], method=method, lambdas=lambdas)
    story = prunings.tell(path, TestRows(forest, *data["test"]))
    assert story.promise.startswith("nothing")
    assert (story.claims[0].promised, story.claims[0].verdict) == ("nothing", "")


def _asked(call):
    return float(re.fullmatch(r"path\.at\(max_cost=(.*)\)", call)[1])


def _paid(forest, X, costs):
    """Costs by walking every row through every tree."""
    paid = []
    for row in X.astype(np.float32):
        used = set()
        for root in forest.tree_offset[:-1]:
            node = root
            while forest.left[node] >= 0:
                used.add(int(forest.feature[node]))
                goes_left = row[forest.feature[node]] <= forest.threshold[node]
                node = forest.left[node] if goes_left else forest.right[node]
        paid.append(sum(costs[j] for j in used))
    return np.array(paid)


def test_ticks_are_round_and_inside():
    for low, high in ((0, 101), (0.8612, 0.8614), (-2.2, 2.9), (0, 1e-5), (3, 3)):
        ticks = Axis("x", low, high).find_ticks()
        assert (ticks >= low - 1e-9).all()
        assert (ticks <= high + 1e-9).all()
        assert len(ticks) <= 9


class Page(HTMLParser):
    """Links, ids and text of a page; unknown tags would show in `opened`."""

    def __init__(self, html):
        super().__init__()
        self.opened, self.addresses, self.ids = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.opened.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "action", "xlink:href", "srcset")]
        self.ids += [value for name, value in attrs if name == "id"]


def pages(data, forest, folder):
    (X_cal, y_cal), (X, y) = data["cal"], data["test"]
    boosted = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(*data["fit"])
    regressor = RandomForestRegressor(5, max_depth=3, random_state=0).fit(*data["fit"])
    subjects = {
        "scores": (exit_by(forest, data, "auto"), y, None),
        "bins": (exit_by(forest, data, "fan"), y, None),
        "votes": (exit_by(forest, data, "minimax"), None, None),
        "boosted": (exit_by(boosted, data, "qwyc"), y, boosted),
        "anytime": (scurry.anytime(forest, X_cal, y_cal, order="random", random_state=0), y, None),
        "regressor": (scurry.anytime(regressor, X_cal, y_cal, order="random", random_state=0), y, regressor),
        "path": (scurry.prune(forest, X_cal), y, None),
        "pruned": (scurry.prune(forest, X_cal).at(max_cost=5), y, None),
        "forest": (forest, y, None),
        "all trees": (Predictor(forest, scurry.Plan(order=np.arange(31, dtype=np.int32))), None, None),
    }
    return {
        name: scurry.report.write(subject, folder / f"{name}.html", X, labels, model=model)
        for name, (subject, labels, model) in subjects.items()
    }


def test_every_kind_of_page_is_complete_and_loads_nothing(data, forest, tmp_path):
    for name, path in pages(data, forest, tmp_path).items():
        html = path.read_text(encoding="utf-8")
        page = Page(html)
        assert page.addresses == [], name
        assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest", html), name
        assert len(page.ids) == len(set(page.ids)), name
        for heading in ("Promised and measured", "Where the work goes", "Rows that changed", "Speed", "Settings"):
            assert f">{heading}</h2>" in html, name
        assert ("What another budget would do" in html) == (name not in ("forest", "pruned", "all trees"))
        assert (
            "nan"
            not in re.sub(r"<script.*?</script>|<style.*?</style>", "", html, flags=re.DOTALL).split(">Settings<")[0]
        )


def test_everything_is_escaped(tmp_path):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.rename(columns={"worst area": "</script><script>alert(1)</script>", "worst perimeter": '"><img src=x>'})
    labels = np.where(y == 1, "<b>benign & co</b>", "</title>malignant")
    model = RandomForestClassifier(15, max_depth=3, random_state=0).fit(X[:200], labels[:200])
    fast = scurry.early_exit(model, X[200:400], max_disagreement=0.3, method="qwyc", confidence=None, random_state=0)
    path = scurry.report.write(fast, tmp_path / "r.html", X[400:], labels[400:], model=model, title="<i>$5 & more</i>")
    page = Page(path.read_text(encoding="utf-8"))
    assert page.opened.count("script") == 2
    assert {"img", "b", "i"}.isdisjoint(page.opened)
    assert "&lt;i&gt;$5 &amp; more&lt;/i&gt;" in path.read_text(encoding="utf-8")


def test_no_changed_rows_and_frames_by_name(tmp_path):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = RandomForestClassifier(15, random_state=0).fit(X[:300], y[:300])
    forest = scurry.from_model(model)
    shuffled = X[300:][X.columns[::-1]]
    html = scurry.report.write(forest, tmp_path / "r.html", shuffled, y[300:]).read_text(encoding="utf-8")
    assert "every test row has the full model's answer" in unescape(html)
    assert f"{100 * (model.predict(X[300:]) == y[300:]).mean():.2f} %" in html


def test_names_of_features_and_categories(forest, data, tmp_path):
    X, y = (part.copy() for part in data["test"])
    X[:, 3] = np.resize([0.0, 1.0, np.nan, 7.0], len(X))
    names = [f"feature {chr(97 + j)}" for j in range(forest.n_features)]
    codes = {name: ["low", "high"] for name in names[3:4]}
    named = scurry.from_model(forest, feature_names=names, categories=codes)
    by_use = np.argsort(-np.bincount(forest.feature[forest.left >= 0], minlength=20), kind="stable")
    anyt = scurry.anytime(named, *data["cal"], order="random", random_state=0)
    html = scurry.report.write(anyt, tmp_path / "r.html", X, y).read_text(encoding="utf-8")
    assert [name in html for name in np.array(names)[by_use[:5]]] == [True] * 4 + [False]
    assert "column " not in html
    assert [sections._format_feature(named, 3, value) for value in (0.0, 1.0, np.nan, 7.0, -1.0)] == [
        *("low", "high", "missing", "7", "-1")
    ]
    assert sections._format_feature(named, 0, 1.0) == "1"


def test_rows_that_changed_are_those_at_the_budget_shown(forest, data):
    X, y = data["test"]
    anyt = scurry.anytime(forest, *data["cal"], order="random", random_state=0)
    test = TestRows(forest, X, y)
    story = steps.tell(anyt, test)
    shown = int(story.curve.spent[story.curve.start])
    changed = int((anyt.predict(X, max_steps=shown) != forest.predict(X)).sum())
    assert 0 < changed <= 10
    assert f"{changed} of 1,000 test rows have another answer than the full model's after {shown:,} steps." in str(
        unescape(sections.render_changed_rows(story, test))
    )


def test_a_budget_copied_from_the_page_reaches_what_it_stands_for(forest, data):
    (X_val, _), (X, y) = data["cal"], data["test"]
    path = scurry.prune(forest, X_val, feature_costs=np.linspace(1, 5, forest.n_features) / 3)
    curve = prunings.tell(path, TestRows(forest, X, y)).curve
    for cost, call in zip(curve.spent, curve.calls, strict=True):
        assert path.point(max_cost=_asked(call)).cost == cost


def test_errors(forest, data, tmp_path):
    X, y = data["test"]
    with pytest.raises(
        InputError, match=r"about a Predictor, a PruningPath or a Forest, got RandomForestClassifier; make one with"
    ):
        scurry.report.write(RandomForestClassifier(), tmp_path / "r.html", X, y)
    with pytest.raises(InputError, match=r"y_test has shape \(5,\), X_test has 1000 rows"):
        scurry.report.write(forest, tmp_path / "r.html", X, y[:5])
    with pytest.raises(InputError, match="X_test has no rows"):
        scurry.report.write(forest, tmp_path / "r.html", X[:0], y[:0])
    with pytest.raises(OutputError, match=r"cannot write .*name a file in a folder that exists"):
        scurry.report.write(forest, tmp_path / "missing" / "r.html", X, y)
