"""On which column an output depends: compared with what really changes when one column does."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    StandardScaler,
    TargetEncoder,
)

from scurry.importers.pipelines.traces import CannotFoldError, Trace, trace

RNG = np.random.default_rng(0)
X = RNG.integers(1, 5, (120, 4)).astype(float)
X[:, 3] += RNG.normal(size=120)
Y = RNG.integers(0, 3, 120)
BINS = KBinsDiscretizer(4, strategy="uniform")


def traced(transformer):
    return trace(transformer, [Trace(at) for at in range(X.shape[1])], lambda rows: rows, "it")


def outputs(transformer, rows):
    out = transformer.transform(rows)
    return out.toarray() if hasattr(out, "toarray") else np.asarray(out)


@pytest.mark.parametrize(
    "transformer",
    [
        StandardScaler(),
        make_pipeline(MinMaxScaler(), FunctionTransformer(np.log1p), "passthrough", BINS),
        OneHotEncoder(handle_unknown="ignore", min_frequency=25),
        OneHotEncoder(drop="first", handle_unknown="ignore"),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
        TargetEncoder(random_state=0),
        SelectKBest(k=2),
        QuantileTransformer(n_quantiles=20),
        FeatureUnion([("a", StandardScaler()), ("b", BINS), ("c", "drop"), ("d", "passthrough")]),
        ColumnTransformer(
            [("a", BINS, [3, 0]), ("b", "drop", [1]), ("c", OneHotEncoder(), slice(1, 2))], remainder="drop"
        ),
        ColumnTransformer([("a", MinMaxScaler(), [True, False, True, False])], remainder=StandardScaler()),
        ColumnTransformer([("a", MinMaxScaler(), lambda rows: [2])], remainder="passthrough"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_each_output_changes_with_its_column_alone(transformer):
    transformer.fit(X, Y)
    sources = np.array([one.source for one in traced(transformer)])
    usual = outputs(transformer, X)
    assert usual.shape[1] == len(sources)
    for column in range(X.shape[1]):
        changed = X.copy()
        changed[:, column] = RNG.permutation(changed[:, column])
        differs = (outputs(transformer, changed) != usual).any(axis=0)
        assert not differs[sources != column].any()


def test_imputers_drop_empty_columns_and_add_indicators():
    rows = X.copy()
    rows[:, 1], rows[::3, 2] = np.nan, np.nan
    assert [one.source for one in traced(SimpleImputer(add_indicator=True).fit(rows))] == [0, 2, 3, 1, 2]
    assert [one.source for one in traced(SimpleImputer(strategy="constant").fit(rows))] == [0, 1, 2, 3]
    indicators = traced(MissingIndicator().fit(rows))
    assert [(one.source, one.by_category) for one in indicators] == [(1, None), (2, None)]


def test_columns_by_name():
    frame = pd.DataFrame(X, columns=list("abcd"))
    table = ColumnTransformer([("x", StandardScaler(), ["d", "b"]), ("y", "passthrough", slice("a", "b"))])
    assert [one.source for one in traced(table.fit(frame))] == [3, 1, 0, 1]


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (PCA(2), "'it' is a PCA, whose outputs may depend on several columns"),
        (Normalizer(), "Normalizer"),
        (PolynomialFeatures(2), "PolynomialFeatures"),
        (KNNImputer(), "KNNImputer"),
        (FunctionTransformer(np.sin), "FunctionTransformer of 'sin', which scurry does not fold"),
        (FunctionTransformer(lambda rows: rows), "<lambda>"),
        (make_pipeline(StandardScaler(), PCA(2)), "'pca' is a PCA"),
        (ColumnTransformer([("inner", PCA(2), [0, 1])]), "'inner' is a PCA"),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_what_cannot_be_folded_is_named(transformer, message):
    with pytest.raises(CannotFoldError, match=message):
        traced(transformer.fit(X))


def test_others_classes_are_not_trusted():
    class Own(StandardScaler):
        def transform(self, rows):
            return rows[:, ::-1]

    with pytest.raises(CannotFoldError, match="'it' is a Own, whose outputs scurry knows nothing about"):
        traced(Own().fit(X))
