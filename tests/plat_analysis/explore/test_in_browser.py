"""The explorer in a browser: no network, and what a mouse or a keyboard does reaches plots, table and count."""

from __future__ import annotations

import json

import numpy as np
import pytest
from headless_browser import CHROMIUM, Browser

from plat_analysis.data.results import Results
from plat_analysis.explore.page_file import explorer
from plat_analysis.explore.runs import Places

pytest.importorskip("bokeh", reason="the extra `explore` is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")

ROWS = "document.querySelectorAll('#table tbody tr').length"
LEGEND = "[...document.querySelectorAll('#legend button')].map(b => b.textContent)"
SOURCE = "Bokeh.documents[0].get_model_by_name('%s').data"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    made = Browser(tmp_path_factory.mktemp("chromium"))
    yield made
    made.close()


@pytest.fixture
def page(make_experiment, make_frames, tmp_path):
    def make(seeds=6, **options):
        experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], seeds=range(seeds), **options)
        results = Results(make_frames(experiment, steps=20), experiment)
        path = tmp_path / "explore.html"
        path.write_text(explorer(results, Places({run.id: f"../{run.id}/" for run in results.runs})), encoding="utf-8")
        return path

    return make


@pytest.mark.parametrize("width", [360, 768, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_asks_for_nothing_and_fits_the_window(browser, page, width, scheme):
    browser.requests.clear()
    browser.errors.clear()
    browser.open(page(), width, 800, scheme)
    assert browser.errors == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
    assert browser.js("document.documentElement.scrollWidth <= innerWidth")
    ink, axis = json.loads(browser.js(
        "JSON.stringify([getComputedStyle(document.documentElement).getPropertyValue('--quiet').trim(),"
        "Bokeh.documents[0].get_model_by_name('curves').below[0].major_label_text_color])"
    ))  # fmt: skip
    assert ink == axis, "the plots have the colours of the page"


def test_a_box_and_a_word_choose_runs_everywhere(browser, page):
    browser.open(page())
    assert browser.js(ROWS) == 12 and browser.js(LEGEND) == ["no filter (6)", "Top-p (6)"]
    browser.js("[...document.querySelectorAll('.axis')][0].querySelectorAll('input')[0].click()")
    browser.settle()
    assert browser.js(ROWS) == 6 and browser.js(LEGEND) == ["Top-p (6)"]
    assert browser.js("document.getElementById('count').textContent") == "6 of 12 runs"
    assert browser.js(f"{SOURCE % 'runs'}.xs.length") == 6 and browser.js(f"{SOURCE % 'means'}.run") == ["Top-p"]
    browser.js("document.getElementById('search').value = 'seed=3'; document.getElementById('search').oninput()")
    browser.settle()
    assert browser.js(ROWS) == 1
    browser.js("document.getElementById('everything').click()")
    browser.settle()
    assert browser.js(ROWS) == 12


def test_the_mouse_over_a_mean_shows_its_value(browser, page):
    browser.open(page())
    place = json.loads(browser.js(
        """JSON.stringify((() => {
          document.getElementById("curves").scrollIntoView({ block: "center" });
          const view = Bokeh.index.find_one_by_id(Bokeh.documents[0].get_model_by_name("curves").id);
          const mean = Bokeh.documents[0].get_model_by_name("means").data;
          const box = view.el.getBoundingClientRect();
          return [box.x + view.frame.bbox.x + view.frame.x_scale.compute(mean.xs[0][1]) - view.frame.bbox.x,
                  box.y + view.frame.y_scale.compute(mean.ys[0][1]), mean.ys[0][1]];
        })())"""
    ))  # fmt: skip
    browser.point(place[0], place[1])
    text = browser.until("document.getElementById('readout').textContent", 10)
    assert text.startswith(f"At 10: {float(f'{place[2]:.5g}'):g}") and "mean of 6 of 6 runs" in text
    browser.point(2, 2)
    assert browser.js("document.getElementById('readout').textContent") == ""


def test_tab_reaches_the_controls_and_space_toggles_them(browser, page):
    browser.open(page())
    seen = []
    for _ in range(60):
        browser.key("Tab", 9)
        seen.append(browser.js("document.activeElement.id || document.activeElement.textContent"))
        if browser.js("document.activeElement.matches('.axis input')"):
            break
    browser.key(" ", 32, " ")
    browser.settle()
    assert browser.js(ROWS) == 6, seen
    for _ in range(60):
        browser.key("Tab", 9)
        if browser.js("document.activeElement.matches('#legend button')"):
            break
    browser.key(" ", 32, " ")
    browser.settle()
    assert browser.js("document.activeElement.matches('#legend button[aria-pressed=false]')"), "the focus stays"
    assert browser.js(f"{SOURCE % 'means'}.run") == []
    for _ in range(60):
        browser.key("Tab", 9)
        if browser.js("document.activeElement.matches('#table th button')"):
            break
    browser.key("Enter", 13, "\r")
    browser.settle()
    assert browser.js("document.querySelector('#table th[aria-sort=ascending]').textContent") == "run"


def test_heads_sort_and_buttons_zoom(browser, page):
    browser.open(page())
    browser.js(
        "[...document.querySelectorAll('#table th button')].find(b => b.textContent.includes('success')).click()"
    )
    browser.settle()
    column = "[...document.querySelectorAll('#table tbody tr')].map(r => Number(r.querySelector('td.n').textContent))"
    values = browser.js(column)
    assert values == sorted(values, reverse=True) and len(set(values)) > 2
    seen = "(r => [r.start, r.end])(Bokeh.documents[0].get_model_by_name('curves-x'))"
    whole = browser.js(seen)
    browser.js("document.getElementById('closer').click()")
    zoomed = browser.js(seen)
    assert np.diff(zoomed) == pytest.approx(np.diff(whole) / 2)
    browser.js("document.getElementById('singles').click()")
    browser.settle()
    assert browser.js(seen) == zoomed, "a zoom stays when something else changes"
    browser.js("document.getElementById('whole').click()")
    assert browser.js(seen) == whole


def test_texts_of_users_run_nothing(browser, page):
    hostile = "</script><img src=x onerror=document.title='run'> $$x$$ \U0001f600"
    browser.errors.clear()
    browser.requests.clear()
    browser.open(page(title=hostile, filters=(hostile, "none")))
    assert browser.errors == [] and len(browser.requests) == 1
    assert browser.js("document.title").startswith("</script>") and browser.js(ROWS) == 12


def test_five_hundred_runs_are_drawn_and_filtered(browser, page):
    browser.open(page(seeds=250))
    assert browser.js("document.getElementById('count').textContent") == "500 of 500 runs" and browser.js(ROWS) == 100
    browser.js("document.getElementById('more').click()")
    browser.settle()
    assert browser.js(ROWS) == 500
