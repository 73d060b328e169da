// Small charts, one for each kind of matrix: a quantity over depth, a dot for each matrix.

const CHARTS = 36; // drawn at first; the rest when asked for
const charts = [];

const quantityShown = () => COLUMN.get(byId("quantity").value);

// Depth where the kind has one, and none left of them; else the order in the checkpoint.
function placesOf(list) {
  if (list.every((i) => DEPTH[i] < 0)) return { x: list.map((_, k) => k), words: () => "" };
  const words = (t) => (t === -1 ? "none" : t >= 0 && Number.isInteger(t) ? String(t) : "");
  return { x: list.map((i) => DEPTH[i]), words };
}

function makeChart(name, kind) {
  const all = SITES.map((_, i) => i).filter((i) => data.matrices.kind.at[i] === kind);
  const list = all.sort((a, b) => DEPTH[a] - DEPTH[b] || a - b);
  const canvas = element("canvas", { tabindex: "0", role: "img" });
  const note = element("p", { class: "hint" });
  const open = ({ mark, i }, beside) => show(mark.list[i], beside);
  const one = { name: name, list, canvas, note, ...placesOf(list) };
  const count = element("span", { class: "hint" }, ` ${list.length}`);
  const title = element("h3", { title: one.name }, shortened(name, 40), count);
  charts.push(new Chart(canvas, () => specOf(one), { open }));
  return element("figure", { class: "panel small" }, title, canvas, note);
}

function makeCharts(most) {
  const kinds = data.matrices.kind.words;
  charts.length = 0;
  byId("charts").replaceChildren(...kinds.slice(0, most).map(makeChart));
  byId("all").hidden = kinds.length <= most;
}

function specOf({ name, list, x, words, canvas, note }) {
  const [column, log] = [quantityShown(), byId("log").checked];
  const places = list.map((_, k) => k).filter((k) => Number.isFinite(column.values[list[k]]));
  const drawn = places.filter((k) => !log || column.values[list[k]] > 0);
  const columns = (some) => ({
    ...{ kind: "line", joined: false, list: some.map((k) => list[k]), x: some.map((k) => x[k]) },
    y: some.map((k) => column.values[list[k]]),
  });
  const says = (i) => [shortened(SITES[list[drawn[i]]], 44), measured(column.row(list[drawn[i]]))];
  const many = drawn.length > 300;
  const looks = { colour: ink("--accent"), radius: many ? 1.6 : 2.8, alpha: many ? 0.6 : 0.9 };
  const rings = chosen.map((i, k) => {
    const ring = columns(drawn.filter((at) => list[at] === i));
    return { ...ring, colour: tone(k), shape: RING, radius: 6.5 };
  });
  const less = places.length - drawn.length;
  const summary = `${column.name} of ${name} over depth, ${plural(drawn.length, "dot")}`;
  canvas.setAttribute("aria-label", `${summary}; arrow keys walk, Enter opens`);
  note.textContent = less > 0 ? `${less} not above zero` : "";
  const [low, high] = x.length > 0 ? extent(x) : [0, 1];
  const room = 0.5 + (high - low) * 0.02;
  const y = byId("same").checked ? ends(Array.from(column.values), log) : { log };
  const marks = [{ ...columns(drawn), ...looks, says }, ...rings];
  return { x: { low: low - room, high: high + room, words }, y, marks, empty: "none read" };
}

function drawCharts() {
  if (quantityShown()) for (const chart of charts) chart.draw();
}

function chooseQuantity() {
  const { spec } = quantityShown();
  byId("log").checked = spec.scale === "log";
  byId("means").textContent = spec.means;
  drawCharts();
}
