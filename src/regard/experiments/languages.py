"""The dot score and the general score, within one language and between two."""

from regard.experiments.finding import Finding
from regard.experiments.setting import Setting
from regard.pictures.chart import Chart

CLAIM = (
    "The dot score compares states directly; the general score learns a matrix between them. Within one language the "
    "states of the two sides can agree, because the output repeats the input; between two languages the matrix could "
    "help. In both tasks encoder and decoder are trained too, which can make their states agree."
)
TASKS = {
    "within, letters copied": (
        "letters",
        ["data.order=copy", "model.width=128", "model.embedding=64"],
    ),
    "across, English into French": ("bitext", ["model.dropout=0.0"]),
}
"""A recipe, and the settings that give its model the size of the other one."""
SCORES = "dot", "general"


def languages(setting: Setting) -> Finding:
    """Exact match of Luong's model with each score on each task, by the number of updates."""
    steps = (50, 100, 200, 400, 800) if setting.full else (100, 200, 400)
    rows, lines = [], {}
    for task, (recipe, settings) in TASKS.items():
        for score in SCORES:
            points = []
            for count in steps:
                run = f"{recipe}-{score}-{count}"
                overrides = [
                    *settings,
                    f"model.score={score}",
                    f"training.steps={count}",
                    "data.test=500",
                ]
                result = setting.train(recipe, run, overrides)
                rows.append(
                    (task, score, count, result["test/exact-match"], result["seconds"])
                )
                points.append((float(count), result["test/exact-match"]))
            lines[f"{task}, {score}"] = points
    chart = Chart("exact match", "updates", "right, %", lines)
    return Finding(
        CLAIM, ("task", "score", "updates", "exact match, %", "seconds"), rows, [chart]
    )
