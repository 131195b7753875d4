import itertools
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from regard.data.batches import batch_size, token_batches
from regard.errors import InputError


def realistic(count):
    """Sentence lengths as in captions: a median near 13, a tail to 50, both sides alike."""
    dice = Random(5)
    lengths = []
    for _ in range(count):
        target = min(50, max(3, round(dice.lognormvariate(2.55, 0.33))))
        lengths.append((max(2, target + round(dice.gauss(0, 2.5))), target))
    return lengths


LENGTHS = realistic(3001)


@pytest.mark.parametrize("tokens", [53, 512, 4096, 10**6])
def test_every_example_once_and_no_batch_above_the_size(tokens):
    batches = token_batches(LENGTHS, tokens, seed=7, epoch=3)
    assert sorted(index for batch in batches for index in batch) == list(range(len(LENGTHS)))
    assert all(batches)
    assert max(len(batch) * max(max(LENGTHS[index]) for index in batch) for batch in batches) <= tokens


def test_little_padding():
    for epoch in range(3):
        batches = token_batches(LENGTHS, 1024, seed=1, epoch=epoch)
        padded = sum(len(batch) * max(LENGTHS[index][side] for index in batch) for batch in batches for side in (0, 1))
        assert 1 - sum(map(sum, LENGTHS)) / padded < 0.1


def test_a_pure_function_of_its_arguments():
    first = list(token_batches(LENGTHS, 512, seed=1, epoch=2))
    assert list(token_batches(list(LENGTHS), 512, seed=1, epoch=2)) == first
    assert list(token_batches(LENGTHS, 512, seed=1, epoch=3)) != first
    assert list(token_batches(LENGTHS, 512, seed=2, epoch=2)) != first


def test_the_same_in_every_process():
    program = (
        "from regard.data.batches import token_batches\n"
        "print(list(token_batches([(n % 7 + 1, n % 11 + 1) for n in range(130)], 60, 3, 5)))"
    )
    here = list(token_batches([(n % 7 + 1, n % 11 + 1) for n in range(130)], 60, 3, 5))
    source = Path(__file__).parents[2] / "src"
    for hash_seed in ("1", "2"):
        environment = {"PYTHONPATH": str(source), "PYTHONHASHSEED": hash_seed}
        result = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
        assert result.stdout.decode().strip() == str(here)


def test_the_order_of_batches_is_mixed():
    means = [
        sum(LENGTHS[index][1] for index in batch) / len(batch) for batch in token_batches(LENGTHS, 512, seed=1, epoch=1)
    ]
    rising = sum(a < b for a, b in itertools.pairwise(means))
    assert 0.35 < rising / len(means) < 0.65


def test_an_example_longer_than_a_batch_is_named():
    with pytest.raises(InputError, match=r"example 2: 17 tokens, more than training\.batch_tokens, 13"):
        token_batches([(2, 3), (13, 13), (5, 17)], 13, seed=1, epoch=1)


def test_row_07_fewer_examples_than_one_batch_lower_it_aloud(caplog: pytest.LogCaptureFixture):
    examples = [(5, 3), (2, 7), (1, 1)]
    with caplog.at_level("INFO", "regard"):
        assert batch_size(examples, 13, "training texts") == 13
        assert not caplog.messages
        assert batch_size(examples, 14, "training texts") == 7
        assert batch_size([(2, 1)] * 20, 64, "pairs") == 10
    assert caplog.messages == [
        "training.batch_tokens is lowered from 14 to 7, since 3 training texts are fewer than one batch",
        "training.batch_tokens is lowered from 64 to 10, since 20 pairs are fewer than one batch",
    ]
    with pytest.raises(InputError, match="pairs: there are none; add data"):
        batch_size([], 1, "pairs")
