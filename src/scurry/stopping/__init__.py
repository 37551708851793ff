"""Early exits: rules that stop a vote or a sum of scores once its outcome is clear enough."""

from scurry.stopping.plurality import PluralityRule, PluralityStopper, solve_plurality
from scurry.stopping.stopper import VoteStopper
from scurry.stopping.vote_fit import Promise, VoteFit, fit_votes
from scurry.stopping.vote_policy import VotePolicy
from scurry.stopping.vote_rule import ExactOptimum, VoteRule
from scurry.stopping.votes import solve

__all__ = [
    "ExactOptimum",
    "PluralityRule",
    "PluralityStopper",
    "Promise",
    "VoteFit",
    "VotePolicy",
    "VoteRule",
    "VoteStopper",
    "fit_votes",
    "solve",
    "solve_plurality",
]
