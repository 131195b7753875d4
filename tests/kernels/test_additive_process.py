"""The additive kernel in a process of its own: memory, pools of threads, and graphs."""

import subprocess
import sys

import pytest

from regard.kernels.compiler import compiler
from tests.cli.command import environment

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")

START = """
import re
from pathlib import Path
import torch
from regard.kernels.cpu import score_additive

def read(batch, queries, keys, width):
    shapes = (batch, queries, width), (batch, keys, width), (width,)
    leaves = [torch.randn(shape, requires_grad=True) for shape in shapes]
    pull = torch.randn(batch, queries, keys)
    before = resident("VmRSS")
    gradients = torch.autograd.grad(score_additive(*leaves), leaves, pull)
    return before, sum(each.nbytes for each in gradients)

def resident(name):
    return 1024 * int(re.search(name + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", START + program], capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr


def test_forward_and_backward_need_at_most_50_mb_beyond_inputs_and_gradients_and_pytorch_s_threads():
    run("""
read(2, 3, 5, 7)
Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
before, gradients = read(8, 128, 1024, 256)
assert 0 < resident("VmHWM") - before - gradients < 50e6  # the plain form needs 3 GB
torch.set_num_threads(2)
read(8, 67, 71, 73)
pools = set(re.findall(r"/.*lib[gi]?omp.*", Path("/proc/self/maps").read_text()))
assert len(pools) == 1 and "torch" in pools.pop()
""")


@pytest.mark.slow
def test_compiled_and_exported():
    run("""
from torch import nn
from regard.attention import Attend
from regard.attention.memory import Memory
from regard.attention.scores import Additive

class Reads(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = Attend(Additive(5, 7, 11))

    def forward(self, query, key):
        return self.attend.read(query, self.attend.prepare(Memory(key, key)), weights=True).weights

module, query, key = Reads(), torch.randn(2, 3, 5), torch.randn(2, 13, 7)
parameters, scores = list(module.parameters()), torch.ops.regard.additive_scores.default
wanted = module(query, key)
gradients = torch.autograd.grad((wanted * key[:, :, 0][:, None]).sum(), parameters)
whole = torch.compile(module, backend="aot_eager", fullgraph=True)
torch.testing.assert_close(whole(query, key), wanted)
found = (whole(query, key) * key[:, :, 0][:, None]).sum()
torch.testing.assert_close(torch.autograd.grad(found, parameters), gradients)
exported = torch.export.export(module, (query, key))
assert scores not in [node.target for node in exported.graph.nodes]  # other runtimes lack the kernel
torch.testing.assert_close(exported.module()(query, key), wanted)
""")
