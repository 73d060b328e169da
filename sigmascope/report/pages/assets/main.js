// The head of the page, the findings, the theme, and the order in which all is drawn.

function locate(finding) {
  const first = finding.evidence[0];
  const depth = finding.depth !== null ? finding.depth : first ? first.depth : null;
  if (first && DRAWN.includes(first.view)) {
    state.hidden.delete(`${first.view}|${first.quantity}`);
    state.view = first.view;
    if (formsOf(first.view).includes(first.form)) state.form[first.view] = first.form;
    drawControls();
  }
  if (depth !== null && byDepth.has(depth)) choose(depth);
  else drawCurves();
  const holds = (panel) => first && JSON.parse(panel.dataset.quantities).includes(first.quantity);
  const panel = [...byId("panels").querySelectorAll(".panel")].find(holds);
  if (!panel) return byId("curves").scrollIntoView();
  panel.classList.add("found");
  panel.tabIndex = -1;
  panel.focus({ preventScroll: true });
  panel.scrollIntoView({ block: "center" });
}

// Where the evidence can be seen: in the curves, or among the runs of training; nowhere else.
function way(finding) {
  const first = finding.evidence[0];
  const button = (words, onclick) => element("button", { type: "button", class: "button", onclick }, words);
  if (first && first.view === "training") {
    return button("Show the runs", () => byId("training").scrollIntoView());
  }
  const drawn = first ? first.depth !== null && DRAWN.includes(first.view) : finding.depth !== null;
  return drawn ? button("Show in the curves", () => locate(finding)) : null;
}

const meant = (quantity) => data.meanings[quantity];

function fillFindings() {
  const cards = cardsOr(data.coverage.no_findings);
  const unseen = data.coverage.unseen.join("; ");
  if (unseen) cards.push(element("p", { class: "empty unseen" }, ...prose(`Not looked at: ${unseen}.`)));
  byId("headline").textContent = data.headline;
  byId("cards").replaceChildren(...cards);
}

function chanceTile({ name, estimate, says }) {
  const [value, high] = [number(estimate.value), number(estimate.high)];
  const tone = value >= 0.5 ? "good" : high < 0.5 ? "error" : "warning";
  return tile(shown(name), compact(value, 2), `chance ${tone}`, shown(says));
}

// A theorem that does not apply says nothing, and one that holds is no praise of the network.
function theoremTile() {
  const spoke = THEOREMS.filter((t) => t.spoke.length > 0);
  if (spoke.length === 0) return tile("theorems apply to this model", "none", "");
  const broken = spoke.filter((t) => t.spoke.some((c) => c.verdict === "violated")).length;
  const held = `${spoke.length - broken} of ${spoke.length}`;
  return tile(spoke.length === 1 ? "theorem that applies is upheld" : "theorems that apply are upheld", held, broken ? "error" : "");
}

function fillHead() {
  byId("model").textContent = shown(data.about.name || data.about.model || "Profile");
  byId("coverage").textContent = data.coverage.says;
  const tiles = severityTiles();
  const causes = data.cards;
  const more = data.findings.length - causes.length;
  if (more > 0) tiles.push(tile(`${more === 1 ? "finding follows" : "findings follow"} from ${causes.length === 1 ? "it" : "them"}`, String(more), ""));
  tiles.push(tile(data.layers.length === 1 ? "layer" : "layers", String(data.layers.length), ""));
  tiles.push(tile(rows.length === 1 ? "reading" : "readings", String(rows.length), ""));
  if (THEOREMS.length > 0) tiles.push(theoremTile());
  byId("chances").replaceChildren(...data.chances.map(chanceTile));
  byId("tiles").replaceChildren(...tiles);
}

function wireCurves() {
  byId("whole").addEventListener("click", () => lookAt(null));
  byId("form").addEventListener("change", (event) => {
    state.form[state.view] = event.target.value;
    drawCurves();
  });
  for (const name of ["log", "bounds", "usual"]) {
    byId(name).addEventListener("change", (event) => {
      state[name] = event.target.checked;
      drawCurves();
    });
  }
}

fillHead();
fillFindings();
fillTraining();
drawControls();
wireCurves();
fillLayers();
fillTable();
fillTheorems();
fillRest();
const start = data.findings.find((finding) => finding.depth !== null && byDepth.has(finding.depth));
state.depth = start ? start.depth : DEPTHS.length > 0 ? DEPTHS[0] : null;
byId("site").value = String(state.depth);
const redraw = () => {
  drawCurves();
  drawLayer();
};
follow(redraw);
new ResizeObserver(once(redraw)).observe(document.querySelector("main"));
document.documentElement.dataset.ready = String(Math.round(performance.now()));
