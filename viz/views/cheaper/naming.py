"""Policies in words, and as Python."""

from model.forgetting.policies import POLICIES, Policy
from viz.numbers import whole
from viz.words import Catalogue


def name_of(words: Catalogue, policy: Policy) -> str:
    """Return a policy with its numbers, in a few words."""
    kept = min(policy.first, policy.budget - 1)
    values = {"n": whole(policy.budget), "rest": whole(policy.budget - kept), "first": whole(kept)}
    key = "first_one" if policy.kind == "first" and kept == 1 else policy.kind
    return words[f"cheaper.policy.{key}"].format(**values, dilation=whole(policy.dilation))


def lines_of(policy: Policy) -> str:
    """Return the call that makes it."""
    values, usual = {}, Policy(policy.kind)
    for name in POLICIES[policy.kind].uses:
        if getattr(policy, name) != getattr(usual, name):
            values[name] = getattr(policy, name)
    more = "".join(f", {name}={value!r}" for name, value in values.items())
    return f"Policy({policy.kind!r}, {policy.budget}{more})"
