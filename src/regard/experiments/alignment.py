"""Attention aligns words: how well, by mechanism and by the amount of training."""

from regard.data.pair import Pair
from regard.experiments.finding import Finding
from regard.experiments.setting import Setting
from regard.maps.averages import average_heads
from regard.maps.links import Gold, errors_of_maps, score_links, strongest
from regard.pictures.chart import Chart
from regard.tasks.text_to_text.run import TextToTextRun

CLAIM = (
    "Attention aligns words although nobody told it which belong together. On generated sentences whose alignment is "
    "known, the table has the error rate of each target word's most read source word: over the mean of all layers and "
    "heads, and in the one map that is best on the validation set."
)
TRANSFORMER = "model={name: transformer, layers: 2, width: 96, hidden: 192, heads: 4, shared: false, dropout: 0.1}"
MECHANISMS = {
    "Bahdanau, additive": ["model={name: bahdanau, embedding: 64, width: 96, attention: 64, maxout: 64, cell: gru}"],
    "Luong, general": [],
    "Luong, dot, sparsemax": ["model.score=dot", "model.align=sparsemax"],
    "Luong, local-p": ["model.align=local-p", "model.window=8"],
    "one pass, scaled dot": ["model={name: one-pass, width: 96, encoder_width: 96, shared: false, dropout: 0.1}"],
    "Transformer": [TRANSFORMER, "training.learning_rate=2e-3"],
    "Transformer, guided": [TRANSFORMER, "training.learning_rate=2e-3", "attention_losses.guided=0.3"],
}


def alignment(setting: Setting) -> Finding:
    """Exact match and alignment error rate of each mechanism on generated sentences, by the number of updates."""
    steps = (150, 300, 600, 1200, 2400) if setting.full else (150, 300, 600)
    columns = "mechanism", "updates", "exact match, %", "AER of the mean, %", "AER of the best map, %", "seconds"
    rows, lines = [], {}
    for name, overrides in MECHANISMS.items():
        lines[name] = []
        for count in steps:
            run = f"{''.join(letter if letter.isalnum() else '-' for letter in name.lower())}-{count}"
            result = setting.train("bitext", run, [f"training.steps={count}", "data.test=500", *overrides])
            mean, best = errors(setting.run(run))
            rows.append((name, count, result["test/exact-match"], 100 * mean, 100 * best, result["seconds"]))
            lines[name].append((float(count), 100 * best))
    chart = Chart("alignment of the best map", "updates", "alignment error rate, %", lines, ("linear", "log"))
    return Finding(CLAIM, columns, rows, [chart])


def errors(run: TextToTextRun) -> tuple[float, float]:
    """The error rates on the test set: of the mean of all maps, and of the map that is best on the validation set."""
    splits = run.config.data.load()
    choosing, measuring = run.word_maps(splits.valid), run.word_maps(splits.test)
    validated = errors_of_maps(choosing, [known(pair) for pair in splits.valid])
    gold = [known(pair) for pair in splits.test]
    mean = score_links([strongest(average_heads(maps)) for maps in measuring], gold).aer
    return mean, errors_of_maps(measuring, gold)[validated.index(min(validated))]


def known(pair: Pair) -> Gold:
    """The pair's own links, all of them sure."""
    assert pair.links is not None
    return Gold(pair.links, pair.links)
