// What every plot has in common, and the library that draws them.

// It comes packed; the page's policy knows the script that is in it.
async function withPlotly(draw) {
  const bytes = Uint8Array.from(atob(byId("plotly").textContent), (c) => c.charCodeAt(0));
  const script = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  document.head.append(element("script", {}, await new Response(script).text()));
  draw();
  document.documentElement.dataset.ready = "";
}

const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "x", "cross", "star"];
const MARGIN = { l: 58, r: 14, t: 14, b: 44 };

// Plotly reads some HTML in its labels; nothing of a name may be read as HTML.
function label(text) {
  return shown(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function tone(index) {
  return colour(`c${index % 7}`);
}

function faded(hex, alpha) {
  const part = (at) => parseInt(hex.slice(at, at + 2), 16);
  return `rgba(${part(1)}, ${part(3)}, ${part(5)}, ${alpha})`;
}

function axis(title, more = {}) {
  return {
    title: { text: title, standoff: 8 },
    gridcolor: colour("grid"),
    linecolor: colour("line"),
    tickcolor: colour("line"),
    zeroline: false,
    ...more,
  };
}

// Decades only, however many there are: 1, 10, 100, but 10⁻⁶ and not 1μ.
function scale(log, values) {
  if (!log) return { type: "linear", exponentformat: "power" };
  const sizes = values.filter((value) => value > 0 && Number.isFinite(value)).map(Math.log10);
  const low = Math.min(...sizes);
  const high = Math.max(...sizes);
  const margin = Math.max(0.06 * (high - low), 0.04);
  return {
    type: "log",
    range: [low - margin, high + margin],
    exponentformat: "power",
    dtick: high - low > 1.2 ? Math.max(1, Math.ceil((high - low) / 6)) : "D1",
  };
}

function frame(x, y, more = {}) {
  return {
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("ink") },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: MARGIN,
    showlegend: false,
    hovermode: "closest",
    hoverdistance: 30,
    hoverlabel: {
      bgcolor: colour("card"),
      bordercolor: colour("line"),
      font: { color: colour("ink"), size: 13 },
      align: "left",
    },
    xaxis: x,
    yaxis: y,
    ...more,
  };
}

const CONFIG = {
  displaylogo: false,
  responsive: true,
  displayModeBar: false,
  scrollZoom: false,
};

// Whether the values ask for a log scale: positive, and over more than a factor of 30.
function spansDecades(values) {
  const finite = values.filter(Number.isFinite);
  const positive = finite.filter((value) => value > 0);
  if (positive.length < 2 || finite.some((value) => value < 0)) return false;
  return Math.max(...positive) >= 30 * Math.min(...positive);
}
