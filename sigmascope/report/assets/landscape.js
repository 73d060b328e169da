// The page of a landscape: figures are data, and the library that draws them comes packed.

const { figures } = JSON.parse(byId("data").textContent);
const LOOKS = { displaylogo: false, responsive: true, displayModeBar: false, scrollZoom: false };

// Which figure of a plot the reader chose.
const CHOICES = {
  trajectories: () => byId("site").value,
  slice: () => ["relief", "surface-log"].filter((id) => byId(id).checked).join(" "),
};

// Colours have the names that the page has for them.
function draw(id) {
  const value = (_, name) => JSON.stringify(ink(name)).slice(1, -1);
  const figure = JSON.stringify(figures[id][CHOICES[id]?.() ?? ""]);
  const { data, layout } = JSON.parse(figure.replace(/var\((--\w+)\)/g, value));
  const traces = data.filter(({ meta }) => !meta || byId(meta).checked);
  Plotly.react(byId(id), traces, layout, LOOKS);
}

// The page's policy knows the script that is in the package.
async function unpack() {
  const bytes = Uint8Array.from(atob(byId("plotly").textContent), (c) => c.charCodeAt(0));
  const script = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  document.head.append(element("script", {}, await new Response(script).text()));
}

unpack().then(() => {
  listen("change", ["site"], () => draw("trajectories"));
  listen("change", ["relief", "surface-log"], () => draw("slice"));
  listen("change", ["fills", "edges"], () => draw("map"));
  frames.push(() => Object.keys(figures).forEach(draw));
  follow();
});
