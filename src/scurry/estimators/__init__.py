"""scikit-learn estimators around a tree ensemble: fit, calibrate, then predict within a budget.

Each takes an estimator. One that is fitted already, frozen, or a `Forest`, is only calibrated, on all rows given to
`fit`: pass rows it was not trained on. One that is not fitted is trained on a part of the rows, and calibrated on the
others. `clone`, and with it `GridSearchCV`, forgets a fit unless the estimator is in a
``sklearn.frozen.FrozenEstimator``.
"""

from scurry.estimators.classifiers import AnytimeClassifier, EarlyExitClassifier, FeatureBudgetClassifier

__all__ = ["AnytimeClassifier", "EarlyExitClassifier", "FeatureBudgetClassifier"]
