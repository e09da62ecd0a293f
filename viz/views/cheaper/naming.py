"""Names of eviction policies, and the Python code that constructs them."""

from model.forgetting.policies import POLICIES, Policy
from viz.numbers import whole
from viz.words import Catalogue


def name_of(words: Catalogue, policy: Policy) -> str:
    """Format the name of a policy, including its parameters."""
    kept = min(policy.first, policy.budget - 1)
    values = {"n": whole(policy.budget), "rest": whole(policy.budget - kept), "first": whole(kept)}
    key = "first_one" if policy.kind == "first" and kept == 1 else policy.kind
    return words[f"cheaper.policy.{key}"].format(**values, dilation=whole(policy.dilation))


def lines_of(policy: Policy) -> str:
    """Format the Python call that constructs a policy, with its kind, its budget, and all non-default arguments."""
    arguments, default = {}, Policy(policy.kind)
    for name in POLICIES[policy.kind].uses:
        if getattr(policy, name) != getattr(default, name):
            arguments[name] = getattr(policy, name)
    text = "".join(f", {name}={value!r}" for name, value in arguments.items())
    return f"Policy({policy.kind!r}, {policy.budget}{text})"
