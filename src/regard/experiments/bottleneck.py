"""One vector is not enough: quality by the length of the source, with attention and without."""

from regard.experiments.finding import Finding
from regard.experiments.lengths import right_by_length
from regard.experiments.setting import Setting
from regard.pictures.chart import Chart

CLAIM = (
    "A decoder that gets one vector for its whole source gets worse the longer the source is, and a wider vector moves "
    "the point where it fails; a decoder that attends does not care. Rows of letters, to be copied."
)
MODELS = {
    "one vector": "model={{name: bottleneck, embedding: 32, width: {width}}}",
    "attention": "model={{name: luong, embedding: 32, width: {width}, layers: 1, bidirectional: true, dropout: 0}}",
}


def bottleneck(setting: Setting) -> Finding:
    """Copied letters, in per cent, by the length of the row and two widths of the decoder's state, with Luong's
    attention and without. All four models are trained on rows of all these lengths."""
    longest = 100 if setting.full else 40
    lengths, steps = range(longest // 10, longest + 1, longest // 10), 4000 if setting.full else 1000
    data = ["data.order=copy", "data.least=1", f"data.most={longest}", "data.test=0"]
    rows, lines = [], {}
    for name, model in MODELS.items():
        for width in (64, 256):
            settings = [*data, model.format(width=width), f"training.steps={steps}"]
            result = setting.train("letters", f"{name.replace(' ', '-')}-{width}", settings)
            shares = right_by_length(setting.run(f"{name.replace(' ', '-')}-{width}"), "copy", lengths, 100)
            rows.append((name, width, *shares, result["seconds"]))
            lines[f"{name}, width {width}"] = [(float(at), share) for at, share in zip(lengths, shares, strict=True)]
    columns = "decoder", "width", *(f"{length} letters, %" for length in lengths), "seconds"
    return Finding(CLAIM, columns, rows, [Chart("letters copied", "letters", "right, %", lines)])
