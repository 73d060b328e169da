// The theme: the system's until the reader chooses.

function dress(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", `Use the ${theme === "dark" ? "light" : "dark"} theme`);
}

// Draw now, and again whenever the theme changes, for plots take their colours when they are drawn.
function follow(draw) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const byHand = { theme: null };
  const current = () => byHand.theme || (system.matches ? "dark" : "light");
  const paint = () => {
    dress(current());
    draw();
  };
  system.addEventListener("change", paint);
  byId("theme").addEventListener("click", () => {
    byHand.theme = current() === "dark" ? "light" : "dark";
    paint();
  });
  paint();
}
