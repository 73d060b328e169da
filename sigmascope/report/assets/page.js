// What all pages do: the theme, and drawing again what has changed. Each page has its redraw().

// Draws are asked for often and done once, before the next picture.
function once(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}

// Draw now, and again for another theme, for charts take their colours when they are drawn. The
// theme is the system's until the reader chooses.
function follow() {
  const [{ dataset }, button] = [document.documentElement, byId("theme")];
  const system = matchMedia("(prefers-color-scheme: dark)");
  const paint = (dark) => {
    dataset.theme = dark ? "dark" : "light";
    button.textContent = dark ? "Light" : "Dark";
    button.setAttribute("aria-label", `Use the ${dark ? "light" : "dark"} theme`);
    redraw();
  };
  system.onchange = () => paint(system.matches);
  button.onclick = () => {
    system.onchange = null;
    paint(dataset.theme !== "dark");
  };
  paint(system.matches);
}

function ready() {
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}
