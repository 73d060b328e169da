// The page of a scan: what its controls do, and the order in which all is drawn.

// Open what a finding is of, with the quantity that shows it drawn over depth.
pressed("finding", (place) => {
  const { quantities, matrices } = data.findings[place];
  const first = quantities.find((quantity) => COLUMN.has(quantity));
  if (first) {
    byId("quantity").value = first;
    chooseQuantity();
  }
  showAll(matrices.slice(0, MOST));
});
pressed("open", (place, event) => show(Number(place), event.shiftKey));
listen("input", ["filter", "kind", "from", "to"], refresh);
listen("change", ["columns"], ({ target }) => {
  table.fields.find(({ name }) => name === target.dataset.column).hidden = !target.checked;
  table.draw();
});
listen("change", ["quantity"], chooseQuantity);
listen("click", ["all"], () => {
  makeCharts(Infinity);
  redraw();
});

// What the quantities are, in a list and at the boxes of their columns.
for (const { name, means } of [...COLUMNS, ...PAIRS]) {
  byId("meanings").append(element("dt", {}, name), element("dd", {}, means));
  const box = document.querySelector(`[data-column="${CSS.escape(name)}"]`);
  box?.parentElement.setAttribute("title", means);
}
makeCharts(CHARTS);
chooseQuantity();
refresh();
if (PAIRS.length > 0) fillPairs();
choose(COUNT > 0 ? [data.start] : []);
follow();
