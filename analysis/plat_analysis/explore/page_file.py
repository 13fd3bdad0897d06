"""Write the page: the runs of a report as data, Bokeh and our scripts, in one file that asks no network for anything.

Equal reports give equal bytes. Texts of users are escaped by Jinja in HTML and as `\\u003c` in data, so no name of a
metric can end a script.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from plat.extras import is_installed
from plat.units import counted
from plat_analysis.data.results import Results
from plat_analysis.explore.curves import Metrics, metric_columns
from plat_analysis.explore.importance import Importance, importance
from plat_analysis.explore.plots import bokeh_script, plots
from plat_analysis.explore.runs import Axis, Places, axes_of, mlflow_page, outcome_axis
from plat_analysis.shown_text import printable

FOLDER = resources.files("plat_analysis.explore")
SCRIPTS = ("state.js", "groups.js", "curves.js", "parallel.js", "hover.js", "table.js", "controls.js", "start.js")
NAME = "explore.html"
PACKAGES = ("bokeh", "scikit-learn")  # the extra `explore`


def is_possible() -> bool:
    """Return True if the packages of the extra `explore` are installed."""
    return all(map(is_installed, PACKAGES))


def explorer_files(results: Results, places: Places, searched: Importance | None = None) -> dict[str, bytes]:
    """Return name -> content of the explorer of a report; {} if the packages of the extra `explore` are missing.

    searched  which parameters matter by Optuna, for the runs of a search
    """
    if not is_possible():
        return {}
    return {NAME: explorer(results, places, searched).encode("utf-8", "backslashreplace")}


def explorer(results: Results, places: Places, searched: Importance | None = None) -> str:
    """Return the page as HTML. With `searched`, the page shows this importance instead of computing its own.

    It needs bokeh, and scikit-learn from ten runs on.
    """
    from jinja2 import Environment, StrictUndefined

    axes, metrics = axes_of(results), Metrics.of(results)
    steps, columns, most = metric_columns(results, metrics)
    found = searched or (importance(axes, columns[0]["last"]) if columns else "No run has logged a metric.")
    environment = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    done = sum(not run.missing for run in results.runs)
    return environment.from_string(_text("page/explore.html.j2")).render(
        css=resources.files("plat_analysis.report").joinpath("report.css").read_text(encoding="utf-8"),
        own_css=_text("page/explore.css"),
        title=printable(results.experiment.title or results.experiment.name),
        lead=f"{done} of {counted(len(results.runs), 'run')} with a result",
        constant=[axis for axis in axes if not axis.varies],
        headline=metrics.labels[0] if metrics.labels else "",
        left_out=metrics.left_out,
        found=found if isinstance(found, Importance) else None,
        nothing=found if isinstance(found, str) else "",
        most=most,
        step_name=printable(results.step_name),
        data=in_script(_data(results, places, axes, steps, columns)),
        plots=in_script(plots()),
        bokeh=bokeh_script(),
        script="\n".join(_text(f"page/{name}") for name in SCRIPTS),
    )


def _data(
    results: Results, places: Places, axes: list[Axis], steps: list[list[int]], columns: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return what the scripts of the page read (`page/state.js`)."""
    runs = results.runs
    shown = [axis for axis in axes if axis.varies]
    return {
        "ids": [run.id for run in runs],
        "names": [printable(run.run.name) for run in runs],
        "missing": [int(bool(run.missing)) for run in runs],
        "folders": [places.folders.get(run.id, "") for run in runs],
        "pages": [mlflow_page(run, places.server) for run in runs],
        "axes": [
            {
                "label": axis.label,
                "values": axis.values,
                "codes": axis.codes,
                "number": axis.is_number,
                "replicate": axis.is_replicate,
            }
            for axis in (*shown, outcome_axis(results))
        ],
        "steps": steps,
        "metrics": columns,
        "quantiles": _quantiles(len(runs)),
    }


def _quantiles(runs: int) -> list[float]:
    """Return Student's t of 95 % intervals: at position n, of the mean of n runs; up to 200, then 1.97 is used."""
    from scipy.stats import t

    return [0.0, 0.0, *(round(float(t.ppf(0.975, n - 1)), 4) for n in range(2, min(runs, 200) + 1))]


def in_script(value: Any) -> str:
    """Return a value as JSON that may stand in a `<script>` element. Raises ValueError if a number is NaN or infinite.

    `<`, `>` and `&` are written as escapes, so neither `</script>` nor `<!--` can occur.
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _text(name: str) -> str:
    return FOLDER.joinpath(name).read_text(encoding="utf-8")
