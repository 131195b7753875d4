"""The guide's tables of scores, alignments and run-file names that work together, found by running each combination.

`python -m docs.making.combinations` prints them. A combination is offered where steps give what one pass gives and a
sequence gets in a padded batch what it gets alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

import torch
from torch import nn

from regard.attention import Attend, history, scores
from regard.attention import align as aligns
from regard.attention.align import Align
from regard.attention.heads import MultiHead
from regard.attention.history import History
from regard.attention.memory import Memory
from regard.attention.scores import Score
from regard.models.attention import ALIGNS, make_attend
from regard.models.attention import HISTORIES as HISTORY_NAMES
from regard.models.catalog import CAPTIONERS, MODELS
from regard.models.luong import LuongConfig, LuongDecoder
from regard.models.pointer_network import PointerNetwork, PointerNetworkConfig
from regard.nn.decoders import Decoder
from regard.nn.layers import FeedForward, NoPositions, Output, PreNorm, TokenEmbedding
from regard.nn.recurrent import RecurrentEncoder, SequenceReader
from regard.nn.transformer import DecoderLayer, TransformerDecoder
from regard.shapes import Tokens

WIDTH, HEADS, HIDDEN, TOKENS = 12, 2, 5, 7
"""Of queries and keys, the heads, an additive score's hidden width, and the vocabulary of what is tried."""
LENGTHS = 5, 3

SCORES: Mapping[type[Score], Callable[[int, int, int | None], Score]] = {
    scores.Dot: lambda query, key, heads: scores.Dot(),
    scores.ScaledDot: lambda query, key, heads: scores.ScaledDot(),
    scores.General: lambda query, key, heads: scores.General(query, key, heads=heads),
    scores.TanhDot: lambda query, key, heads: scores.TanhDot(key, query, heads=heads),
    scores.Additive: lambda query, key, heads: scores.Additive(query, key, HIDDEN, heads=heads),
    scores.Cosine: lambda query, key, heads: scores.Cosine(2.0),
    scores.Distance: lambda query, key, heads: scores.Distance(),
    scores.InverseDistance: lambda query, key, heads: scores.InverseDistance(),
    scores.Location: lambda query, key, heads: scores.Location(query, 11, heads=heads),
    scores.Content: lambda query, key, heads: scores.Content(query, key),
}
"""Each for queries and keys of such widths, and for so many heads."""
ALIGNMENTS: Mapping[type[Align], Callable[[int], Align]] = {
    aligns.Softmax: lambda query: aligns.Softmax(),
    aligns.Sparsemax: lambda query: aligns.Sparsemax(),
    aligns.Entmax15: lambda query: aligns.Entmax15(),
    aligns.LocalMonotonic: lambda query: aligns.LocalMonotonic(1),
    aligns.LocalPredictive: lambda query: aligns.LocalPredictive(query, 5, 1),
    aligns.StraightThrough: lambda query: aligns.StraightThrough(),
    aligns.Hard: lambda query: aligns.Hard(),
    aligns.Monotonic: lambda query: aligns.Monotonic(offset=0.0),
    aligns.Addressing: lambda query: aligns.Addressing(),
}
"""Each for queries of a width."""


HISTORIES: Mapping[type[History], Callable[[int], History]] = {
    history.Coverage: history.Coverage,
    history.LocationAware: lambda width: history.LocationAware(width, filters=2, kernel=3),
}
"""Each for the hidden width of an additive score."""


@dataclass(frozen=True)
class Way:
    """A score, an alignment and perhaps a history."""

    score: type[Score]
    align: type[Align]
    history: type[History] | None = None

    def attend(self, query: int, key: int, heads: int | None = None) -> Attend:
        """Return a lookup that does it, for queries and keys of such widths, of one head or of each of several."""
        remembered = None if self.history is None else HISTORIES[self.history](HIDDEN)
        return make_attend(SCORES[self.score](query, key, heads), ALIGNMENTS[self.align](query), remembered)

    def heads(self) -> MultiHead:
        """Heads that do it."""
        return MultiHead(WIDTH, HEADS, attend=self.attend(WIDTH // HEADS, WIDTH // HEADS, HEADS))


def recurrent(way: Way) -> Decoder:
    """Return an RNN decoder that reads its source so. Its state is wider than a key where the score wants that."""
    width = 2 * WIDTH if way.score is scores.Content else WIDTH
    reader = SequenceReader("gru", WIDTH, WIDTH, bidirectional=False)
    config = LuongConfig(width=width, layers=1, cell="gru", start="zero")
    decoder = LuongDecoder(embedding(), RecurrentEncoder(embedding(), reader), config)
    decoder.attend = way.attend(width, WIDTH)
    return decoder


def crossing(way: Way) -> Decoder:
    """Return a Transformer's decoder that reads its source so."""
    return transformer(MultiHead(WIDTH, HEADS), way.heads())


def itself(way: Way) -> Decoder:
    """Return a Transformer's decoder that reads itself so."""
    return transformer(way.heads(), MultiHead(WIDTH, HEADS))


ROLES = {"R": recurrent, "H": crossing, "S": itself}


def transformer(own: MultiHead, source: MultiHead) -> Decoder:
    """One layer, without positions."""
    residuals = PreNorm(WIDTH), PreNorm(WIDTH), PreNorm(WIDTH)
    layer = DecoderLayer(own, source, FeedForward(WIDTH, 5), residuals)
    return TransformerDecoder(embedding(), NoPositions(), [layer], nn.LayerNorm(WIDTH), Output(WIDTH, TOKENS))


def embedding() -> TokenEmbedding:
    """Of what is tried."""
    return TokenEmbedding(TOKENS, WIDTH)


@torch.no_grad()
def offered(role: Callable[[Way], Decoder], way: Way) -> bool:
    """Whether it can be made, and is right step by step and under padding."""
    torch.manual_seed(1)
    try:
        decoder = role(way).double().eval()
    except ValueError:
        return False
    for parameter in decoder.parameters():
        nn.init.normal_(parameter)
    states = torch.randn(len(LENGTHS), max(LENGTHS), WIDTH, dtype=torch.float64)
    memory, tokens = Memory.of(states, torch.tensor(LENGTHS)), torch.randint(TOKENS, (len(LENGTHS), 6))
    whole = decoder.features(tokens, decoder.start(memory))
    alone = [
        stepped(decoder, Memory.of(states[row : row + 1, :length]), tokens[row : row + 1])
        for row, length in enumerate(LENGTHS)
    ]
    return torch.allclose(torch.cat(alone), whole, rtol=1e-10, atol=1e-10)


def stepped(decoder: Decoder, memory: Memory, tokens: Tokens) -> Any:
    """Return the features of one step after the other."""
    state, steps = decoder.start(memory), []
    for token in tokens.unbind(1):
        step, state = decoder.advance(token, state)
        steps.append(step)
    return decoder.join(steps)


def combinations() -> str:
    """Return the table of scores and alignments; histories stand with the score that they add to."""
    kinds = [(score, None) for score in SCORES] + [(scores.Additive, each) for each in HISTORIES]
    rows = {}
    for score, remembered in kinds:
        ways = [Way(score, align, remembered) for align in ALIGNMENTS]
        cells = ["".join(letter for letter, role in ROLES.items() if offered(role, way)) for way in ways]
        more = "" if remembered is None else f" and `{remembered.__name__}`"
        rows[f"`{score.__name__}`{more}"] = cells
    return table(["score", *(f"`{align.__name__}`" for align in ALIGNMENTS)], rows)


REASONS = {
    "bahdanau": "the paper's score",
    "luong": "input feeding passes the context to the next step",
    "bottleneck": "it has no attention",
    "one-pass": "a history would take a pass for each word",
    "pointer-generator": "the paper's score",
    "transformer": "a history would take a pass for each word",
    "show-and-tell": "it has no attention",
    "show-attend-and-tell": "the paper's score; its penalty (`doubly_stochastic`) replaces a history",
    "grid-transformer": "as `transformer`; a baseline for the captioners above",
    "pointer-network": "the weights are the prediction: they must sum to 1, and a window would exclude positions",
}
"""Why a model of a run file takes no more."""


def run_files() -> str:
    """Return the table of what each model of a run file with a decoder that reads something may name."""
    seq2seq = {name: model.config_class for name, model in MODELS.items() if name not in ("pair", "pretrained")}
    captioners = {name: model.config_class for name, model in CAPTIONERS.items()}
    made = {name: (each, MODELS.build(each(), 11, 11).decoder) for name, each in seq2seq.items()}
    made |= {name: (each, CAPTIONERS.build(each(), 11).decoder) for name, each in captioners.items()}
    made["pointer-network"] = PointerNetworkConfig, PointerNetwork(2, PointerNetworkConfig()).decoder
    heads = ["`model: {name: ...}`", "`score:`", "`align:`", "`history:`", "reason for the limits"]
    return table(heads, {f"`{name}`": [*choices(*each), REASONS[name]] for name, each in made.items()})


def choices(config: type[Any], decoder: Decoder) -> list[str]:
    """Return the scores, alignments and histories that a configuration takes."""
    hints = get_type_hints(config, include_extras=True)
    attends = [each for each in decoder.modules() if isinstance(each, Attend)]
    fixed = " ".join(sorted({f"`{type(each.score).__name__}`" for each in attends}))
    aligned = [name for name in ALIGNS if takes(config, name)] if "align" in hints else ["softmax"] if attends else []
    histories = [name for name in HISTORY_NAMES if name is not None] if "history" in hints else []
    scored = names(hints["score"].__metadata__[0].names) if "score" in hints else fixed
    return [scored, "all" if aligned == list(ALIGNS) else names(aligned), names(histories)]


def takes(config: type[Any], align: str) -> bool:
    """Whether it can have this alignment."""
    try:
        config(align=align)
    except ValueError:
        return False
    return True


def names(each: Sequence[str]) -> str:
    """Names of run files, in a cell."""
    return " ".join(f"`{name}`" for name in each)


def table(head: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """In Markdown; what is empty is a dash."""
    cells = [head, *([name, *row] for name, row in rows.items())]
    first, *lines = [f"| {' | '.join(cell or '–' for cell in line)} |" for line in cells]
    return "\n".join([first, f"|{'---|' * len(head)}", *lines])


if __name__ == "__main__":
    print(combinations(), run_files(), sep="\n\n")
