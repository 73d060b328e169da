// What all pages do: the theme, and drawing again when it or the width changes.

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

// Draw now, and again for another size or theme, for charts take their colours when they are
// drawn. The theme is the system's until the reader chooses.
function follow(draw) {
  const [root, button] = [document.documentElement, byId("theme")];
  const system = matchMedia("(prefers-color-scheme: dark)");
  const paint = (theme) => {
    const other = theme === "dark" ? "light" : "dark";
    root.dataset.theme = theme;
    button.textContent = other === "dark" ? "Dark" : "Light";
    button.setAttribute("aria-label", `Use the ${other} theme`);
    draw();
  };
  const bySystem = () => paint(system.matches ? "dark" : "light");
  system.addEventListener("change", bySystem);
  button.addEventListener("click", () => {
    system.removeEventListener("change", bySystem);
    paint(root.dataset.theme === "dark" ? "light" : "dark");
  });
  bySystem();
  let width = document.body.clientWidth;
  const resized = () => {
    if (width !== document.body.clientWidth) draw();
    width = document.body.clientWidth;
  };
  new ResizeObserver(once(resized)).observe(document.body);
}

function ready() {
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}
