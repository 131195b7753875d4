"""Running text as one sequence of tokens, in memory or mapped from a disk."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from regard.data.columns import Ragged, Shard
from regard.data.stored import derived
from regard.text import Tokenizer


@dataclass(frozen=True)
class TokenStream:
    """The tokens of consecutive parts. A slice of it, without a step, is a tensor (int64)."""

    parts: Sequence[np.ndarray]

    @cached_property
    def starts(self) -> list[int]:
        """The place of the first token of each part, and the number of all tokens."""
        return [0, *accumulate(map(len, self.parts))]

    def __len__(self) -> int:
        return self.starts[-1]

    def __getitem__(self, place: slice) -> Tensor:
        first, last, _ = place.indices(len(self))
        number, found = bisect_right(self.starts, first) - 1, []
        while number < len(self.parts) and self.starts[number] < last:
            start = self.starts[number]
            found.append(self.parts[number][max(0, first - start) : last - start])
            number += 1
        return torch.from_numpy(np.concatenate(found or [np.empty(0)]).astype(np.int64))


def token_stream(tokenizer: Tokenizer, texts: Sequence[str]) -> TokenStream:
    """The tokens of consecutive texts, END behind each and one END before all. Those of a set on disk are encoded
    once."""
    end = tokenizer.special.end
    kind = np.uint16 if tokenizer.size <= 1 << 16 else np.int32

    def encode(some: Sequence[str]) -> Shard:
        rows = [[*ids, end] for ids in tokenizer.encode_all(some)]
        return Shard({"tokens": Ragged.of_ids(rows, kind)}, {})

    table = derived(texts, f"running {tokenizer.digest}", encode)
    return TokenStream(
        [
            np.array([end], dtype=kind),
            *(shard.columns["tokens"].values for shard in table.shards),
        ]
    )
