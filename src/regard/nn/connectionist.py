"""Connectionist temporal classification: Graves, Fernández, Gomez, Schmidhuber 2006 (ICML, 10.1145/1143844.1143891)."""

from torch import Tensor, nn
from torch.nn import functional

from regard.shapes import Float, Int, Lengths, States, wide


class Connectionist(nn.Module):
    """The likelihood of a sequence of tokens that are emitted in the order of the keys, at keys that are summed over
    (equation 8). Each key emits a token or a blank; equal tokens of successive keys count once.

    Beside the loss of a decoder that attends to the same states, this loss leads the states to the order of the tokens
    (Kim, Hori, Watanabe 2017, 1609.06773)."""

    def __init__(self, width: int, vocabulary: int):
        super().__init__()
        self.linear = nn.Linear(width, vocabulary)

    def forward(
        self,
        states: States,
        lengths: Lengths,
        targets: Int[Tensor, "batch token"],
        target_lengths: Lengths,
        *,
        blank: int,
    ) -> Float[Tensor, ""]:
        """The loss, in nats, of `target_lengths (batch,)` tokens, given `lengths (batch,)` states of `(batch, key,
        width)`, summed over the batch. `blank` is an id that no target has. A sequence with fewer states than its
        tokens need has no path and counts 0."""
        scores = wide(self.linear(states)).log_softmax(-1)
        return functional.ctc_loss(
            scores.transpose(0, 1),
            targets,
            lengths,
            target_lengths,
            blank,
            reduction="sum",
            zero_infinity=True,
        )
