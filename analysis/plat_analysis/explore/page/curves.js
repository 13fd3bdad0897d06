// Draw the curves of the chosen metric, and their legend.

const empty = () => ({ xs: [], ys: [], color: [], alpha: [], width: [], dash: [], run: [], about: [] });

function addLine(lines, xs, ys, look, run, about) {
  lines.xs.push(xs); lines.ys.push(ys); lines.run.push(run); lines.about.push(about);
  lines.color.push(look.colour); lines.alpha.push(look.alpha); lines.width.push(look.width); lines.dash.push(look.dash);
}

const shownRun = (run) => `${data.ids[run].slice(0, 8)} ${cut(data.names[run], 40)}`;
const settingOf = (run) => cut(data.axes.map((axis) => `${axis.label} ${textOf(axis, run)}`).join(", "), 160);

function drawCurves(plot, groups) {
  const metric = data.metrics[state.metric];
  const runs = empty(), means = empty();
  const bands = { xs: [], ys: [], color: [] }, dots = { x: [], y: [], color: [], run: [], about: [] };
  const bounds = [Infinity, -Infinity, Infinity, -Infinity];
  const legend = [];
  for (const group of metric ? groups : []) {
    const known = group.runs.map((run) => [run, curveOf(metric, run)]).filter(([, curve]) => curve);
    legend.push({ group, known: known.length });
    if (state.hidden.has(group.name)) continue;
    for (const [run, { xs, ys }] of known) {
      const marked = state.marked.has(run);
      if (!byId("singles").checked && !marked) continue;
      extend(bounds, xs, ys);
      const alpha = marked ? 1 : !byId("means").checked ? 0.8 : Math.max(0.12, Math.min(0.5, 12 / Math.sqrt(known.length * groups.length * 40)));
      if (xs.length === 1) {
        dots.x.push(xs[0]); dots.y.push(ys[0]); dots.color.push(group.colour);
        dots.run.push(shownRun(run)); dots.about.push(settingOf(run));
      } else addLine(runs, xs, ys, { colour: group.colour, alpha, width: marked ? 3 : 1, dash: group.dash }, shownRun(run), settingOf(run));
    }
    if (!byId("means").checked || !known.length) continue;
    const mean = meanOf(known.map(([, curve]) => curve));
    for (const ys of [mean.ys, mean.low, mean.high]) extend(bounds, mean.xs, ys ?? []);
    if (mean.xs.length > 1) addLine(means, mean.xs, mean.ys, { colour: group.colour, alpha: 1, width: 2.4, dash: group.dash }, group.name, `mean of ${known.length} of ${group.runs.length} runs`);
    else if (mean.xs.length && !byId("singles").checked) {
      dots.x.push(mean.xs[0]); dots.y.push(mean.ys[0]); dots.color.push(group.colour);
      dots.run.push(group.name); dots.about.push(`mean of ${known.length} of ${group.runs.length} runs`);
    }
    if (mean.low && mean.xs.length > 1) {
      for (const part of unbroken(mean)) {
        bands.xs.push([...part.map((at) => mean.xs[at]), ...part.toReversed().map((at) => mean.xs[at])]);
        bands.ys.push([...part.map((at) => mean.low[at]), ...part.toReversed().map((at) => mean.high[at])]);
        bands.color.push(group.colour);
      }
    }
  }
  plot.set("runs", runs); plot.set("means", means); plot.set("bands", bands); plot.set("dots", dots);
  plot.bounds = padded(bounds);
  frame(plot);
  drawLegend(legend);
  const diverged = metric ? groups.flatMap((group) => group.runs).filter((run) => metric.diverged[run] !== null).length : 0;
  const without = legend.reduce((sum, { group, known }) => sum + group.runs.length - known, 0);
  byId("notes").textContent = [
    !metric && "No run has logged a metric.",
    metric && without && `Runs without a value of it: ${without}.`,
    diverged && `Runs that end with a value that is no number: ${diverged}.`,
  ].filter(Boolean).join(" ");
}

/** Widen bounds to these points; NaN and undefined count as nothing. */
function extend(bounds, xs, ys) {
  xs.forEach((x, at) => {
    if (!Number.isFinite(ys[at])) return;
    bounds[0] = Math.min(bounds[0], x); bounds[1] = Math.max(bounds[1], x);
    bounds[2] = Math.min(bounds[2], ys[at]); bounds[3] = Math.max(bounds[3], ys[at]);
  });
}

/** The positions of a mean without those whose interval is no number, as pieces that hang together. */
function unbroken(mean) {
  const parts = [[]];
  mean.xs.forEach((_, at) => {
    if (Number.isFinite(mean.low[at]) && Number.isFinite(mean.high[at])) parts.at(-1).push(at);
    else if (parts.at(-1).length) parts.push([]);
  });
  return parts.filter((part) => part.length > 1);
}

/** Bounds with some air around them; from 0 to 1 where there is nothing. */
function padded([left, right, low, high]) {
  if (!(left <= right) || !(low <= high)) return [0, 1, 0, 1];
  const x = (right - left) * 0.02 || 0.5, y = (high - low) * 0.05 || Math.abs(high) * 0.05 || 0.5;
  return [left - x, right + x, low - y, high + y];
}

/** Show the whole curves, or the part to which the reader has zoomed. */
function frame(plot) {
  const [left, right, low, high] = state.window ?? plot.bounds;
  plot.range("x", left, right);
  plot.range("y", low, high);
}

/** Scale the steps that are seen by a factor, and move them by a share of their width. */
function zoom(plot, factor, shift) {
  const [left, right, low, high] = plot.seen();
  const middle = (left + right) / 2 + shift * (right - left), half = ((right - left) / 2) * factor;
  state.window = [middle - half, middle + half, low, high];
  frame(plot);
}

function drawLegend(entries) {
  const focused = document.activeElement?.dataset?.group;
  byId("legend").replaceChildren(...entries.map(({ group, known }) => {
    const runs = known === group.runs.length ? `${known}` : `${known} of ${group.runs.length}`;
    const button = element("button", { type: "button" }, `${group.name} (${runs})`);
    button.dataset.group = group.name;
    button.setAttribute("aria-pressed", String(!state.hidden.has(group.name)));
    button.insertAdjacentHTML("afterbegin", `<svg viewBox="0 0 22 8" aria-hidden="true"><path d="M0 4h22" stroke="${group.colour}" stroke-width="3" stroke-dasharray="${group.dash.join(" ")}"/></svg>`);
    button.onclick = () => {
      if (!state.hidden.delete(group.name)) state.hidden.add(group.name);
      refresh();
    };
    return element("li", {}, button);
  }));
  if (focused !== undefined) [...byId("legend").querySelectorAll("button")].find((button) => button.dataset.group === focused)?.focus();
}
