"use strict";
// Words and numbers as a reader sees them, and the only way in which scripts make elements. Names
// in the page's data have nothing in them that acts on a screen: report/pages.py writes that out.

function shortened(text, width) {
  const letters = Array.from(text);
  if (letters.length <= width) return text;
  const tail = Math.floor(width / 2);
  return `${letters.slice(0, width - tail - 1).join("")}…${letters.slice(-tail).join("")}`;
}

function compact(x, digits = 4) {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "nan" : x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  const whole = Number.isInteger(x) ? 5 : Math.max(digits, Math.floor(Math.log10(size)) + 1);
  const text =
    x === 0 || (size >= 1e-3 && size < 1e5)
      ? String(Number(x.toPrecision(whole)))
      : x.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
  return text.replaceAll("-", "−");
}

// Narrower than a thousandth, an interval says nothing that the digits do not.
const matters = ({ value, low, high }) => !(high - low <= 1e-3 * Math.abs(value));

const interval = (row) => (matters(row) ? `[${compact(row.low, 3)}, ${compact(row.high, 3)}]` : "");

const measured = (row) => `${compact(row.value, matters(row) ? 3 : 4)} ${interval(row)}`.trim();

const chance = (risk) => risk && `the interval misses with chance at most ${compact(risk, 2)}`;

// What a reading is, its interval and how it was found: for a tooltip.
function told({ value, low, high, how, form, risk }) {
  const exact = low === high ? "" : ` in [${compact(low, 6)}, ${compact(high, 6)}]`;
  const found = [how, form].filter(Boolean).join(", ");
  return [`${compact(value, 6)}${exact}`, found, chance(risk)].filter(Boolean).join("; ");
}

const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

// Text only ever enters the page as text: there is no innerHTML in this file or any other. A tag
// may have classes behind a dot; a child that is not there leaves no trace.
function element(tag, options = {}, ...children) {
  const [name, looks = ""] = tag.split(".");
  const made = document.createElement(name);
  if (looks) made.className = looks;
  for (const [key, value] of Object.entries(options)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => (child ?? false) !== false));
  return made;
}

const named = (site) => element("bdi.name", {}, site);

const byId = (id) => document.getElementById(id);

const checked = (id) => byId(id).checked;

// One property of several elements, by their ids.
function each(property, values) {
  for (const [id, value] of Object.entries(values)) byId(id)[property] = value;
}

function listen(event, ids, heard) {
  for (const id of ids) byId(id).addEventListener(event, heard);
}

// Buttons that are told apart by a word in their data, those to come among them.
function pressed(word, heard) {
  document.addEventListener("click", (event) => {
    const button = event.target.closest(`[data-${word}]`);
    if (button) heard(button.dataset[word], event);
  });
}

// The words of a search box, each of which has to occur in what it finds.
function search(id) {
  const words = byId(id).value.toLowerCase().split(/\s+/).filter(Boolean);
  return (text) => words.every((word) => text.includes(word));
}

// What a function finds, looked for once, when it is first wanted.
function kept(find) {
  let found;
  return () => (found ??= find());
}
