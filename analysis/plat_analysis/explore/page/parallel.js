// Draw parallel coordinates: an upright line for each axis that varies, and one for the last value.

const AXIS_WIDTH = 96; // pixels
const MOST_MARKS = 10; // texts along an axis
const SPREAD = 0.045; // of lines through one value, as a share of the height
const [LEFT, RIGHT] = [45, 75]; // pixels beside the first and the last axis

/** An axis of settings as {label, at(run) from 0 to 1, marks: [place, text]}. */
function settingAxis(axis) {
  const last = axis.values.length - 1;
  const numbers = axis.values.map(Number);
  if (hasRange(axis) && numbers.every(Number.isFinite)) {
    const log = numbers[0] > 0 && numbers[last] / numbers[0] > 100;
    return { label: axis.label, ...scale(numbers[0], numbers[last], (run) => Number(textOf(axis, run)), log) };
  }
  const every = Math.ceil(axis.values.length / MOST_MARKS);
  const place = (code) => (last ? code / last : 0.5);
  const marks = axis.values.map((text, code) => [place(code), cut(text, 13)]).filter((_, code) => code % every === 0);
  return { label: axis.label, at: (run) => place(axis.codes[run]) + SPREAD * (((run * 0.618034) % 1) - 0.5), marks };
}

/** A scale from low to high with three marks; on a logarithmic one the middle is the geometric mean. */
function scale(low, high, value, log = false) {
  const form = log ? Math.log : (number) => number;
  const at = (run) => (high > low ? (form(value(run)) - form(low)) / (form(high) - form(low)) : 0.5);
  const middle = log ? Math.sqrt(low * high) : low / 2 + high / 2;
  const marks = high > low ? [[0, short(low)], [0.5, short(middle)], [1, short(high)]] : [[0.5, short(low)]];
  return { at, marks };
}

function lastAxis(runs) {
  const metric = data.metrics[state.metric];
  if (!metric) return [];
  const values = runs.map((run) => metric.last[run]).filter((value) => value !== null);
  if (!values.length) return [];
  const value = (run) => metric.last[run] ?? NaN;
  const [low, high] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
  return [{ label: metric.label, ...scale(low, high, value) }];
}

function drawParallel(plot, groups) {
  const shown = groups.filter((group) => !state.hidden.has(group.name));
  const runs = shown.flatMap((group) => group.runs);
  const axes = [...data.axes.slice(0, -1).map(settingAxis), ...lastAxis(runs)]; // all but how runs ended
  byId("parallel").style.minWidth = `${(axes.length + 0.4) * AXIS_WIDTH}px`;
  const tracks = empty();
  const alpha = Math.max(0.15, Math.min(0.8, 8 / Math.sqrt(runs.length + 1)));
  const groupOf = new Map(shown.flatMap((group) => group.runs.map((run) => [run, group])));
  for (const run of [...groupOf.keys()].sort((a, b) => ((a * 0.618034) % 1) - ((b * 0.618034) % 1))) { // no group on top
    const [colour, isMarked] = [groupOf.get(run).colour, state.marked.has(run)];
    const look = { colour, alpha: isMarked ? 1 : alpha, width: isMarked ? 4 : 1.4, dash: [] };
    addLine(tracks, axes.map((_, x) => x), axes.map((axis) => axis.at(run)), look, shownRun(run), settingOf(run));
  }
  const marks = axes.flatMap((axis, x) => axis.marks.map(([y, text]) => ({ x, y, text })));
  plot.set("tracks", tracks);
  plot.set("rules", { x: axes.map((_, x) => x), low: axes.map(() => 0), high: axes.map(() => 1) });
  plot.set("marks", { x: marks.map(({ x }) => x), y: marks.map(({ y }) => y), text: marks.map(({ text }) => text) });
  plot.set("heads", { x: axes.map((_, x) => x), y: axes.map(() => 1.06), text: axes.map(({ label }) => cut(label, 15)) });
  const apart = Math.max(1, byId("parallel").clientWidth - LEFT - RIGHT) / Math.max(1, axes.length - 1); // pixels
  plot.range("x", -LEFT / apart, Math.max(axes.length - 1, 0.01) + RIGHT / apart);
  plot.range("y", -0.06, 1.16);
}
