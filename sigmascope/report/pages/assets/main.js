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

// Views in which one quantity is read of several things, which its form tells apart.
const APART = ["setup", "training"];

function evidence(r) {
  const row = { value: number(r.value), low: number(r.low), high: number(r.high) };
  const says = data.meanings[r.quantity];
  return element(
    "li",
    says ? { title: shown(says) } : {},
    named(r.site),
    ` ${shown(r.quantity)}${APART.includes(r.view) && r.form ? `, ${shown(r.form)}:` : ""} `,
    element("span", { class: "number" }, measured(row)),
    r.risk ? element("span", { class: "hint" }, ` (${chance(r.risk)})`) : null
  );
}

function heading(finding) {
  return element(
    "header",
    {},
    element("span", { class: "badge" }, finding.severity),
    element("h3", {}, shown(finding.name)),
    finding.site ? named(finding.site) : null
  );
}

function grounds(finding, remedies) {
  const facts = element("dl");
  const fact = (title, content) => facts.append(element("dt", {}, title), element("dd", {}, content));
  if (remedies && finding.remedies.length > 0) {
    fact("What to do", element("ol", {}, ...finding.remedies.map((r) => element("li", {}, ...prose(r)))));
  }
  if (finding.evidence.length > 0) fact("Evidence", element("ul", {}, ...finding.evidence.slice(0, 6).map(evidence)));
  fact("Source", shown(finding.source));
  return facts;
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

// What follows needs no remedy of its own: it goes with its cause.
function consequence(finding) {
  const says = element("p", { class: "says" }, ...prose(finding.says));
  return element("article", { class: `consequence ${finding.severity}` }, heading(finding), says, grounds(finding, false), way(finding));
}

function card({ cause, follow }) {
  const finding = data.findings[cause];
  const says = element("p", { class: "says" }, ...prose(finding.says));
  const facts = grounds(finding, true);
  if (finding.follows) {
    facts.append(element("dt", {}, "Follows from"), element("dd", {}, shown(finding.follows)));
  }
  const words = `${plural(follow.length, "finding")} ${follow.length === 1 ? "follows" : "follow"} from this`;
  const inside = follow.map((place) => consequence(data.findings[place]));
  const rest = follow.length > 0 ? element("details", {}, element("summary", {}, words), ...inside) : null;
  return element("article", { class: `card ${finding.severity}` }, heading(finding), says, facts, way(finding), rest);
}

function fillFindings() {
  const none = element("p", { class: "empty" }, data.coverage.no_findings);
  const cards = data.cards.length > 0 ? data.cards.map(card) : [none];
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
  const causes = data.cards.map(({ cause }) => data.findings[cause]);
  const tiles = ["error", "warning", "note"].map((severity) => {
    const count = causes.filter((finding) => finding.severity === severity).length;
    const tone = severity === "note" ? "" : count ? severity : "good";
    return tile(count === 1 ? severity : `${severity}s`, String(count), tone);
  });
  const more = data.findings.length - causes.length;
  if (more > 0) tiles.push(tile(`${more === 1 ? "finding follows" : "findings follow"} from ${causes.length === 1 ? "it" : "them"}`, String(more), ""));
  tiles.push(tile(data.layers.length === 1 ? "layer" : "layers", String(data.layers.length), ""));
  tiles.push(tile(rows.length === 1 ? "reading" : "readings", String(rows.length), ""));
  if (THEOREMS.length > 0) tiles.push(theoremTile());
  byId("chances").replaceChildren(...data.chances.map(chanceTile));
  byId("tiles").replaceChildren(...tiles);
}

function wireCurves() {
  byId("form").addEventListener("change", (event) => {
    state.form[state.view] = event.target.value;
    drawCurves();
  });
  for (const name of ["log", "bounds"]) {
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
