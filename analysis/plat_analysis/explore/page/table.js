// The table of the chosen runs: sorted by its heads, marked by its boxes, with links to folders and MLflow's pages.

const FEW_METRICS = 8;
const MORE_ROWS = 500;

/** The columns as {label, key(run) to sort by, text(run), number}. */
function columns() {
  const metrics = byId("everymetric").checked ? data.metrics : data.metrics.slice(0, FEW_METRICS);
  return [
    { label: "run", key: (run) => data.ids[run], text: (run) => data.ids[run].slice(0, 8), title: (run) => data.names[run] },
    ...data.axes.map((axis) => ({ label: axis.label, key: (run) => axis.codes[run], text: (run) => textOf(axis, run) })),
    ...metrics.map((metric) => ({
      label: metric.label, number: true, key: (run) => metric.last[run],
      text: (run) => (metric.diverged[run] === null ? short(metric.last[run]) : `no number from ${metric.diverged[run]}`),
    })),
  ];
}

function sorted(runs, shown) {
  const column = shown.find(({ label }) => label === state.sort.column);
  if (!column) return runs;
  const sign = state.sort.up ? 1 : -1;
  return [...runs].sort((a, b) => {
    const [x, y] = [column.key(a), column.key(b)];
    if (x === null || y === null) return (x === null) - (y === null) || a - b; // without a value: last
    return x < y ? -sign : x > y ? sign : a - b;
  });
}

function drawTable(runs) {
  const shown = columns();
  const hasFolders = data.folders.some(Boolean), hasPages = data.pages.some(Boolean);
  const rows = sorted(runs, shown).slice(0, state.rows);
  const focused = document.activeElement?.closest("#table") && document.activeElement.dataset.at;
  const head = element("tr", {}, element("th", { scope: "col" }, "mark"), ...shown.map(headOf));
  if (hasFolders || hasPages) head.append(element("th", { scope: "col" }, "more"));
  const body = rows.map((run) => {
    const box = element("input", { type: "checkbox", checked: state.marked.has(run) });
    box.setAttribute("aria-label", `mark ${data.ids[run].slice(0, 8)}`);
    box.dataset.at = `run ${run}`;
    box.onchange = () => { if (!state.marked.delete(run)) state.marked.add(run); refresh(); };
    const row = element("tr", { className: state.marked.has(run) ? "marked" : "" }, element("td", {}, box));
    shown.forEach((column, at) => {
      const text = column.text(run);
      const cell = element(at ? "td" : "th", { className: column.number ? "n" : "", title: column.title ? column.title(run) : text }, text);
      if (!at) cell.scope = "row";
      row.append(cell);
    });
    if (data.missing[run]) row.cells[data.axes.length + 1].className = "missing";
    if (hasFolders || hasPages) row.append(linksOf(run));
    return row;
  });
  byId("table").replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
  if (focused) byId("table").querySelector(`[data-at="${CSS.escape(focused)}"]`)?.focus();
  byId("more").hidden = rows.length === runs.length;
  byId("more").textContent = `Show more of the ${runs.length} runs`;
  byId("unmark").disabled = !state.marked.size;
}

function headOf(column) {
  const button = element("button", { type: "button", title: column.label }, column.label);
  const head = element("th", { scope: "col", className: column.number ? "n" : "" }, button);
  if (state.sort.column === column.label) head.setAttribute("aria-sort", state.sort.up ? "ascending" : "descending");
  button.dataset.at = `head ${column.label}`;
  button.onclick = () => {
    const again = state.sort.column === column.label;
    state.sort = { column: column.label, up: again ? !state.sort.up : !column.number }; // numbers: largest first
    refresh();
  };
  return head;
}

function linksOf(run) {
  const cell = element("td", {});
  for (const [text, address] of [["folder", data.folders[run]], ["MLflow", data.pages[run]]]) {
    if (!address) continue;
    const link = element("a", { href: address }, text);
    link.setAttribute("aria-label", `${text} of ${data.ids[run].slice(0, 8)}`);
    cell.append(cell.childNodes.length ? " · " : "", link);
  }
  return cell;
}
