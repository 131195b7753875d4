"""How models know where they are, and what becomes of it beyond the lengths that they were trained on."""

from regard.experiments.finding import Finding
from regard.experiments.lengths import right_by_length
from regard.experiments.setting import Setting
from regard.pictures.chart import Chart

CLAIM = (
    "What a model knows of positions ends where its training ended, each in its way: learned positions say nothing "
    "where none was trained, sines meet combinations that were never seen, a recurrent state goes on for a while, and "
    "attention that only ever moves on need not notice. Rows of letters, to be copied; trained on up to 20."
)
LONGEST = 20
TRANSFORMER = (
    "model={{name: transformer, layers: 2, width: 64, hidden: 128, heads: 4, positions: {positions}, max_length: 64, "
    "shared: false, dropout: 0.0}}"
)
MODELS = {
    **{
        f"Transformer, {name}": [TRANSFORMER.format(positions=name), "training.learning_rate=2e-3"]
        for name in ("sinusoidal", "learned", "none")
    },
    "LSTM, general attention": [],
    "LSTM, monotonic attention": ["model.align=monotonic"],
}


def positions(setting: Setting) -> Finding:
    """Copied letters, in per cent, by the length of the row, to twice what was trained."""
    lengths = range(5, 2 * LONGEST + 1, 5)
    steps = 4000 if setting.full else 1200
    rows, lines = [], {}
    for name, overrides in MODELS.items():
        run = name.lower().replace(", ", "-").replace(" ", "-")
        settings = ["data.order=copy", f"data.most={LONGEST}", f"training.steps={steps}", *overrides]
        result = setting.train("letters", run, settings)
        shares = right_by_length(setting.run(run), "copy", lengths, 100)
        rows.append((name, *shares, result["seconds"]))
        lines[name] = [(float(length), share) for length, share in zip(lengths, shares, strict=True)]
    columns = "positions", *(f"{length} letters, %" for length in lengths), "seconds"
    return Finding(CLAIM, columns, rows, [Chart("letters copied", "letters", "right, %", lines)])
