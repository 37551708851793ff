"""When to stop asking: rules that end a vote or a sum of scores once its outcome is clear enough."""

from scurry.stopping.fan import FanRule, fan
from scurry.stopping.margins import MarginRule, qwyc
from scurry.stopping.multiclass import LeadRule, multiclass_qwyc
from scurry.stopping.plurality import PluralityRule, PluralityStopper, solve_plurality
from scurry.stopping.preset_orders import preset_order
from scurry.stopping.score_rule import ScoreRule, ScoreStopper
from scurry.stopping.stopper import VoteStopper
from scurry.stopping.vote_fit import Promise, VoteFit, fit_votes
from scurry.stopping.vote_order import OrderFit, fit_majority_order, fit_plurality_order
from scurry.stopping.vote_policy import VotePolicy
from scurry.stopping.vote_rule import ExactOptimum, VoteRule
from scurry.stopping.votes import solve

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
