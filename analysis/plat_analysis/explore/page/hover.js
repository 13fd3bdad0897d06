// Say below a plot which line is under the pointer, and its value there.

const NEAR = 24; // pixels
const BEFORE_A_RUN = 6; // pixels by which a mean may be further away than a run and still be meant

/** How far a line is from a place, in pixels: its height above the place, or the way to its nearer end. */
function distance(curve, x, y, pixels) {
  const last = curve.xs.length - 1;
  const beside = Math.max(curve.xs[0] - x, x - curve.xs[last], 0) * pixels.x;
  const above = Math.abs(valueAt(curve, x) - y) * pixels.y;
  return Number.isNaN(above) ? Infinity : Math.hypot(beside, above);
}

/** The line of these sources that is nearest to a place: {lines, at}; null if none is near. */
function nearest(plot, names, x, y) {
  const pixels = plot.pixels();
  let found = null, least = NEAR;
  names.forEach((name, order) => {
    const data = plot.model(name).data;
    const lines = data.xs ? data : { ...data, xs: data.x.map((one) => [one]), ys: data.y.map((one) => [one]) };
    lines.xs.forEach((xs, at) => {
      const away = distance({ xs, ys: lines.ys[at] }, x, y, pixels) + order * BEFORE_A_RUN;
      if (away < least) { least = away; found = { lines, at }; }
    });
  });
  return found;
}

/** The step of a curve that is nearest to x, as its position. */
function nearestStep(xs, x) {
  let best = 0;
  xs.forEach((step, at) => { if (Math.abs(step - x) < Math.abs(xs[best] - x)) best = at; });
  return best;
}

function watchCurves(plot) {
  plot.onPointer((place) => {
    const found = place && nearest(plot, ["means", "runs", "dots"], place.x, place.y);
    if (!found) { plot.set("here", { x: [], y: [], color: [] }); byId("readout").textContent = ""; return; }
    const { lines, at } = found, step = nearestStep(lines.xs[at], place.x);
    const [x, y] = [lines.xs[at][step], lines.ys[at][step]];
    plot.set("here", { x: [x], y: [y], color: [lines.color[at]] });
    byId("readout").textContent = `At ${x}: ${short(y)} – ${lines.run[at]} (${lines.about[at]})`;
  });
}

function watchParallel(plot) {
  plot.onPointer((place) => {
    const found = place && nearest(plot, ["tracks"], place.x, place.y);
    const text = found ? `${found.lines.run[found.at]} (${found.lines.about[found.at]})` : "";
    byId("parallel-readout").textContent = text;
  });
}
