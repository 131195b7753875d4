"""The lesson: one page in which a small trained model computes its attention in the browser."""

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regard.attention import attend
from regard.attention.scores import Additive, Dot, ScaledDot
from regard.data.generated.pairs import Synthetic
from regard.errors import InputError, quote
from regard.models.bahdanau import Bahdanau
from regard.nn.layers import Sinusoidal
from regard.pictures.page import policy_hash, stylesheet

MAX_WEIGHTS = 320_000
"""The most weights of a page of 2 MB, in which each takes 5.3 bytes."""
MAX_TEXT = 60
"""The longest text, in characters."""
FITTED_TEXTS = 200
"""The number of texts that replacements of the score are fitted to."""
NEEDED = {
    "cell": "gru-reset-before",
    "align": "softmax",
    "history": None,
    "start": "encoder",
}
"""The settings of a model that the page computes."""
EXAMPLES = {
    "dates": (
        "Saturday 09 May 2018",
        "09/05/2018",
        "May 9, 2018",
        "the 3rd of January 1999",
        "Tuesday, October 21, 1975",
    )
}
"""Texts of the page by the kind of generated data; the first is of the lecture notes."""
PARTS = ("model", "page", "chapters", "tasks", "start")
"""The scripts, in the order of their dependencies."""

Look = Callable[[Tensor], Any]
"""A query `(1, 1, width)` -> context and weights."""


@dataclass(frozen=True)
class Output:
    """What a model writes for a text.

    Attributes:
        states: The states of the encoder, `(source, key_width)`.
        queries: The decoder's states before each step, `(target, width)`.
        pieces: The tokens, the end included.
        text: Their text.
    """

    states: Tensor
    queries: Tensor
    pieces: tuple[str, ...]
    text: str


def check_run(run: Any, name: str) -> None:
    """Check that the page can compute a run's model.

    Raises:
        InputError: The model is of another kind, or too large.
    """
    model, config = run.model, run.config
    advice = "The lesson computes a small model like that of the recipe `dates`."
    if type(model) is not Bahdanau:
        raise InputError(f"{name}: has a {type(model).__name__}. {advice}")
    for key, value in NEEDED.items():
        setting = getattr(config.model, key)
        if setting != value:
            raise InputError(
                f"{name}: has model.{key}: {setting}; expected {value or 'null'}. {advice}"
            )
    for side in (run.tokenizers.source, run.tokenizers.target):
        if side.settings.kind != "character":
            raise InputError(
                f"{name}: has tokens of the kind {side.settings.kind}; expected character. {advice}"
            )
    count = sum(parameter.numel() for parameter in model.parameters())
    if count > MAX_WEIGHTS:
        raise InputError(
            f"{name}: has {count:,} weights; a page of 2 MB has at most {MAX_WEIGHTS:,}. {advice}"
        )


def find_texts(run: Any) -> tuple[tuple[str, ...], list[str]]:
    """Return texts for the page and texts to fit scores to; none if its data are files."""
    data = run.config.data
    if not isinstance(data, Synthetic):
        return (), []
    sources = [run.input_of(example) for example in run.config.data.tests()]
    return EXAMPLES.get(data.kind, tuple(sources[:5])), sources


@torch.no_grad()
def write_output(run: Any, text: str, look: Look | None = None) -> Output:
    """Write the output of a text greedily, with another way to look up if one is given."""
    model, decoder = run.model, run.model.decoder
    (ids,) = run.encode_sources([text])
    ids.append(model.source_special.end)
    memory = model.encoder(torch.tensor([ids]), torch.tensor([len(ids)]))
    states = memory.value[0]
    special = decoder.special
    state = decoder.initial(memory)
    token, tokens, queries = special.start, [], []
    limit = int(run.config.search.limit(torch.tensor(len(ids))))
    while len(tokens) < limit and token != special.end:
        queries.append(state[0])
        embedded = decoder.embedding(torch.tensor([token]))
        if look is None:
            context = decoder.attend(state[:, None], memory)[:, 0]
        else:
            context = look(state[:, None])[0][:, 0]
        parts = torch.cat([state, embedded, context], -1)
        logits = decoder.output(decoder.readout(parts))[0]
        logits[[*special.unwritten]] = -torch.inf
        token = int(logits.argmax())
        tokens.append(token)
        inputs = torch.cat([embedded, context], -1)
        (cell,) = decoder.stack.cells
        state = cell(inputs, state)
    target = run.tokenizers.target
    pieces = [
        "end" if token == special.end else target.pieces([token])[0] for token in tokens
    ]
    return Output(states, torch.stack(queries), tuple(pieces), target.decode(tokens))


def fit_scores(run: Any, texts: Sequence[str]) -> dict[str, Tensor]:
    """Fit other scores to the trained weights of texts.

    Returns:
        `general`, the matrix of q W k; `location`, the matrix of W q; `place`, the
        vector that predicts the center of a local window.
    """
    score = run.model.decoder.attend.score
    outputs = [write_output(run, text) for text in texts]
    width, key_width = score.query_width, score.key_width
    longest = max(len(output.queries) for output in outputs)
    queries = torch.zeros(len(outputs), longest, width, dtype=torch.float64)
    positions = MAX_TEXT + 1
    states = torch.zeros(len(outputs), positions, key_width, dtype=torch.float64)
    allowed = torch.zeros(len(outputs), longest, positions, dtype=torch.bool)
    for index, output in enumerate(outputs):
        steps, size = len(output.queries), len(output.states)
        queries[index, :steps] = output.queries
        states[index, :size] = output.states
        allowed[index, :steps, :size] = True
    _, weights = attend(queries, states, states, score=score, mask=allowed)
    weights = weights.detach()
    is_step = allowed.any(-1)

    general = torch.zeros(width, key_width, requires_grad=True)
    optimizer = torch.optim.Adam([general], lr=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=200)
    keys = states.float().mT
    for _ in range(200):
        scores = (queries.float() @ general @ keys).masked_fill(~allowed, -1e9)
        entropy = -(weights.float() * scores.log_softmax(-1)).sum(-1)
        optimizer.zero_grad()
        entropy[is_step].mean().backward()
        optimizer.step()
        schedule.step()

    rows, given = queries[is_step], weights[is_step]
    location = solve(rows, given.clamp(min=1e-4).log()).mT
    sizes = allowed[is_step].sum(-1)
    centers = (given * torch.arange(positions)).sum(-1)
    shares = ((centers + 0.5) / sizes).clamp(0.02, 0.98)
    hidden = (rows @ score.query_weight.detach()).tanh()
    place = solve(hidden, shares.logit()[:, None])[:, 0]
    return {"general": general.detach(), "location": location, "place": place}


def solve(inputs: Tensor, outputs: Tensor) -> Tensor:
    """Return the matrix that maps inputs to outputs, by ridge regression."""
    square = inputs.mT @ inputs + 1e-2 * torch.eye(inputs.shape[1], dtype=inputs.dtype)
    return torch.linalg.solve(square, inputs.mT @ outputs)


def pack_model(run: Any, fitted: dict[str, Tensor]) -> dict[str, Any]:
    """Pack vocabularies and weights, in float32 one after another, for the page."""
    tensors, parts, start = {}, [], 0
    for name, tensor in (run.model.state_dict() | fitted).items():
        rows = tensor if tensor.ndim == 2 else tensor[None]
        tensors[name] = (start, *rows.shape)
        start += rows.numel()
        parts.append(rows.detach().float().numpy().astype("<f4").tobytes())
    special, search = run.model.decoder.special, run.config.search
    source, target = run.tokenizers.source, run.tokenizers.target
    return {
        "tensors": tensors,
        "weights": b64encode(b"".join(parts)).decode(),
        "source": list(source.vocabulary),
        "target": list(target.vocabulary),
        "special": {
            "pad": special.pad,
            "unknown": special.unknown,
            "start": special.start,
            "end": special.end,
            "sourceEnd": run.model.source_special.end,
            "unwritten": special.unwritten,
        },
        "limit": {"ratio": search.length_ratio, "extra": search.length_extra},
    }


def draw_map(
    rows: Sequence[str], columns: Sequence[str], weights: Tensor, caption: str
) -> str:
    """Draw a map of weights `(query, key)` as SVG, like `drawMap` of page.js."""
    cell, margin, top = 18, 34, 20
    width, height = margin + len(columns) * cell + 2, top + len(rows) * cell + 2
    show = ["␣" if label == " " else escape(label) for label in (*rows, *columns)]
    marks = []
    for index, label in enumerate(show[len(rows) :]):
        x = margin + (index + 0.5) * cell
        marks.append(f'<text x="{x}" y="{top - 6}" text-anchor="middle">{label}</text>')
    for index, line in enumerate(weights.tolist()):
        y = top + index * cell
        text = f'<text x="{margin - 6}" y="{y + 0.7 * cell:g}" text-anchor="end">{show[index]}</text>'
        marks.append(text)
        for key, weight in enumerate(line):
            box = f'x="{margin + key * cell}" y="{y}" width="{cell - 1}" height="{cell - 1}"'
            shade = min(1.0, 0.04 + 0.96 * weight)
            marks.append(f'<rect {box} fill-opacity="{shade:.3f}"/>')
    return (
        f'<figure class="map-figure still"><svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" class="map" aria-label="{escape(caption)}">{"".join(marks)}</svg>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


@torch.no_grad()
def draw_pictures(run: Any, text: str) -> dict[str, str]:
    """Draw a picture of each chapter, by this library's own lookups."""
    score = run.model.decoder.attend.score
    full = write_output(run, text)
    states, queries = full.states[None], full.queries[None]
    letters = [*text]
    columns = [*letters, "end"]

    def draw(words: str, keys: Tensor = states, **options: Any) -> str:
        options = {"score": score} | options

        def look(queries: Tensor) -> Any:
            return attend(queries, keys, states, **options)

        output = write_output(run, text, look)
        weights = look(output.queries[None])[1][0]
        caption = f"{words}: the model writes {output.text or 'nothing'}."
        return draw_map(output.pieces, columns, weights, caption)

    def choose(scores: Tensor, mask: Any) -> Tensor:
        return functional.one_hot(scores.argmax(-1), len(columns)).to(scores.dtype)

    last = torch.arange(len(columns)) == len(text)
    steps = torch.arange(len(full.pieces))
    earlier = steps < steps[:, None]
    _, masked = attend(queries, queries, queries, score=ScaledDot(), mask=earlier[None])
    heads = []
    for head in range(2):
        part = slice_score(score, head, 2)
        _, weights = attend(queries, states, states, score=part)
        caption = f"Head {head + 1} of 2."
        heads.append(draw_map(full.pieces, columns, weights[0], caption))
    places = Sinusoidal()(torch.zeros(1, len(text), 32, dtype=states.dtype))
    _, positions = attend(2 * places, places, places, score=Dot())
    halves = states[..., : score.query_width]
    words = "Each position attends to earlier ones."
    return {
        "full": draw("With all of its attention"),
        "bottleneck": draw("With the last state alone", mask=last[None, None]),
        "dot": draw("With the dot product", halves, score=Dot()),
        "hard": draw("With hard attention", align=choose),
        "masked": draw_map(full.pieces, full.pieces, masked[0], words),
        "heads": "".join(heads),
        "positions": draw_map(letters, letters, positions[0], "Each finds itself."),
    }


def slice_score(score: Additive, head: int, heads: int) -> Additive:
    """Return one head's part of an additive score, multiplied by the number of heads."""
    size = score.energy.numel()
    part = slice(head * size // heads, (head + 1) * size // heads)
    sliced = Additive(1, 1, 1)
    sliced.query_width, sliced.key_width = score.query_width, score.key_width
    sliced.query_weight.data = score.query_weight[:, part]
    sliced.key_weight.data = score.key_weight[:, part]
    sliced.energy.data = heads * score.energy[part]
    return sliced


def build_page(run: Any, texts: Sequence[str], fit_texts: Sequence[str] = ()) -> str:
    """Build the page of a run that passed `check_run`.

    Args:
        run: The run; its model is computed in float64 from now on.
        texts: Texts of the page, the first of them at the start.
        fit_texts: More texts that the replacements of the score are fitted to.

    Raises:
        InputError: A text is empty or too long.
    """
    for text in texts:
        if not 0 < len(text) <= MAX_TEXT:
            raise InputError(
                f"{quote(text)} has {len(text)} characters; expected 1 to {MAX_TEXT}"
            )
    model = run.model.double().eval()
    usable = [text for text in fit_texts if 0 < len(text) <= MAX_TEXT]
    fitted = fit_scores(run, [*texts, *usable][:FITTED_TEXTS])
    data = json.dumps(pack_model(run, fitted), separators=(",", ":"))
    style = stylesheet() + read_part("lesson.css")
    script = '"use strict";\n' + "".join(read_part(f"{name}.js") for name in PARTS)
    options = "".join(f"<option>{escape(text)}</option>" for text in texts)
    score = model.decoder.attend.score
    return Template(read_part("lesson.html")).substitute(
        draw_pictures(run, texts[0]),
        text=escape(texts[0]),
        answer=escape(write_output(run, texts[0]).text),
        examples=options,
        longest=MAX_TEXT,
        count=f"{sum(parameter.numel() for parameter in model.parameters()):,}",
        keys=score.key_width,
        queries=score.query_width,
        hidden=score.hidden_width,
        style=style,
        style_hash=policy_hash(style),
        script=script,
        script_hash=policy_hash(script),
        data=data.replace("<", "\\u003c"),
    )


def read_part(name: str) -> str:
    """Read a file of the page."""
    return files("regard.lesson").joinpath(name).read_text(encoding="utf-8")
