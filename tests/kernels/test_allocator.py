"""The allocator for tensors, each time in a process of its own: it is set for good."""

import subprocess
import sys

import pytest

from regard.kernels.compiled import compiler
from tests.cli.command import environment

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")

START = """
import ctypes, gc, io, random, threading
import numpy as np
import torch
from torch import nn
from regard.kernels.compiled import compiled
library = compiled("allocator")
library.kept_memory.restype = ctypes.c_size_t
library.keep_freed_memory()
kept = library.kept_memory
"""


def run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", START + program], capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr


def test_freed_memory_serves_the_next_tensor_of_about_its_size():
    run("""
first = torch.empty(100_000)
place = first.data_ptr()
del first
held = kept()
assert 4 * 100_000 < held < 4 * 100_000 * 1.13 + 100
assert torch.empty(95_000).data_ptr() == place  # a size below; freed again at once
other = torch.empty(45_000)  # less than half: not from there
assert other.data_ptr() != place
assert kept() == held
""")


def test_every_size_is_aligned_and_holds_what_is_written():
    run("""
random.seed(3)
tensors = []
for count in [0, 1, 2, 1007, 1008, 1009, 4032, 4033, *(random.randrange(1, 300_000) for _ in range(300))]:
    tensor = torch.full((count,), float(len(tensors)))
    assert tensor.data_ptr() % 64 == 0
    tensors.append(tensor)
    if random.random() < 0.4:
        tensors[random.randrange(len(tensors))] = torch.full((7,), -1.0)
for place, tensor in enumerate(tensors):
    assert (tensor == (-1.0 if tensor.numel() == 7 else place)).all()
""")


def test_no_more_is_kept_than_was_in_use():
    run("""
most = 0
for count in range(10_000, 3_000_000, 10_000):  # ever larger: none serves the next
    tensor = torch.empty(count)
    del tensor
    most = max(most, kept() / (4 * count))
assert most < 2.3
""")


def test_storages_that_grow_are_shared_saved_and_freed_elsewhere():
    run("""
tensor = torch.arange(5_000.0)
tensor.resize_(50_000)
assert tensor[:5_000].tolist() == list(range(5_000))
array = tensor.numpy()
del tensor
assert array[4_999] == 4_999
shared = torch.ones(9_000).share_memory_()
file = io.BytesIO()
torch.save({"a": torch.ones(9_000)}, file)
file.seek(0)
assert torch.load(file, weights_only=True)["a"].sum() == 9_000
boxes = [[torch.full((20_000,), float(n))] for n in range(50)]
threads = [threading.Thread(target=box.clear) for box in boxes]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert kept() >= 50 * 80_000
""")


def test_training_gives_the_same_weights():
    run("""
def trained():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(67, 301), nn.ReLU(), nn.Linear(301, 5))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(9):
        optimizer.zero_grad()
        model(torch.randn(211, 67)).square().mean().backward()
        optimizer.step()
    return torch.cat([parameter.flatten() for parameter in model.parameters()])
first = trained()
assert torch.equal(first, trained())
""")
