"""Rules that stop a vote, or a sum of scores, once its outcome is clear enough.

They need no forest: voters and scores may come from anywhere. For votes (`solve`, `fit_votes`, `solve_plurality`,
`fit_plurality`, `solve_weighted`) a rule says after how many answers to stop. For score matrices (`qwyc`,
`multiclass_qwyc`, `fan`) a fit holds an order of the base models and thresholds for the running sum.
"""

from scurry.errors import require_extra

with require_extra("fit", "fitting a stop rule or testing a promise"):
    from scurry.stopping.scores.fan import FanFit, fan
    from scurry.stopping.scores.qwyc import LeaderFit, MarginFit, multiclass_qwyc, qwyc
    from scurry.stopping.scores.rule import PRESETS, ScoreFit, ScoreStopper, preset_order
    from scurry.stopping.votes.answers import AnswerRule, AnswerStopper, PluralityFit, fit_plurality
    from scurry.stopping.votes.fit import (
        OrderFit,
        VoteFit,
        VotePromise,
        fit_majority_order,
        fit_plurality_order,
        fit_votes,
    )
    from scurry.stopping.votes.plurality import PluralityRule, PluralityStopper, solve_plurality
    from scurry.stopping.votes.policy import VotePolicy
    from scurry.stopping.votes.rule import ExactOptimum, VoteRule, VoteStopper
    from scurry.stopping.votes.solve import solve
    from scurry.stopping.votes.weighted import WeightedVoteRule, WeightedVoteStopper, solve_weighted

# Older names. `Promise` is that of a vote; the promises of the verbs are in `scurry.promises`.
FanRule = FanFit
LeadRule = LeaderFit
MarginRule = MarginFit
ScoreRule = ScoreFit
Promise = VotePromise

__all__ = [
    "PRESETS",
    "AnswerRule",
    "AnswerStopper",
    "ExactOptimum",
    "FanFit",
    "FanRule",
    "LeadRule",
    "LeaderFit",
    "MarginFit",
    "MarginRule",
    "OrderFit",
    "PluralityFit",
    "PluralityRule",
    "PluralityStopper",
    "Promise",
    "ScoreFit",
    "ScoreRule",
    "ScoreStopper",
    "VoteFit",
    "VotePolicy",
    "VotePromise",
    "VoteRule",
    "VoteStopper",
    "WeightedVoteRule",
    "WeightedVoteStopper",
    "fan",
    "fit_majority_order",
    "fit_plurality",
    "fit_plurality_order",
    "fit_votes",
    "multiclass_qwyc",
    "preset_order",
    "qwyc",
    "solve",
    "solve_plurality",
    "solve_weighted",
]
