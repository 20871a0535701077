"""The two meanings that `confidence` has in the field.

`top` is the release's and the hosted Clef's: the largest probability. `typesafe` is TypeSafe's, which is 0 for a
uniform distribution and 1 for a certain one, and for a score counts how far the mass lies from the best level.
Both are 1 where there is one option alone.
"""

from __future__ import annotations

from collections.abc import Sequence

Distribution = Sequence[float]


def top(probabilities: Distribution) -> float:
    return max(probabilities)


def typesafe_choice(probabilities: Distribution) -> float:
    """`(m − 1/n) / (1 − 1/n)` of the largest probability m among n options."""
    count = len(probabilities)
    if count == 1:
        return 1.0
    return (max(probabilities) - 1 / count) / (1 - 1 / count)


def typesafe_score(probabilities: Distribution) -> float:
    """`max(0, 1 − Σ p_i·|i − k| / D)`: k the first most probable level, D the mean over levels of |i − (n−1)/2|."""
    count = len(probabilities)
    if count == 1:
        return 1.0
    best = probabilities.index(max(probabilities))
    spread = sum(value * abs(level - best) for level, value in enumerate(probabilities))
    uniform_spread = sum(abs(level - (count - 1) / 2) for level in range(count)) / count
    return max(0.0, 1 - spread / uniform_spread)
