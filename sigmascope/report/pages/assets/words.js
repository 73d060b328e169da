"use strict";
// Words and numbers as a reader sees them, and the only way in which elements are made.

// Characters that would act on the reader: control, text direction, zero width, line ends.
const ACTING = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]/gu;

function shown(name) {
  const written = (c) => "\\u" + c.codePointAt(0).toString(16).padStart(4, "0");
  return String(name).replace(ACTING, written);
}

function shortened(text, width) {
  const letters = Array.from(shown(text));
  if (letters.length <= width) return letters.join("");
  const tail = Math.floor(width / 2);
  return letters.slice(0, width - tail - 1).join("") + "…" + letters.slice(-tail).join("");
}

// JSON has no infinities; they come as words.
function number(cell) {
  return typeof cell === "string" ? Number(cell) : cell;
}

function compact(x, digits = 4) {
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  if (Number.isInteger(x) && size < 1e5) return String(x).replace("-", "−");
  const plain = size >= 1e-3 && size < 1e5;
  const text = plain
    ? String(Number(x.toPrecision(Math.max(digits, Math.floor(Math.log10(size)) + 1))))
    : x.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
  return text.replaceAll("-", "−");
}

// Narrower than a thousandth, an interval says nothing that the digits do not.
function matters(row) {
  return !(row.high - row.low <= 1e-3 * Math.abs(row.value));
}

function interval(row) {
  return matters(row) ? `[${compact(row.low, 3)}, ${compact(row.high, 3)}]` : "";
}

function measured(row) {
  return matters(row) ? `${compact(row.value, 3)} ${interval(row)}` : compact(row.value);
}

function chance(risk) {
  return risk ? `the interval misses with chance at most ${compact(risk, 2)}` : "";
}

// What a reading is, its interval and how it was found: for a tooltip.
function told(row) {
  const exact = row.low === row.high ? "" : ` in [${compact(row.low, 6)}, ${compact(row.high, 6)}]`;
  const risk = row.risk ? `; ${chance(row.risk)}` : "";
  return `${compact(row.value, 6)}${exact}; ${shown(row.how)}${row.form ? `, ${shown(row.form)}` : ""}${risk}`;
}

function estimate(e) {
  return measured({ value: number(e.value), low: number(e.low), high: number(e.high) });
}

function titled(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function plural(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

// Text only ever enters the page as text: there is no innerHTML in this file or any other.
function element(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// Text in which `code` is marked by backticks.
function prose(text) {
  const part = (words, i) => (i % 2 === 1 ? element("code", {}, words) : words);
  return shown(text).split("`").map(part);
}

function named(site) {
  return element("bdi", { class: "name" }, shown(site));
}

function byId(id) {
  return document.getElementById(id);
}

// What a function finds, looked for once, when it is first wanted.
function kept(find) {
  let found;
  return () => (found ??= find());
}

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
