"""When to stop asking: rules that end a vote or a sum of scores once its outcome is clear enough."""

from scurry.stopping.scores.fan import FanRule, fan
from scurry.stopping.scores.matrix import preset_order
from scurry.stopping.scores.multiclass import LeadRule, multiclass_qwyc
from scurry.stopping.scores.qwyc import MarginRule, qwyc
from scurry.stopping.scores.rule import ScoreRule, ScoreStopper
from scurry.stopping.votes.fit import Promise, VoteFit, fit_votes
from scurry.stopping.votes.order import OrderFit, fit_majority_order, fit_plurality_order
from scurry.stopping.votes.plurality import PluralityRule, PluralityStopper, solve_plurality
from scurry.stopping.votes.policy import VotePolicy
from scurry.stopping.votes.rule import ExactOptimum, VoteRule, VoteStopper
from scurry.stopping.votes.solve import solve

__all__ = [
    "ExactOptimum",
    "FanRule",
    "LeadRule",
    "MarginRule",
    "OrderFit",
    "PluralityRule",
    "PluralityStopper",
    "Promise",
    "ScoreRule",
    "ScoreStopper",
    "VoteFit",
    "VotePolicy",
    "VoteRule",
    "VoteStopper",
    "fan",
    "fit_majority_order",
    "fit_plurality_order",
    "fit_votes",
    "multiclass_qwyc",
    "preset_order",
    "qwyc",
    "solve",
    "solve_plurality",
]
