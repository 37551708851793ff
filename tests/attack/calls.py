"""Malformed calls of every public function, each in a process of its own with a limit on memory and time."""

from attack.findings import Findings
from support.malformed_calls import attempt, list_calls


def attack(n: int, seed: int) -> Findings:
    """Make `n` calls with one or two arguments replaced by nonsense."""
    findings = Findings()
    for call in list_calls(n, seed):
        outcome = attempt(call)
        findings.counts["calls"] += 1
        if outcome in ("accepted", "refused"):
            findings.counts[f"calls {outcome}"] += 1
        else:
            findings.problems.append(f"calls {seed}: {call}: {outcome}")
    return findings
