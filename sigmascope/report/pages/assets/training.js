// Training: runs at the user's settings and beside them.

function runRow(run) {
  const cells = run.cells.map((cell) =>
    element("td", { class: "n" }, cell ? estimate(cell) : "–")
  );
  const own = run === data.training.runs[0] ? { class: "own" } : {};
  return element("tr", own, element("th", { scope: "row" }, shown(run.form)), ...cells);
}

function runsTable() {
  const titles = data.training.columns.map((column) =>
    element("th", { scope: "col", class: "n", title: column.says }, column.title)
  );
  const head = element("tr", {}, element("th", { scope: "col" }, "run"), ...titles);
  const body = data.training.runs.map(runRow);
  const whole = element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
  return element("div", { class: "panel scroll", tabindex: "0", "aria-label": "Runs of training" }, whole);
}

function fillTraining() {
  const { runs, facts, scale } = data.training;
  const none = runs.length === 0 && facts.length === 0;
  byId("training").hidden = none;
  document.querySelector('a[href="#training"]').hidden = none;
  if (none) return;
  const settings = data.about.training;
  byId("settings").textContent = settings ? `Your settings: ${shown(settings)}. All runs were made on copies.` : "";
  byId("runs").replaceChildren(...(runs.length > 0 ? [runsTable()] : []));
  byId("scale").textContent = runs.length > 0 ? scale : "";
  byId("trained").replaceChildren(...facts.map((fact) => {
    const made = tile(shown(fact.title), estimate(fact), "");
    made.title = fact.says;
    return made;
  }));
}
