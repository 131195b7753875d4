"""Language models against independent implementations: NumPy for the papers' equations, transformers for GPT-2."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regard.attention.record import record
from regard.models.attention_language_model import AttentionLanguageModelConfig
from regard.models.catalog import LANGUAGE_MODELS
from regard.models.gpt2 import GPT2, GPT2Config
from regard.models.language_model import RecurrentLanguageModelConfig
from regard.models.lstmn import LSTMNConfig
from tests.oracle.reference import drawn, numbers, sigmoid, softmax, step_lstm


def make(config: Any, vocabulary: int = 13) -> Any:
    torch.manual_seed(5)
    return drawn(LANGUAGE_MODELS.build(config, vocabulary))


WORDS = torch.tensor([[4, 7, 4, 9, 12, 7]])


def embedded(model: Any) -> np.ndarray:
    return numbers(model.embedding.table.weight)[WORDS[0].numpy()] * model.embedding.scale


def test_a_stacked_lstm():
    model = make(RecurrentLanguageModelConfig(embedding=5, width=7, layers=2, tied=False))
    hidden, cells = np.zeros((2, 7)), np.zeros((2, 7))
    found = model(WORDS, model.begin(1))[0][0]
    for place, inputs in enumerate(embedded(model)):
        for layer in range(2):
            network = model.network.layers[layer].network
            hidden[layer], cells[layer] = step_lstm(network, inputs, hidden[layer], cells[layer])
            inputs = hidden[layer]
        wanted = numbers(model.output.weight) @ inputs + numbers(model.output.bias)
        np.testing.assert_allclose(numbers(found[place]), wanted, rtol=1e-10)


@pytest.mark.parametrize("itself", [False, True])
def test_attention_over_what_was_before(itself: bool):
    """c_t reads h_1 .. h_{t-1} with h_t by scaled dot products; W [c_t; h_t]; nothing before the first."""
    model = make(
        AttentionLanguageModelConfig(embedding=5, width=7, layers=1, tied=False, window=3, itself=itself, score="dot")
    )
    hidden, cell, past = np.zeros(7), np.zeros(7), []
    found = model(WORDS, model.begin(1))[0][0]
    for place, inputs in enumerate(embedded(model)):
        hidden, cell = step_lstm(model.network.layers[0].network, inputs, hidden, cell)
        read = [*past, hidden] if itself else past
        recent = np.array(read[-3:])
        context = softmax(recent @ hidden) @ recent if len(recent) else np.zeros(7)
        wanted = numbers(model.output.weight) @ np.concatenate([context, hidden]) + numbers(model.output.bias)
        np.testing.assert_allclose(numbers(found[place]), wanted, rtol=1e-10)
        past.append(hidden)


@pytest.mark.parametrize(("positions", "gated"), [("none", False), ("bucketed", False), ("none", True)])
def test_lstmn(positions: Any, gated: bool):
    """Equations 4 to 10 of Cheng 2016, with a learned number for each distance, and with a gate for the last state."""
    sizes: Any = {"embedding": 5, "width": 7, "attention": 3, "window": 4, "tied": False}
    model = make(LSTMNConfig(**sizes, positions=positions, gated=gated))
    score = model.attend.score
    near = np.zeros(9) if positions == "none" else numbers(model.positions.table)[0]
    query, key, energy = numbers(score.query_weight), numbers(score.key_weight), numbers(score.energy)
    hiddens, cells, read = [], [], np.zeros(7)
    found = model(WORDS, model.begin(1))[0][0]
    for place, inputs in enumerate(words := embedded(model)):
        read_cell = np.zeros(7)
        if hiddens:
            tape, memory = np.array(hiddens[-4:]), np.array(cells[-4:])
            keys = words[:place][-4:] if gated else tape
            scores = np.tanh(np.concatenate([inputs, read]) @ query + keys @ key) @ energy
            weights = softmax(scores + near[len(tape) : 0 : -1])
            read, read_cell = weights @ tape, weights @ memory
            if gated:
                joined = np.concatenate([inputs, hiddens[-1]])
                gate = sigmoid(numbers(model.gate.weight) @ joined + numbers(model.gate.bias))
                read, read_cell = gate * hiddens[-1] + (1 - gate) * read, gate * cells[-1] + (1 - gate) * read_cell
        hidden, cell = step_lstm(model.cell, inputs, read, read_cell)
        wanted = numbers(model.output.weight) @ hidden + numbers(model.output.bias)
        np.testing.assert_allclose(numbers(found[place]), wanted, rtol=1e-10)
        hiddens.append(hidden)
        cells.append(cell)


def test_an_lstmn_with_distances_prefers_its_last_state_at_first():
    torch.manual_seed(1)
    model: Any = LANGUAGE_MODELS.build(LSTMNConfig(embedding=5, width=7, attention=3, positions="bucketed"), 13).eval()
    nn.init.zeros_(model.attend.score.energy)
    with record(model) as maps:
        model(WORDS, model.begin(1))
    np.testing.assert_allclose(numbers(maps["attend"])[0, -1, -1], 1 - np.exp(-2), atol=1e-3)


@pytest.mark.parametrize(("layers", "width", "heads", "context"), [(1, 6, 3, 7), (2, 10, 2, 11), (3, 15, 5, 13)])
def test_gpt2_is_that_of_transformers(layers: int, width: int, heads: int, context: int):
    transformers = pytest.importorskip("transformers")
    ours = make(GPT2Config(layers=layers, width=width, heads=heads, context=context, dropout=0.0), 17)
    theirs = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=17,
            n_positions=context,
            n_embd=width,
            n_layer=layers,
            n_head=heads,
            attn_implementation="eager",
        )
    )
    theirs = theirs.double().eval()
    theirs.load_state_dict(renamed(ours), strict=False)
    tokens = torch.randint(17, (3, context), generator=torch.Generator().manual_seed(2))
    wanted = theirs(tokens, output_attentions=True)
    with record(ours, only=ours.self_attention) as maps:
        logits, _ = ours(tokens, ours.begin(3))
    torch.testing.assert_close(logits, wanted.logits, rtol=1e-9, atol=1e-9)
    assert len(maps) == layers
    for weights, their_weights in zip(maps.values(), wanted.attentions, strict=True):
        torch.testing.assert_close(weights, their_weights, rtol=1e-9, atol=1e-9)


def renamed(model: GPT2) -> dict[str, torch.Tensor]:
    """Our weights under their names; their matrices are turned, and queries, keys and values one."""
    state = model.state_dict()
    names = {"transformer.wte.weight": state["embedding.table.weight"], "lm_head.weight": state["output.weight"]}
    names |= {"transformer.wpe.weight": state["positions.table"]}
    names |= {f"transformer.ln_f.{part}": state[f"norm.{part}"] for part in ("weight", "bias")}
    for layer in range(len(model.blocks)):
        ours, theirs = f"blocks.{layer}", f"transformer.h.{layer}"
        for part in ("weight", "bias"):
            parts = [state[f"{ours}.self_attention.{name}.{part}"] for name in ("query", "key", "value")]
            names[f"{theirs}.attn.c_attn.{part}"] = torch.cat(parts).t()
            names[f"{theirs}.attn.c_proj.{part}"] = state[f"{ours}.self_attention.output.{part}"].t()
            names[f"{theirs}.mlp.c_fc.{part}"] = state[f"{ours}.feedforward.0.{part}"].t()
            names[f"{theirs}.mlp.c_proj.{part}"] = state[f"{ours}.feedforward.2.{part}"].t()
            names[f"{theirs}.ln_1.{part}"] = state[f"{ours}.residuals.0.norm.{part}"]
            names[f"{theirs}.ln_2.{part}"] = state[f"{ours}.residuals.1.norm.{part}"]
    return names
