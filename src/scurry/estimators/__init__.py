"""scikit-learn estimators around a tree ensemble: fit, calibrate, then predict within a budget.

Each takes an estimator. If that is fitted (or frozen, or a `Forest`), `fit` only calibrates, on all rows that it gets:
pass rows that the estimator was not trained on. If it is not fitted, `fit` trains it on a part of the rows and
calibrates on the others. `clone`, which `GridSearchCV` calls, forgets a fit unless the estimator is wrapped in a
``sklearn.frozen.FrozenEstimator``.
"""

from scurry.errors import require_extra

with require_extra("fit", "an estimator of scurry"):
    from scurry.estimators.classifiers import AnytimeClassifier, EarlyExitClassifier
    from scurry.estimators.feature_budget import FeatureBudgetClassifier
    from scurry.estimators.regressors import EarlyExitRanker, EarlyExitRegressor

__all__ = [
    "AnytimeClassifier",
    "EarlyExitClassifier",
    "EarlyExitRanker",
    "EarlyExitRegressor",
    "FeatureBudgetClassifier",
]
