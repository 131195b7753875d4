"""The benchmark of decoding, with a model of few numbers."""

from dataclasses import replace

from benchmarks.decoding import GENERATED, SIZES, generating
from regard.models.gpt2 import GPT2


def test_a_language_model_continues_its_prompt():
    model, positions = GPT2(101, replace(SIZES, width=8, heads=2, layers=1)).eval(), []
    model.blocks[0].register_forward_hook(lambda block, inputs, output: positions.append(1))
    generating(model)()
    assert len(positions) == GENERATED
