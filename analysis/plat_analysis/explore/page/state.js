// What the page knows of the runs, and which of them the reader has chosen.

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const count = data.ids.length;
const everyRun = Array.from({ length: count }, (_, run) => run);
const MOST_BOXES = 12; // values of a number that get a box each; more get a range

const state = {
  off: data.axes.map(() => new Set()), // by axis: the values that are not wanted
  ranges: data.axes.map(() => [-Infinity, Infinity]),
  words: [],
  metric: 0,
  by: new Set(), // positions of the axes that runs are grouped by
  hidden: new Set(), // names of groups
  marked: new Set(), // runs
  sort: { column: null, up: true },
  rows: 100,
  window: null, // [first step, last step, lowest, highest] of a zoom
};

const textOf = (axis, run) => axis.values[axis.codes[run]];
const hasRange = (axis) => axis.number && axis.values.length > MOST_BOXES;
const searched = everyRun.map((run) =>
  [data.ids[run], data.names[run], ...data.axes.flatMap((axis) => [textOf(axis, run), `${axis.label}=${textOf(axis, run)}`])]
    .join("\n").toLowerCase());

/** The runs that every axis and every word of the search let through. */
function chosen() {
  return everyRun.filter((run) =>
    data.axes.every((axis, at) => {
      if (!hasRange(axis)) return !state.off[at].has(axis.codes[run]);
      const [low, high] = state.ranges[at];
      return (low === -Infinity && high === Infinity) || (Number(textOf(axis, run)) >= low && Number(textOf(axis, run)) <= high);
    }) && state.words.every((word) => searched[run].includes(word)));
}

const stepsOf = data.steps.map((differences) => {
  let at = 0;
  return differences.map((difference) => (at += difference));
});

/** The curve of a run as {xs, ys}, NaN where a value is infinite; null if the run never logged the metric. */
function curveOf(metric, run) {
  const entry = metric.curve[run];
  if (entry === 0) return null;
  if (typeof entry[1] === "string") {
    const bytes = Uint8Array.from(atob(entry[1]), (letter) => letter.charCodeAt(0));
    const values = metric.wide ? new Float64Array(bytes.buffer) : new Float32Array(bytes.buffer);
    entry[1] = Array.from(values, (value) => (Number.isFinite(value) ? value : NaN));
  }
  return { xs: stepsOf[entry[0]], ys: entry[1] };
}

/** A number with five digits, e.g. 0.51234 or 1.2e-7. */
function short(value) {
  if (value === null || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-4 || size >= 1e7) ? value.toExponential(3) : String(Number(value.toPrecision(5)));
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A new element with properties and children; texts are text, never HTML. */
function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}
