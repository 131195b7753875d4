"""The form of each model."""

from typing import Any

from regard.models.bert import BertConfig
from regard.models.han import FlatConfig, HanConfig
from regard.models.rocktaschel import RocktaschelConfig
from regard.tasks.classification.forms.documents import Documents, WholeTexts
from regard.tasks.classification.forms.marked_texts import MarkedTexts
from regard.tasks.classification.forms.protocol import Form
from regard.tasks.classification.forms.two_texts import TwoTexts
from regard.text import Tokenizer


def form_of(
    config: BertConfig | HanConfig | FlatConfig | RocktaschelConfig, tokenizer: Tokenizer, *, truncate: bool
) -> Form[Any]:
    """The form of a model; `truncate` cuts texts that are longer than the model can take, which is refused
    otherwise."""
    match config:
        case BertConfig():
            return MarkedTexts(tokenizer, config.context, truncate=truncate)
        case HanConfig():
            return Documents(tokenizer, config)
        case FlatConfig():
            return WholeTexts(tokenizer, config)
        case RocktaschelConfig():
            return TwoTexts(tokenizer, config.reading)
