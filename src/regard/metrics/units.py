"""What the figures of a run mean: the unit of each metric, and whether higher is better."""

from collections.abc import Iterable

PER_CENT = "in per cent, higher is better"
WRONG = "in per cent, lower is better"
SHARES = (
    *(
        "accuracy",
        "macro-f1",
        "micro-f1",
        "exact-match",
        "f1",
        "precision",
        "recall",
        "rouge-1",
        "rouge-2",
        "rouge-l",
    ),
    *(
        "squad-exact-match",
        "squad-f1",
        "masked-accuracy",
        "next-sentence",
        "places",
        "pointing",
        "inside",
    ),
    *("share", "late-share"),
)
UNITS = {
    **dict.fromkeys(SHARES, PER_CENT),
    "bleu": "from 0 to 100, higher is better",
    "chrf": "from 0 to 100, higher is better",
    "cider": "CIDEr-D x 100, from 0 to 1,000, higher is better",
    "word-error-rate": WRONG,
    "character-error-rate": WRONG,
    "wrong-bits": WRONG,
    "bits-per-sequence": "cross-entropy in bits, lower is better",
    "pearson": "a correlation from -1 to 1, higher is better",
    "spearman": "a correlation from -1 to 1, higher is better",
    "mean-squared-error": "in squared units of the number, lower is better",
    "mean-absolute-error": "in units of the number, lower is better",
    "perplexity": "per token, lower is better",
    "forward-perplexity": "per token, lower is better",
    "backward-perplexity": "per token, lower is better",
    "word_perplexity": "perplexity per word between blanks, whatever the tokens are, lower is better",
    "loss": "the mean negative log-probability of a token, lower is better",
    "bits_per_character": "the same in bits for each character, lower is better",
    "standard-error": "of the figure before it, in its unit",
    "regret": "reward that the best policy has more, lower is better",
    "reward": "a sum over an episode, higher is better",
}


def units_of(figures: Iterable[str]) -> str:
    """The units of figures by their names, `metric` or `metric/group`, in a line; those of unknown metrics are left
    out."""
    names: dict[str, list[str]] = {}
    for name in dict.fromkeys(each.split("/")[0] for each in figures):
        if name in UNITS:
            names.setdefault(UNITS[name], []).append(name)
    return "; ".join(f"{', '.join(some)}: {unit}" for unit, some in names.items())
