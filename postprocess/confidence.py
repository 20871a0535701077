"""The two meanings that `confidence` has in the field.

`top` is the release's and the hosted Clef's: the largest probability. `typesafe` is TypeSafe's, which is 0 for a
uniform distribution and 1 for a certain one, and for a score counts how far the mass lies from the best level.
Both are 1 where there is one option alone.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Distribution = npt.NDArray[np.float64]


def top(probabilities: Distribution) -> float:
    return float(probabilities.max())


def typesafe_choice(probabilities: Distribution) -> float:
    """`(m − 1/n) / (1 − 1/n)` of the largest probability m among n options."""
    count = len(probabilities)
    if count == 1:
        return 1.0
    return float((probabilities.max() - 1 / count) / (1 - 1 / count))


def typesafe_score(probabilities: Distribution) -> float:
    """`max(0, 1 − Σ p_i·|i − k| / D)`: k the first most probable level, D the mean over levels of |i − (n−1)/2|."""
    count = len(probabilities)
    if count == 1:
        return 1.0
    levels = np.arange(count)
    spread = probabilities @ np.abs(levels - probabilities.argmax())
    uniform_spread = np.abs(levels - (count - 1) / 2).mean()
    return float(max(0.0, 1 - spread / uniform_spread))
