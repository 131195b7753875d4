"""The lesson: one page in which a small trained model computes its attention in the browser."""

import copy
import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

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

Look = Callable[[Tensor], Tensor]
"""A query `(1, 1, width)` -> context."""


@dataclass(frozen=True)
class LessonOutput:
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
    model = run.model
    config = run.config
    advice = "The lesson computes a small model like that of the recipe `dates`."
    if type(model) is not Bahdanau:
        raise InputError(f"{name}: has a {type(model).__name__}. {advice}")
    for key, value in NEEDED.items():
        setting = getattr(config.model, key)
        if setting != value:
            raise InputError(
                f"{name}: has model.{key}: {setting}; expected {value or 'null'}. {advice}"
            )
    kinds = {side.settings.kind for side in list_sides(run)}
    if kinds not in ({"character"}, {"space"}):
        raise InputError(
            f"{name}: has tokens of the kind {' and '.join(sorted(kinds))}; expected "
            f"character or space on both sides. {advice}"
        )
    count = sum(parameter.numel() for parameter in model.parameters())
    if count > MAX_WEIGHTS:
        raise InputError(
            f"{name}: has {count:,} weights; a page of 2 MB has at most {MAX_WEIGHTS:,}. {advice}"
        )


def list_sides(run: Any) -> tuple[Any, Any]:
    """Return the tokenizers of source and target."""
    tokenizers = run.tokenizers
    return tokenizers.source, tokenizers.target


def split_text(run: Any, text: str) -> list[str]:
    """Return the tokens of a text: its characters, or the words between blanks."""
    return text.split() if find_blank(run) else [*text]


def find_blank(run: Any) -> str:
    """Return what joins the tokens of a text."""
    return " " if run.tokenizers.source.settings.kind == "space" else ""


def find_texts(run: Any) -> tuple[tuple[str, ...], list[str]]:
    """Return texts for the page and texts to fit scores to; none if its data are files."""
    data = run.config.data
    if not isinstance(data, Synthetic):
        return (), []
    sources = map(run.input_of, run.config.data.tests())
    sources = [source for source in sources if 0 < len(source) <= MAX_TEXT]
    examples = EXAMPLES.get(data.kind) or tuple(sources[:5])
    return examples, sources


@torch.no_grad()
def write_output(run: Any, text: str, look: Look | None = None) -> LessonOutput:
    """Write the output of a text greedily, with another way to look up if one is given."""
    model = run.model
    decoder = model.decoder
    special = decoder.special
    (ids,) = run.encode_sources([text])
    ids.append(model.source_special.end)
    size = torch.tensor([len(ids)])
    memory = model.encoder(torch.tensor([ids]), size)
    state = decoder.initial(memory)
    look = look or partial(decoder.attend, memory=memory)
    (cell,) = decoder.stack.cells
    token = special.start
    tokens, queries = [], []
    limit = int(run.config.search.limit(size))
    unwritten = list(special.unwritten)
    while len(tokens) < limit and token != special.end:
        queries.append(state)
        last_token = torch.tensor([token])
        embedded = decoder.embedding(last_token)
        context = look(state[:, None])
        context = context.squeeze(1)
        parts = torch.cat([state, embedded, context], -1)
        readout = decoder.readout(parts)
        (logits,) = decoder.output(readout)
        logits[unwritten] = -torch.inf
        token = int(logits.argmax())
        tokens.append(token)
        inputs = torch.cat([embedded, context], -1)
        state = cell(inputs, state)
    target = run.tokenizers.target
    pieces = target.pieces(tokens)
    if token == special.end:
        pieces[-1] = "end"
    (states,) = memory.value
    return LessonOutput(
        states, torch.cat(queries), tuple(pieces), target.decode(tokens)
    )


def fit_scores(run: Any, texts: Sequence[str]) -> dict[str, Tensor]:
    """Fit other scores to the trained weights of texts.

    Returns:
        `general`, the matrix of q W k; `location`, the matrix of W q; `place`, the
        vector that predicts the center of a local window.
    """
    score = run.model.decoder.attend.score
    outputs = [write_output(run, text) for text in texts]
    queries, is_step = pad_states([output.queries for output in outputs])
    places = torch.zeros(MAX_TEXT + 1, score.key_width, dtype=queries.dtype)
    all_states = [output.states for output in outputs]
    states, is_state = pad_states([places, *all_states])
    states = states[1:]
    allowed = is_step[:, :, None] & is_state[1:, None]
    with torch.no_grad():
        _, weights = attend(queries, states, states, score=score, mask=allowed)
    general = fit_general(queries, states, weights, allowed)

    rows = queries[is_step]
    weights = weights[is_step]
    sizes = allowed[is_step].sum(-1)
    location = solve(rows, weights.clamp(min=1e-4).log()).mT
    centers = weights * torch.arange(len(places))
    shares = (centers.sum(-1) + 0.5) / sizes
    shares = shares.clamp(0.02, 0.98)
    hidden = rows @ score.query_weight.detach()
    (place,) = solve(hidden.tanh(), shares.logit()[:, None]).mT
    return {"general": general, "location": location, "place": place}


def pad_states(states: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return states of texts `(text, position, width)`, and which positions are not padding."""
    is_state = [torch.ones(len(rows), dtype=torch.bool) for rows in states]
    padded = pad_sequence(states, batch_first=True)
    return padded, pad_sequence(is_state, batch_first=True)


def fit_general(
    queries: Tensor, keys: Tensor, weights: Tensor, allowed: Tensor
) -> Tensor:
    """Return the matrix W whose scores q W k lead to weights most like the given ones."""
    queries, weights = queries.float(), weights.float()
    keys = keys.float().mT
    is_step = allowed.any(-1)
    shape = queries.shape[-1], keys.shape[-2]
    general = torch.zeros(shape, requires_grad=True)
    optimizer = torch.optim.Adam([general], lr=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=200)
    for _ in range(200):
        scores = queries @ general @ keys
        scores = scores.masked_fill(~allowed, -1e9)
        entropy = -(weights * scores.log_softmax(-1)).sum(-1)
        optimizer.zero_grad()
        entropy[is_step].mean().backward()
        optimizer.step()
        schedule.step()
    return general.detach()


def solve(inputs: Tensor, outputs: Tensor) -> Tensor:
    """Return the matrix that maps inputs to outputs, by ridge regression."""
    transposed = inputs.mT
    ridge = 1e-2 * torch.eye(len(transposed), dtype=inputs.dtype)
    square = transposed @ inputs + ridge
    return torch.linalg.solve(square, transposed @ outputs)


def pack_model(run: Any, fitted: dict[str, Tensor]) -> dict[str, Any]:
    """Pack vocabularies and weights, in float32 one after another, for the page."""
    tensors, parts, start = {}, [], 0
    for name, tensor in (run.model.state_dict() | fitted).items():
        rows = tensor if tensor.ndim == 2 else tensor[None]
        tensors[name] = (start, *rows.shape)
        start += rows.numel()
        parts.append(rows.detach().float().numpy().astype("<f4").tobytes())
    special, search = run.model.decoder.special, run.config.search
    source, target = list_sides(run)
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
        "blank": find_blank(run),
    }


def draw_map(
    rows: Sequence[str], columns: Sequence[str], weights: Tensor, caption: str
) -> str:
    """Draw a map of weights `(query, key)` as SVG, like `drawMap` of page.js."""
    cell, margin, top = 18, 34, 20
    turn = ""
    row_length, column_length = measure_labels(rows), measure_labels(columns)
    if max(row_length, column_length) > 1:  # words of columns are turned
        margin = round(12 + 7.5 * max(3, row_length))
        top = round(12 + 7.5 * max(3, column_length))
        turn = ' transform="rotate(-90 {x} {y}) translate(0 4)" text-anchor="start"'
    width = margin + len(columns) * cell + 2
    height = top + len(rows) * cell + 2
    marks = []
    x = margin + cell / 2
    y = top - 6
    for label in columns:
        place = turn.format(x=x, y=y) or ' text-anchor="middle"'
        marks.append(f'<text x="{x}" y="{y}"{place}>{show_label(label)}</text>')
        x += cell
    y = top
    size = f'width="{cell - 1}" height="{cell - 1}"'
    for label, line in zip(rows, weights.tolist(), strict=True):
        place = f'x="{margin - 6}" y="{y + 0.7 * cell:g}"'
        text = f'<text {place} text-anchor="end">{show_label(label)}</text>'
        marks.append(text)
        x = margin
        for weight in line:
            shade = min(1.0, 0.04 + 0.96 * weight)
            box = f'x="{x}" y="{y}" {size} fill-opacity="{shade:.3f}"'
            marks.append(f"<rect {box}/>")
            x += cell
        y += cell
    words = escape(caption)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    image = f'<svg {size} role="img" class="map" aria-label="{words}">'
    legend = f"<figcaption>{words}</figcaption>"
    parts = (image, *marks, "</svg>", legend)
    return f'<figure class="map-figure still">{"".join(parts)}</figure>'


def measure_labels(labels: Sequence[str]) -> int:
    """Return the length of the longest label; `end` takes one place."""
    lengths = [1 if label == "end" else len(label) for label in labels]
    return max(lengths)


def show_label(label: str) -> str:
    """Return a label in HTML, with a sign for a space."""
    return "␣" if label == " " else escape(label)


@torch.no_grad()
def draw_pictures(run: Any, text: str) -> dict[str, str]:
    """Draw a picture of each chapter, by this library's own lookups."""
    score = run.model.decoder.attend.score
    full = write_output(run, text)
    states, queries = full.states[None], full.queries[None]
    letters = split_text(run, text)
    columns = [*letters, "end"]
    pieces = full.pieces
    size = len(letters)

    def draw(words: str, keys: Tensor = states, **options: Any) -> str:
        options = {"score": score} | options
        look = partial(attend, key=keys, value=states, **options)
        output = write_output(run, text, lambda query: look(query)[0])
        _, (weights,) = look(output.queries[None])
        caption = f"{words}: the model writes {output.text or 'nothing'}."
        return draw_map(output.pieces, columns, weights, caption)

    def choose(scores: Tensor, mask: Any) -> Tensor:
        best = scores.argmax(-1)
        return functional.one_hot(best, size + 1).to(scores.dtype)

    is_last = torch.arange(size + 1) == size
    steps = torch.arange(len(pieces))
    is_earlier = steps < steps[:, None]
    _, (masked,) = attend(
        queries, queries, queries, score=ScaledDot(), mask=is_earlier[None]
    )
    heads = []
    for head in range(2):
        part = slice_score(score, head, 2)
        _, (weights,) = attend(queries, states, states, score=part)
        caption = f"Head {head + 1} of 2."
        picture = draw_map(pieces, columns, weights, caption)
        heads.append(picture)
    empty = torch.zeros(1, size, 32, dtype=states.dtype)
    places = Sinusoidal()(empty)
    _, (positions,) = attend(2 * places, places, places, score=Dot())
    halves = states[..., : score.query_width]
    words = "Each position attends to earlier ones."
    masked_map = draw_map(pieces, pieces, masked, words)
    position_map = draw_map(letters, letters, positions, "Each finds itself.")
    return {
        "full": draw("With all of its attention"),
        "bottleneck": draw("With the last state alone", mask=is_last[None, None]),
        "dot": draw("With the dot product", halves, score=Dot()),
        "hard": draw("With hard attention", align=choose),
        "masked": masked_map,
        "heads": "".join(heads),
        "positions": position_map,
    }


def slice_score(score: Additive, head: int, heads: int) -> Additive:
    """Return one head's part of an additive score, multiplied by the number of heads."""
    size = score.energy.numel()
    start = head * size // heads
    end = (head + 1) * size // heads
    sliced = copy.deepcopy(score)
    for parameter in (sliced.query_weight, sliced.key_weight, sliced.energy):
        parameter.data = parameter.data[..., start:end]
    sliced.energy.data *= heads
    return sliced


def build_page(run: Any, texts: Sequence[str], fit_texts: Sequence[str] = ()) -> str:
    """Build the page of a run that passed `check_run`.

    Args:
        run: The run; its model is computed in float64 from now on.
        texts: Texts of the page, the first of them at the start.
        fit_texts: More such texts, that the replacements of the score are fitted to.

    Raises:
        InputError: A text is empty or too long.
    """
    for text in texts:
        if not 0 < len(text) <= MAX_TEXT:
            raise InputError(
                f"{quote(text)} has {len(text)} characters; expected 1 to {MAX_TEXT}"
            )
    model = run.model.double().eval()
    fitted = fit_scores(run, [*texts, *fit_texts][:FITTED_TEXTS])
    data = json.dumps(pack_model(run, fitted), separators=(",", ":"))
    style = stylesheet() + read_part("lesson.css")
    script = '"use strict";\n' + "".join(read_part(f"{name}.js") for name in PARTS)
    page = read_part("lesson.html")
    if find_blank(run):
        script, page = (part.replace("character", "word") for part in (script, page))
    options = "".join(f"<option>{escape(text)}</option>" for text in texts)
    score = model.decoder.attend.score
    return Template(page).substitute(
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
