"""What one value a read saves: `python -m benchmarks.hard`. Hard attention at inference beside soft attention.

A step of 64 decoders: one query each reads a memory by a dot score, without gradients. Both are timed in turn, by the
processor's time of one thread; the ratio is that of the medians. `all values` is hard attention by weights of 0 and 1.
"""

from statistics import median
from time import process_time

import torch

from regard.attention import Attend
from regard.attention.align import Hard, Softmax
from regard.attention.memory import Memory
from regard.attention.paths import Plain
from regard.attention.scores import Additive, Dot

BATCH, TURNS, CALLS = 64, 15, 20
SIZES = (50, 256), (196, 512), (1000, 512)
"""Keys and their width: a sentence, the patches of a photograph, a document."""


def seconds(reader: Attend, query: torch.Tensor, memory: Memory) -> float:
    """The processor's time of some reads."""
    began = process_time()
    for _ in range(CALLS):
        reader.read(query, memory)
    return process_time() - began


def medians(keys: int, width: int, score: str) -> dict[str, float]:
    """Microseconds a read by the kind of alignment."""
    torch.manual_seed(1)
    states, query = torch.randn(BATCH, keys, width), torch.randn(BATCH, 1, width)
    made = {"dot": Dot, "additive": lambda: Additive(width, width, 128)}[score]()
    readers = {"soft": Attend(made, Softmax()), "hard": Attend(made, Hard()), "all values": Attend(made, Hard())}
    readers["soft"].paths = readers["all values"].paths = (Plain(),)
    memory = readers["soft"].eval().prepare(Memory(states, states))
    times: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(TURNS):
        for name, reader in readers.items():
            times[name].append(seconds(reader.eval(), query, memory))
    return {name: 1e6 * median(some) / CALLS for name, some in times.items()}


@torch.no_grad()
def main() -> None:
    """Print a row for each size and score."""
    torch.set_num_threads(1)
    for score in ("dot", "additive"):
        for keys, width in SIZES:
            found = medians(keys, width, score)
            ratios = ", ".join(f"{found['soft'] / found[name]:.2f} ({name})" for name in ("hard", "all values"))
            print(f"{score}, {keys} keys of {width}: soft {found['soft']:,.0f} us; as fast as soft: {ratios}")


if __name__ == "__main__":
    main()
