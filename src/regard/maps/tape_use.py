"""What a machine with a tape did, step by step, as arrays."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from regard.maps.lookups import READS, Lookups

TOUCHED = 0.01
"""Rows beyond the last that ever had so much weight are not shown."""


@dataclass(frozen=True, eq=False)
class TapeUse:
    """What came in and went out at each step, bits or probabilities of them, NaN where no answer is asked for; and
    where on the tape each head read or wrote."""

    inputs: Float[np.ndarray, "step input_width"]
    outputs: Float[np.ndarray, "step output_width"]
    reading: Float[np.ndarray, "read_head step row"]
    writing: Float[np.ndarray, "write_head step row"]

    @property
    def rows(self) -> int:
        """How many rows from the first on hold all that ever had weight."""
        weights = np.concatenate([self.writing, self.reading])
        of_use = np.flatnonzero((weights >= TOUCHED).any((0, 1)))
        return int(of_use[-1]) + 1 if len(of_use) else min(1, weights.shape[-1])

    def lookups(self) -> tuple[Lookups, Lookups]:
        """What every head read at each step, and where it wrote, on the rows of the tape that were of use. Steps are
        named by what came in, or where an output is expected by the bits that went out."""
        rows = tuple(f"row {row}" for row in range(self.rows))
        steps = tuple(f"{number}: {step}" for number, step in enumerate(map(_step, self.inputs, self.outputs)))

        def lookups(weights: Float[np.ndarray, "head step row"], name: str, verbs: tuple[str, str]) -> Lookups:
            return Lookups(weights[None, ..., : len(rows)], rows, steps, name, layers=("tape",), verbs=verbs)

        return (
            lookups(self.reading, "reads from the tape", READS),
            lookups(self.writing, "writes to the tape", ("writes", "is written")),
        )


def _step(inputs: Float[np.ndarray, " input_width"], outputs: Float[np.ndarray, " output_width"]) -> str:
    """Marks have channels of their own, and a number of repeats is no bit."""
    if np.isnan(outputs).any():
        return "in " + "".join(f"{value:g}" if value in (0, 1) else f" {value:.2f}" for value in inputs)
    return "out " + "".join(str(int(bit)) for bit in outputs > 0.5)
