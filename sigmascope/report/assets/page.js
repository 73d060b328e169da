// What all pages do: the theme, and drawing again what has changed.

// Draws are asked for often and done once, before the next picture.
function once(draw) {
  let asked = 0;
  const drawn = () => {
    asked = 0;
    draw();
  };
  return () => (asked ||= requestAnimationFrame(drawn));
}

const frames = []; // what is done before charts are drawn

// All that is drawn, as soon as the page has its colours.
function redraw() {
  const { dataset } = document.documentElement;
  if (!dataset.theme) return;
  for (const frame of frames) frame();
  for (const { chart } of document.querySelectorAll("canvas")) chart?.draw();
  dataset.ready ??= String(Math.round(performance.now()));
}

// Controls of which nothing but the drawing depends say so themselves.
document.addEventListener("change", ({ target }) => "redraw" in target.dataset && redraw());

// Draw now, and again for another theme, for charts take their colours when they are drawn. The
// theme is the system's until the reader chooses.
function follow() {
  const button = byId("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const paint = (dark) => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    button.textContent = dark ? "Light" : "Dark";
    button.setAttribute("aria-label", `Use the ${dark ? "light" : "dark"} theme`);
    redraw();
  };
  system.onchange = () => paint(system.matches);
  button.onclick = () => {
    system.onchange = null;
    paint(document.documentElement.dataset.theme !== "dark");
  };
  paint(system.matches);
}
