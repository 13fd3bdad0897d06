// The boxes, ranges and lists with which the reader chooses runs, groups and the metric.

/** A box for each value of an axis, or a range for a number with many values. */
function axisControl(axis, at) {
  const field = element("fieldset", { className: "axis" }, element("legend", {}, axis.label));
  if (hasRange(axis)) {
    const ends = ["from", "to"].map((word, end) => {
      const input = element("input", { type: "number", step: "any", placeholder: axis.values.at(end ? -1 : 0) });
      input.oninput = () => { state.ranges[at][end] = input.value === "" ? (end ? Infinity : -Infinity) : Number(input.value); refresh(); };
      return element("label", {}, `${word} `, input);
    });
    field.append(element("div", { className: "row" }, ...ends));
    return field;
  }
  const boxes = axis.values.map((text, code) => {
    const input = element("input", { type: "checkbox", checked: true });
    input.onchange = () => { if (input.checked) state.off[at].delete(code); else state.off[at].add(code); refresh(); };
    const runs = axis.codes.filter((other) => other === code).length;
    return element("label", {}, input, element("span", {}, text), element("span", { className: "count" }, String(runs)));
  });
  if (boxes.length > 2) {
    const flip = element("button", { type: "button" }, "all or none");
    flip.setAttribute("aria-label", `${axis.label}: all values or none`);
    flip.onclick = () => {
      const all = state.off[at].size > 0;
      boxes.forEach((box, code) => { box.firstChild.checked = all; if (all) state.off[at].delete(code); else state.off[at].add(code); });
      refresh();
    };
    field.append(flip);
  }
  field.append(element("div", { className: "values" }, ...boxes));
  return field;
}

/** Group by all settings where these are few, else by the first that has few values; seeds and builds are in the band. */
function firstGrouping() {
  const settings = data.axes.map((axis, at) => [axis, at]).slice(0, -1).filter(([axis]) => !axis.replicate);
  const whole = settings.reduce((product, [axis]) => product * axis.values.length, 1);
  if (whole <= 10) return new Set(settings.map(([, at]) => at));
  const first = settings.find(([axis]) => axis.values.length <= 10);
  return new Set(first ? [first[1]] : []);
}

function fillAxes() {
  const controls = data.axes.map(axisControl);
  const few = controls.length > 8 ? [...controls.slice(0, 6), controls.at(-1)] : controls;
  const rest = controls.filter((control) => !few.includes(control));
  byId("axes").replaceChildren(...few);
  if (rest.length) byId("axes").append(element("details", {}, element("summary", {}, `${rest.length} more axes`), ...rest));
}

function fillGrouping() {
  const labels = data.axes.map((axis, at) => {
    const input = element("input", { type: "checkbox", checked: state.by.has(at) });
    input.onchange = () => { if (input.checked) state.by.add(at); else state.by.delete(at); state.hidden.clear(); refresh(); };
    return element("label", {}, input, axis.label);
  });
  byId("grouping").append(...labels);
}

function listen(curves) {
  const on = (id, event, act) => { byId(id)[`on${event}`] = act; };
  byId("metric").append(...data.metrics.map((metric, at) => new Option(metric.label, String(at))));
  on("metric", "change", () => { state.metric = Number(byId("metric").value); state.window = null; refresh(); });
  on("search", "input", () => { state.words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean); refresh(); });
  on("everything", "click", () => {
    state.off.forEach((values) => values.clear());
    state.ranges = data.axes.map(() => [-Infinity, Infinity]);
    state.words = []; byId("search").value = "";
    fillAxes();
    refresh();
  });
  for (const id of ["means", "singles", "everymetric"]) on(id, "change", refresh);
  on("unmark", "click", () => { state.marked.clear(); refresh(); });
  on("more", "click", () => { state.rows += MORE_ROWS; refresh(); });
  on("closer", "click", () => zoom(curves, 0.5, 0));
  on("wider", "click", () => zoom(curves, 2, 0));
  on("earlier", "click", () => zoom(curves, 1, -0.25));
  on("later", "click", () => zoom(curves, 1, 0.25));
  on("whole", "click", () => { state.window = null; frame(curves); });
}
