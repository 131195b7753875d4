"""Every score and every alignment on one task."""

from regard.experiments.finding import Finding
from regard.experiments.setting import Setting
from regard.models.aligns import ALIGNS
from regard.models.scores import SCORES
from regard.pictures.chart import Chart

CLAIM = (
    "On dates most scores and alignments learn the task; they differ in speed. Scores with small initial values learn "
    "slowly. Location attention does not use the content, a window covers a part of the source, and monotonic "
    "attention cannot go back, as a date with the year at its end requires."
)
STEPS = (150, 300, 600)


def variants(setting: Setting) -> Finding:
    """Luong's model of dates with each score and soft alignment, and with each alignment and the general score: exact
    match on the test set by the number of updates, and seconds."""
    names = [("score", name) for name in SCORES] + [
        ("align", name) for name in ALIGNS if name != "softmax"
    ]
    steps = (*STEPS, 1200, 2400) if setting.full else STEPS
    rows = []
    for part, name in names:
        for count in steps:
            settings = [
                f"model.{part}={name}",
                f"training.steps={count}",
                "model.window=4",
                *EXTRA.get(name, ()),
            ]
            result = setting.train("dates-luong", f"{part}-{name}-{count}", settings)
            rows.append(
                (part, name, count, result["test/exact-match"], result["seconds"])
            )
    charts = [
        Chart(
            title,
            "updates",
            "exact match, %",
            {name: points(rows, part, name) for kind, name in names if kind == part},
        )
        for part, title in (
            ("score", "scores, soft"),
            ("align", "alignments, general score"),
        )
    ]
    return Finding(
        CLAIM, ("part", "name", "updates", "exact match, %", "seconds"), rows, charts
    )


EXTRA = {
    "location": ["model.max_source=60"],
    "hard": ["attention_losses.reinforce=1.0", "attention_losses.draw_entropy=0.05"],
}
"""Further settings that some of them need."""


def points(rows: list[tuple], part: str, name: str) -> list[tuple[float, float]]:
    """Exact match by the number of updates."""
    return [(float(row[2]), row[3]) for row in rows if row[:2] == (part, name)]
