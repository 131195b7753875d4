"""The meaning of each field of a dataclass, from the docstrings in its source."""

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Mapping, Sequence
from functools import cache

SHARED = {
    "task": "What the model learns to do.",
    "data": "The examples, or the files that have them.",
    "model": "The model and its sizes.",
    "tokenizer": "How text becomes tokens.",
    "tokenizers": "How the text of each side becomes tokens.",
    "training": "The settings of the training loop.",
    "search": "How outputs are decoded.",
    "augmentation": "Random changes of training images.",
    "images": "How images are prepared for the model.",
    "masking": "Which tokens are masked in training.",
    "attention_losses": "Losses of the attention weights, each with its weight; 0 leaves one out.",
    "learning": "The settings of the policy gradient.",
    "prototypes": "The weight of a loss that pulls embeddings towards the mean of their class.",
    "name": "The name of the model or part.",
    "kind": "The kind of data or part.",
    "train": "The file or files of the training set.",
    "valid": "The file or files of the validation set.",
    "test": "The file or files of the test set.",
    "skip_bad": "Leave out bad records and count them, instead of refusing the file.",
    "seed": "The seed of the random numbers.",
    "source": "The side that is read.",
    "target": "The side that is predicted.",
    "order": "The order of the target.",
    "forms": "Which forms of dates are generated.",
    "arms": "The number of arms of a bandit.",
    "pulls": "The number of actions in an episode.",
    "states": "The number of states of an environment.",
    "actions": "The number of actions in each state.",
    "episodes": "The number of episodes in an environment.",
    "horizon": "The number of actions in an episode.",
    "embedding": "The width of token vectors.",
    "width": "The width of the states.",
    "hidden": "The width inside the position-wise networks.",
    "layers": "The number of layers.",
    "heads": "The number of attention heads.",
    "attention": "The width inside the additive score.",
    "maxout": "The width of the maxout layer before the output.",
    "dropout": "The probability that dropout sets a number to zero.",
    "cell": "The recurrent unit.",
    "start": "The initial state of the decoder.",
    "score": "How a query is compared with a key.",
    "align": "How scores become weights.",
    "window": "The half width of a local alignment, in tokens.",
    "positions": "How positions are encoded.",
    "activation": "The activation function of the position-wise networks.",
    "tied": "The output layer shares its weight with the embedding.",
    "variational": "One dropout mask serves all positions of a text.",
    "softmax": "The output layer: over all words, over sampled ones, or adaptive.",
    "bidirectional": "Read in both directions.",
    "encoder_width": "The width of the encoder's states.",
    "encoder_layers": "The number of layers of the encoder.",
    "character_width": "The width of character vectors.",
    "highways": "The number of highway layers over the characters.",
    "words": "How the vectors of words become one.",
    "image": "The side of an image in pixels.",
    "channels": "The channels of an image: 1 is grey, 3 is red, green and blue.",
    "stages": "The channels of each stage of the convolutional network.",
    "resample": "How pixels are interpolated when an image is resized.",
    "max_elements": "The largest number of elements of a set.",
    "controller": "The network that moves the heads.",
    "tape_width": "The width of a row of the tape.",
    "reads": "The number of read heads.",
    "writes": "The number of write heads.",
    "soft_share": "The share of reads that stay soft in training.",
    "temperature": "The temperature of a softmax; a lower one is closer to a choice.",
    "offset": "The initial bias of the scores.",
    "noise": "The standard deviation of the noise that training adds to scores.",
    "beam": "The width of the search; 1 is greedy.",
    "length_penalty": "The exponent of the length that a score is divided by; 0: none.",
    "coverage_penalty": "The weight of the penalty for source tokens that are not attended to.",
    "diversity": "The strength of the penalty between groups of a diverse beam.",
    "top_k": "When sampling: from the k best tokens only; 0 is all.",
    "top_p": "When sampling: from the best tokens that together have this probability.",
}
"""The meaning of field names that many dataclasses share. A docstring of the field itself wins."""
ENTRY = re.compile(r"^(\w+(?:, \w+)*): (.+(?:\n +.+)*)", re.M)
"""An entry of a class docstring: `name: what it means`, with its further lines indented; several names share one."""
SENTENCE = re.compile(r"(?<=[.;])\s+(?![^(]*\))")


@cache
def meanings(schema: type) -> Mapping[str, str]:
    """The meaning of the fields of a dataclass, the first of: the text below the field, its entry in the docstring of
    the class, the sentences there that begin with it in backticks, the shared meaning of its name, and the sentences
    that mention it. A class that inherits a field inherits its meaning. A field without any of these is left out."""
    own: dict[str, str] = {}
    mentioned: dict[str, str] = {}
    for each in reversed(schema.__mro__):
        if dataclasses.is_dataclass(each) or each.__module__.startswith("regard."):
            exact, further = _of_class(each)
            own |= exact
            mentioned |= further
    found = {name: capital(text) for name, text in (mentioned | SHARED | own).items()}
    return {
        field.name: found[field.name]
        for field in dataclasses.fields(schema)
        if field.name in found
    }


def _of_class(schema: type) -> tuple[dict[str, str], dict[str, str]]:
    """The meanings that a class has of its own fields, and sentences that only mention a field."""
    try:
        source = ast.parse(textwrap.dedent(inspect.getsource(schema))).body[0]
    except (
        OSError,
        SyntaxError,
    ):  # a class without its source, such as one of an interactive session
        return {}, {}
    assert isinstance(source, ast.ClassDef)
    names = [
        each.target.id
        for each in source.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    ]
    text = ast.get_docstring(source) or ""
    sentences = [one_line(each) for each in SENTENCE.split(ENTRY.sub("", text))]
    mentioned = {name: _sentences(sentences, rf"`{name}(: [^`]*)?`") for name in names}
    own = {
        name: _sentences(sentences, rf"^(With |Without )?`{name}(: [^`]*)?`")
        for name in names
    } | _entries(text)
    for field, below in zip(source.body, source.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            own[ast.unparse(field.target)] = one_line(str(below.value.value))
    return _filled(own), _filled(mentioned)


def _sentences(sentences: Sequence[str], pattern: str) -> str:
    found = " ".join(each for each in sentences if re.search(pattern, each))
    return found.removesuffix(";") + "." if found.endswith(";") else found


def _filled(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in texts.items() if text}


def _entries(text: str) -> dict[str, str]:
    return {
        name: one_line(what)
        for names, what in ENTRY.findall(text)
        for name in names.split(", ")
    }


def one_line(text: str) -> str:
    """A text with single spaces."""
    return " ".join(text.split())


def capital(text: str) -> str:
    """A text with a capital first letter, unless it begins with a name."""
    return text[:1].upper() + text[1:]
