// A table of which only the rows in sight are in the document.

const ROW = 34; // pixels, as in grid.css
const BEYOND = 8; // rows drawn above and below what is in sight

// What rows are sorted by: numbers, or else the places of their texts in their order.
function keysOf({ key, text }, rows) {
  if (key) return Float64Array.from(rows, (row) => key(row) ?? NaN);
  const words = rows.map(text);
  const order = new Intl.Collator("en", { numeric: true }).compare;
  const places = new Map([...new Set(words)].sort(order).map((word, i) => [word, i]));
  return Float64Array.from(words, (word) => places.get(word));
}

class Grid {
  // Each field is {name, width}, and may have a text(row) of its own, numbers to sort by, key(row),
  // another title, grow, start at its largest (down), be hidden, and have words for its head (says,
  // unit), a tooltip(row) or what to fill(row) a cell with. A click and Enter open a row, space
  // and a box in it mark it.
  constructor(root, { rows, fields, open, mark = open, chosen = () => false }) {
    const whole = ({ name, text = (row) => row[name], fill = (row) => [text(row)], ...more }) => {
      return { name, title: name, text, fill, tooltip: text, ...more };
    };
    Object.assign(this, { root, rows, fields: fields.map(whole), open, mark, chosen });
    Object.assign(this, { active: 0, order: [], sort: null, down: false });
    this.head = element("div.line", { role: "row" });
    this.body = element("div.rows", { role: "rowgroup" });
    root.replaceChildren(element("div.line-group", { role: "rowgroup" }, this.head), this.body);
    const again = once(() => this.drawRows());
    root.addEventListener("scroll", again, { passive: true });
    root.addEventListener("keydown", (event) => event.target === root && this.walk(event));
    new ResizeObserver(again).observe(root);
  }

  // Show the rows that pass from the top, in the order wanted; what was not read stands last.
  show(passes = () => true) {
    const { rows, sort } = this;
    const order = rows.flatMap((row, i) => (passes(row) ? [i] : []));
    if (sort) {
      const [keys, sign] = [(sort.keys ??= keysOf(sort, rows)), this.down ? -1 : 1];
      const unread = (i) => Number(Number.isNaN(keys[i]));
      order.sort((a, b) => unread(a) - unread(b) || sign * (keys[a] - keys[b]) || a - b);
    }
    const active = Math.min(this.active, Math.max(0, order.length - 1));
    Object.assign(this, { passes, order, active });
    this.root.scrollTop = 0;
    this.draw();
  }

  draw() {
    const { root } = this;
    this.seen = this.fields.filter(({ hidden }) => !hidden);
    const columns = this.seen.map((f) => (f.grow ? `minmax(${f.width}, 1fr)` : f.width));
    root.style.setProperty("--columns", columns.join(" "));
    root.style.setProperty("--wide", `calc(${this.seen.map((f) => f.width).join(" + ")})`);
    root.setAttribute("aria-rowcount", this.order.length + 1);
    root.setAttribute("aria-colcount", columns.length);
    const heads = this.seen.map((field, k) => {
      const { name, title, unit, says, key } = field;
      const order = this.sort !== field ? "none" : this.down ? "descending" : "ascending";
      const onclick = () => {
        Object.assign(this, { down: order === "none" ? field.down : !this.down, sort: field });
        this.show(this.passes);
        this.head.children[k].firstChild.focus({ preventScroll: true });
      };
      const acts = { title: says || `sort by ${title}`, onclick };
      const words = [element("span.title", {}, title), unit && element("span.unit", {}, unit)];
      const button = element("button", { type: "button", "data-field": name, ...acts }, ...words);
      const options = { role: "columnheader", "aria-sort": order, class: key ? "n" : name };
      return element("div", options, button);
    });
    this.head.replaceChildren(...heads);
    this.body.style.height = `${this.order.length * ROW}px`;
    this.drawRows();
  }

  drawRows() {
    const { root, order } = this;
    const from = Math.max(0, Math.floor(root.scrollTop / ROW) - BEYOND);
    const to = Math.ceil((root.scrollTop + root.clientHeight) / ROW) + BEYOND;
    const made = order.slice(from, to).map((i, k) => {
      const [row, place] = [this.rows[i], from + k];
      const cells = this.seen.map(({ name, key, fill, tooltip }) => {
        const role = name === "site" ? "rowheader" : "gridcell";
        return element("div", { role, title: tooltip(row), class: key ? "n" : name }, ...fill(row));
      });
      const onclick = ({ target }) => {
        if (target.type === "checkbox") return this.mark(row);
        this.active = place;
        this.open(row);
      };
      const chosen = this.chosen(row);
      const states = { "aria-rowindex": place + 2, "aria-selected": chosen, onclick };
      const at = { id: `${root.id}-${place}`, style: `top: ${place * ROW}px` };
      const looks = `div.row ${place === this.active ? "active" : ""} ${chosen ? "chosen" : ""}`;
      return element(looks, { role: "row", ...states, ...at }, ...cells);
    });
    this.body.replaceChildren(...made);
    if (order.length > 0) root.setAttribute("aria-activedescendant", `${root.id}-${this.active}`);
  }

  // Arrows walk through the rows.
  walk(event) {
    const { root, order } = this;
    const page = Math.max(1, Math.floor(root.clientHeight / ROW) - 2);
    const lines = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    const step = { ...lines, Home: -order.length, End: order.length }[event.key];
    const act = { Enter: this.open, " ": this.mark }[event.key];
    if (order.length === 0 || (step === undefined && !act)) return;
    event.preventDefault();
    if (act) return act(this.rows[order[this.active]]);
    this.active = Math.max(0, Math.min(order.length - 1, this.active + step));
    const top = this.active * ROW;
    const seen = root.clientHeight - this.head.offsetHeight - ROW;
    root.scrollTop = Math.min(top, Math.max(root.scrollTop, top - seen));
    this.drawRows();
  }
}
