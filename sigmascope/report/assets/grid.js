// A table of which only the rows in sight are in the document.

const ROW = 34; // pixels, as in grid.css
const BEYOND = 8; // rows drawn above and below what is in sight

// What so many rows are sorted by: numbers, or else the places of their texts in their order.
function keysOf({ key, text }, count) {
  if (key) return Float64Array.from({ length: count }, (_, i) => key(i) ?? NaN);
  const words = Array.from({ length: count }, (_, i) => text(i));
  const order = new Intl.Collator("en", { numeric: true }).compare;
  const places = new Map([...new Set(words)].sort(order).map((word, i) => [word, i]));
  return Float64Array.from(words, (word) => places.get(word));
}

class Grid {
  // A row is a number below the count. Each of fields() is {name, width, text(row)} and may have
  // numbers to sort by, key(row), another title, grow, start at its largest (down), and have words
  // for its head (says, unit), a tooltip(row) or what to fill(row) a cell with. A click and Enter
  // open a row, space marks it.
  constructor(root, { count, fields, open, mark = open, chosen = () => false }) {
    Object.assign(this, { root, count, fields, open, mark, chosen, sort: null, down: false });
    Object.assign(this, { active: 0, kept: [], order: [] });
    this.head = element("div.line", { role: "row" });
    this.body = element("div.rows", { role: "rowgroup" });
    root.replaceChildren(element("div.line-group", { role: "rowgroup" }, this.head), this.body);
    const again = once(() => this.drawRows());
    root.addEventListener("scroll", again, { passive: true });
    root.addEventListener("keydown", (event) => event.target === root && this.walk(event));
    new ResizeObserver(again).observe(root);
  }

  // Show these rows from the top, in the order wanted; what was not read stands last.
  show(kept) {
    Object.assign(this, { kept, order: kept });
    if (this.sort) {
      const [keys, sign] = [(this.sort.keys ??= keysOf(this.sort, this.count)), this.down ? -1 : 1];
      const unread = (is) => kept.filter((i) => Number.isNaN(keys[i]) === is);
      const by = (a, b) => (keys[a] === keys[b] ? a - b : keys[a] < keys[b] ? -sign : sign);
      this.order = [...unread(false).sort(by), ...unread(true)];
    }
    this.active = Math.min(this.active, Math.max(0, this.order.length - 1));
    this.root.scrollTop = 0;
    this.draw();
  }

  sortBy(field) {
    this.down = this.sort === field ? !this.down : Boolean(field.down);
    this.sort = field;
    this.show(this.kept);
    const place = `[data-field="${CSS.escape(field.name)}"]`;
    this.head.querySelector(place).focus({ preventScroll: true });
  }

  draw() {
    const [fields, { root }] = [this.fields(), this];
    const columns = fields.map((f) => (f.grow ? `minmax(${f.width}, 1fr)` : f.width));
    root.style.setProperty("--columns", columns.join(" "));
    root.style.setProperty("--wide", `calc(${fields.map((f) => f.width).join(" + ")})`);
    root.setAttribute("aria-rowcount", String(this.order.length + 1));
    root.setAttribute("aria-colcount", String(fields.length));
    const heads = fields.map((field) => {
      const { name, title = name, unit, says, key } = field;
      const order = this.sort !== field ? "none" : this.down ? "descending" : "ascending";
      const words = { title: says || `sort by ${title}`, onclick: () => this.sortBy(field) };
      const button = element("button", { type: "button", "data-field": name, ...words });
      button.append(element("span.title", {}, title));
      if (unit) button.append(element("span.unit", {}, unit));
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
    const fields = this.fields();
    const made = order.slice(from, to).map((i, k) => {
      const [place, chosen] = [from + k, this.chosen(i)];
      const cells = fields.map(({ name, key, fill, text, tooltip = fill ? () => "" : text }) => {
        const role = { role: name === "site" ? "rowheader" : "gridcell", title: tooltip(i) };
        const inside = fill ? fill(i) : [text(i)];
        return element("div", { ...role, class: key ? "n" : name }, ...inside);
      });
      const onclick = () => {
        this.active = place;
        this.open(i);
      };
      const looks = ["row", place === this.active && "active", chosen && "chosen"];
      const options = { role: "row", class: looks.filter(Boolean).join(" "), onclick };
      const states = { "aria-rowindex": String(place + 2), "aria-selected": String(chosen) };
      const at = { id: `${root.id}-${place}`, style: `top: ${place * ROW}px` };
      return element("div", { ...options, ...states, ...at }, ...cells);
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
    if (act) return act(order[this.active]);
    this.active = Math.max(0, Math.min(order.length - 1, this.active + step));
    const top = this.active * ROW;
    const seen = root.clientHeight - this.head.offsetHeight - ROW;
    root.scrollTop = Math.min(top, Math.max(root.scrollTop, top - seen));
    this.drawRows();
  }
}
