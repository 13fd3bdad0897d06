// Groups of runs, their colours, and the mean of a group with its interval.

const DASHES = [[], [7, 3], [2, 2]];
const MOST_SAMPLES = 300; // points of a mean

/** The groups of these runs in the order of their axes: {name, runs, colour, dash}. Without axes there is one. */
function groupsOf(runs) {
  const axes = [...state.by].sort((a, b) => a - b).map((at) => data.axes[at]);
  const found = new Map();
  for (const run of everyRun) {
    const key = axes.map((axis) => String(axis.codes[run]).padStart(6, "0")).join(" ");
    if (!found.has(key)) {
      const named = axes.map((axis) => (axis.number ? `${axis.label} ${textOf(axis, run)}` : textOf(axis, run)));
      found.set(key, { key, name: named.join(" · ") || "all runs", runs: [] });
    }
    found.get(key).runs.push(run);
  }
  const wanted = new Set(runs);
  const groups = [...found.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
  groups.forEach((group, at) => { // a group keeps its colour, whichever runs are chosen
    group.colour = colourOf(`--c${at % 10}`);
    group.dash = DASHES[Math.floor(at / 10) % DASHES.length];
    group.runs = group.runs.filter((run) => wanted.has(run));
  });
  return groups.filter((group) => group.runs.length);
}

/** The value of a curve at a step between its first and its last one, on a straight line between two points. */
function valueAt({ xs, ys }, step) {
  let low = 0, high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= step) low = middle; else high = middle;
  }
  if (step >= xs[high]) return ys[high];
  if (step <= xs[low]) return ys[low];
  return ys[low] + ((ys[high] - ys[low]) * (step - xs[low])) / (xs[high] - xs[low]);
}

/** The mean of curves while all have values: {xs, ys, low, high}, low and high null below three curves. */
function meanOf(curves) {
  const first = Math.max(...curves.map(({ xs }) => xs[0]));
  const last = Math.min(...curves.map(({ xs }) => xs[xs.length - 1]));
  let xs = [...new Set(curves.flatMap((curve) => curve.xs))].filter((x) => x >= first && x <= last).sort((a, b) => a - b);
  if (xs.length > MOST_SAMPLES) {
    const every = Math.ceil(xs.length / MOST_SAMPLES);
    xs = xs.filter((_, at) => at % every === 0 || at === xs.length - 1);
  }
  const many = curves.length, quantile = data.quantiles[many] ?? 1.97;
  const ys = [], low = [], high = [];
  for (const x of xs) {
    const values = curves.map((curve) => valueAt(curve, x));
    const mean = values.reduce((sum, value) => sum + value / many, 0);
    const spread = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (many - 1));
    ys.push(mean);
    low.push(mean - (quantile * spread) / Math.sqrt(many));
    high.push(mean + (quantile * spread) / Math.sqrt(many));
  }
  return many < 3 ? { xs, ys, low: null, high: null } : { xs, ys, low, high };
}
