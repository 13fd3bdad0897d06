// Put the plots into the page, and draw everything again after each change of the reader.

let plots = null;
let isWaiting = false;

/** A plot of Bokeh: set its data, its ranges and its colours. */
class Plot {
  constructor(document_, name) {
    this.document = document_;
    this.name = name;
    this.bounds = [0, 1, 0, 1];
  }

  model(name) { return this.document.get_model_by_name(name); }
  set(source, columns) { this.model(source).data = columns; }
  range(side, start, end) { this.model(`${this.name}-${side}`).setv({ start, end }); }

  seen() {
    const [x, y] = [this.model(`${this.name}-x`), this.model(`${this.name}-y`)];
    return [x.start, x.end, y.start, y.end];
  }

  /** Pixels of a step and of a unit upwards. */
  pixels() {
    const [left, right, low, high] = this.seen(), { inner_width, inner_height } = this.model(this.name);
    return { x: inner_width / (right - left), y: inner_height / (high - low) };
  }

  /** Call with {x, y} of the pointer in the units of the axes, and with null when it leaves. */
  onPointer(call) {
    const figure = this.model(this.name);
    for (const name of ["mousemove", "tap"]) figure.on_event(name, ({ x, y }) => call({ x, y }));
    figure.on_event("mouseleave", () => call(null));
  }

  /** Take the colours of the page, which follow light and dark. */
  paint() {
    const [ink, quiet, line, back] = ["--ink", "--quiet", "--line", "--back"].map(colourOf);
    const figure = this.model(this.name);
    for (const axis of [...figure.below, ...figure.left]) {
      axis.setv({ major_label_text_color: quiet, axis_line_color: line, major_tick_line_color: line });
    }
    for (const grid of figure.center) grid.grid_line_color = line;
    if (this.name !== "parallel") return;
    this.model("rule").glyph.line_color = { value: quiet };
    this.model("marks-text").glyph.setv({ text_color: { value: ink }, background_fill_color: { value: back } });
    this.model("heads-text").glyph.text_color = { value: ink };
  }
}

function draw() {
  isWaiting = false;
  const runs = chosen(), groups = groupsOf(runs);
  drawCurves(plots.curves, groups);
  drawParallel(plots.parallel, groups);
  drawTable(runs);
  byId("count").textContent = `${runs.length} of ${count} runs`;
  document.documentElement.dataset.drawn = String(Number(document.documentElement.dataset.drawn ?? 0) + 1);
}

function refresh() {
  if (isWaiting || !plots) return;
  isWaiting = true;
  requestAnimationFrame(draw);
}

async function start() {
  const items = JSON.parse(byId("plots").textContent);
  const placed = {};
  for (const name of ["curves", "parallel"]) {
    await Bokeh.embed.embed_item(items[name], name);
    placed[name] = new Plot(Bokeh.documents.at(-1), name);
  }
  plots = placed;
  for (const axis of ["x", "y"]) { // a zoom with the mouse
    plots.curves.model(`curves-${axis}`).change.connect(() => {
      const seen = plots.curves.seen(), whole = state.window ?? plots.curves.bounds;
      if (seen.some((value, at) => value !== whole[at])) state.window = seen;
    });
  }
  state.by = firstGrouping();
  byId("singles").checked = count <= 60 || count === groupsOf(everyRun).length;
  byId("which").open = matchMedia("(min-width: 901px)").matches;
  byId("everymetric-label").hidden = data.metrics.length <= FEW_METRICS;
  fillAxes();
  fillGrouping();
  listen(plots.curves);
  watchCurves(plots.curves);
  watchParallel(plots.parallel);
  const paint = () => { Object.values(plots).forEach((plot) => plot.paint()); refresh(); };
  addEventListener("resize", refresh);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  Object.values(plots).forEach((plot) => plot.paint());
  draw();
}

start();
