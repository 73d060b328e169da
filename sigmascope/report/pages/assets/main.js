// The head of the page, the findings, the theme, and the order in which all is drawn.

function locate(finding) {
  const first = finding.evidence[0];
  const depth = finding.depth !== null ? finding.depth : first ? first.depth : null;
  if (first && VIEWS.includes(first.view)) {
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

function evidence(r) {
  const row = { value: number(r.value), low: number(r.low), high: number(r.high) };
  return element(
    "li",
    {},
    named(r.site),
    ` ${shown(r.quantity)} `,
    element("span", { class: "number" }, measured(row)),
    r.risk ? element("span", { class: "hint" }, ` (${chance(r.risk)})`) : null
  );
}

function card(finding) {
  const facts = element("dl");
  const fact = (title, content) => facts.append(element("dt", {}, title), element("dd", {}, content));
  if (finding.evidence.length > 0) fact("Evidence", element("ul", {}, ...finding.evidence.slice(0, 6).map(evidence)));
  if (finding.remedies.length > 0) {
    fact("What to do", element("ol", {}, ...finding.remedies.map((r) => element("li", {}, ...prose(r)))));
  }
  fact("Source", shown(finding.source));
  const head = element(
    "header",
    {},
    element("span", { class: "badge" }, finding.severity),
    element("h3", {}, shown(finding.name)),
    finding.site ? named(finding.site) : null
  );
  const says = element("p", { class: "says" }, ...prose(finding.says));
  if (finding.follows) fact("Follows from", shown(finding.follows));
  const go = element("button", { type: "button", class: "button", onclick: () => locate(finding) }, "Show in the curves");
  return element("article", { class: `card ${finding.severity}` }, head, says, facts, go);
}

function fillFindings() {
  const none = element("p", { class: "empty" }, data.coverage.no_findings);
  const cards = data.findings.length > 0 ? data.findings.map(card) : [none];
  const unseen = data.coverage.unseen.join("; ");
  if (unseen) cards.push(element("p", { class: "empty unseen" }, `Not looked at: ${shown(unseen)}.`));
  byId("cards").replaceChildren(...cards);
}

function fillHead() {
  byId("model").textContent = shown(data.about.name || data.about.model || "Profile");
  byId("coverage").textContent = data.coverage.says;
  const count = (severity) => data.findings.filter((f) => f.severity === severity).length;
  const held = data.checks.filter((c) => c.verdict === "holds" || c.verdict === "consistent").length;
  const violated = data.checks.filter((c) => c.verdict === "violated").length;
  const tiles = [
    [count("error") === 1 ? "error" : "errors", count("error"), count("error") ? "error" : "good"],
    [count("warning") === 1 ? "warning" : "warnings", count("warning"), count("warning") ? "warning" : "good"],
    [count("note") === 1 ? "note" : "notes", count("note"), ""],
    ["layers", data.layers.length, ""],
    ["readings", rows.length, ""],
    ["theorem checks upheld", `${held} of ${held + violated}`, violated ? "error" : "good"],
  ];
  const fits = rows.find((row) => row.quantity === "probability of fitting");
  if (fits) {
    const tone = fits.value >= 0.5 ? "good" : fits.high < 0.5 ? "error" : "warning";
    tiles.unshift(["probability of fitting", fits.value.toFixed(2), tone]);
  }
  const made = tiles.map(([title, value, tone]) =>
    element("div", { class: tone }, element("dt", {}, title), element("dd", {}, String(value)))
  );
  byId("tiles").replaceChildren(...made);
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
drawControls();
wireCurves();
fillLayers();
fillTable();
fillTheorems();
fillRest();
const start = data.findings.find((finding) => finding.depth !== null && byDepth.has(finding.depth));
state.depth = start ? start.depth : DEPTHS.length > 0 ? DEPTHS[0] : null;
byId("site").value = String(state.depth);
follow(() => {
  drawCurves();
  drawLayer();
});
