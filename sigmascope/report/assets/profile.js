// The page of a profile: what its controls do, and the order in which all is drawn.

pressed("finding", (place) => locate(data.findings[place]));
pressed("view", (view) => show(view));
pressed("line", (key) => {
  if (!state.hidden.delete(key)) state.hidden.add(key);
  drawCurves();
});
listen("change", ["log", "bounds", "usual"], ({ target }) => {
  state[target.id] = target.checked;
  drawCurves();
});
listen("change", ["form"], ({ target }) => show(state.view, target.value));
listen("click", ["whole"], () => lookAt(null));
listen("change", ["site"], ({ target }) => choose(LAYERS[target.selectedIndex].depth));
listen("click", ["previous", "next"], ({ target }) => {
  const at = byId("site").selectedIndex + (target.id === "next" ? 1 : -1);
  choose(LAYERS[at].depth);
});
listen("change", ["relative"], ({ target }) => {
  state.relative = target.checked;
  spectrum.draw();
});
listen("input", ["filter", "only"], refresh);
document.addEventListener("toggle", fillTheorem, true);

refresh();
choose(state.depth);
if (state.view) show(state.view);
follow(() => {
  drawCurves();
  spectrum.draw();
});
ready();
