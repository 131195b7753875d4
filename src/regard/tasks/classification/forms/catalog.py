"""The form of each model: built-in ones, and others under the entry points `regard.forms`."""

from typing import Any

from regard.config.registry import Registry
from regard.errors import InputError
from regard.models.catalog import CLASSIFIERS, ClassifierConfig
from regard.tasks.classification.forms.protocol import Form
from regard.text import Tokenizer

FORMS = Registry(
    "regard.tasks.classification.forms",
    {
        "text": "one_text:OneText",
        "attended-text": "documents:WholeTexts",
        "document": "documents:Documents",
        "last-text": "last_text:LastText",
        "marked-texts": "marked_texts:MarkedTexts",
        "two-texts": "two_texts:TwoTexts",
        "compared-texts": "compared_texts:ComparedTexts",
    },
    group="regard.forms",
)


def form_class(model: str) -> type[Form[Any]]:
    """The class of the form that the classifier of this name has. Raises InputError for an unknown form."""
    name = CLASSIFIERS[model].form
    if name not in FORMS:
        raise InputError(
            f"the classifier {model} has the form {name!r}; expected one of {', '.join(FORMS)}"
        )
    return FORMS[name]


def form_of(
    config: ClassifierConfig, tokenizer: Tokenizer, *, truncate: bool
) -> Form[Any]:
    """The form of a model; `truncate` cuts texts that are longer than the model can take, which is refused
    otherwise."""
    return form_class(config.name)(tokenizer, config, truncate=truncate)
