// The matrix: source along the top, target down the side, one cell per weight. Only the visible part is rendered.
regard.views.matrix = (() => {
  const { element, number, pixels, variable } = regard.page, { key, strongest, whole } = regard.tokens;
  const SIDE = 150, TYPE = 12;

  // A label, shortened to the available width.
  const fitted = (context, label, room) => {
    if (context.measureText(label).width <= room) return label;
    let cut = [...label];
    while (cut.length > 1 && context.measureText(cut.join("") + "…").width > room) cut = cut.slice(0, -1);
    return cut.join("") + "…";
  };

  class Matrix {
    constructor(panel) {
      this.panel = panel;
      this.canvas = element("canvas", { ariaHidden: "true" });
      this.extent = element("div", { className: "regard-extent" }, this.canvas);
      this.scroll = element("div", { className: "regard-scroll" }, this.extent);
      this.key = element("div");
      this.axes = element("p", { className: "regard-axes" });
      this.element = element("div", {}, this.axes, this.scroll, this.key);
      this.scroll.addEventListener("scroll", () => this.mark());
      this.canvas.addEventListener("mousemove", (event) => { const at = this.at(event); panel.focus(at[0], at[1]); });
      this.canvas.addEventListener("mouseleave", () => panel.unfocus());
      this.canvas.addEventListener("pointerdown", (event) => {
        if (!panel.mounted.cutting || event.pointerType !== "mouse") return;
        this.canvas.setPointerCapture(event.pointerId);
        panel.focus(...this.at(event));
        panel.from = panel.focused;
      });
      this.canvas.addEventListener("click", (event) => { const at = this.at(event); panel.pick(at[0], at[1]); });
      this.sizes = new ResizeObserver(() => { this.render(); if (this.panel.mounted.comparing) this.panel.mounted.flush(); });
      this.sizes.observe(this.scroll);
    }

    leave() {
      this.sizes.disconnect();
    }

    // Sizes from the labels and the available room, and the weights as an image with one pixel each.
    render() {
      const { source, target, within } = this.panel.table, context = this.canvas.getContext("2d");
      this.axes.textContent = within ? "↓ query   → key" : "↓ target (query)   → source (key)";
      context.font = this.font();
      const width = (labels) => labels.reduce((most, label) => Math.max(most, context.measureText(label).width), 0);
      const room = this.scroll.clientWidth || 600, across = width(source);
      this.left = Math.min(SIDE, width(target)) + 10;
      const fit = (room - this.left - 2) / Math.max(1, source.length);
      this.cell = this.panel.choice.zoom || Math.floor(Math.max(14, Math.min(30, fit)));
      this.turned = across > this.cell - 4;
      this.top = (this.turned ? Math.min(SIDE, across) : TYPE) + 10;
      this.widen(this.left, this.top);
      this.image = this.painted();
      this.mark();
    }

    // Give the labels this room at the left and above the cells.
    widen(left, top) {
      const { source, target } = this.panel.table;
      Object.assign(this, { left, top });
      this.extent.style.width = `${left + source.length * this.cell + 1}px`;
      this.extent.style.height = `${top + target.length * this.cell + 1}px`;
      this.mark();
    }

    font() {
      return `${Math.max(9, Math.min(TYPE + 1, this.cell || TYPE))}px ${variable(this.element, "font-family") || "sans-serif"}`;
    }

    painted() {
      const { table, scaleEnd: most } = this.panel, { source, target, rows, scale } = table, { threshold, shade } = this.panel.choice;
      if (!source.length || !target.length) return null;
      const adapted = most === scale ? whole(table) : shade === "largest" ? `${strongest()}: the maximum of this matrix` : `all weights are small, so the ${strongest()} color is ${number(most)}, not 1`;
      this.key.replaceChildren(key(most, table, adapted));
      const count = source.length;
      return pixels(count, target.length, (place) => {
        const weight = rows[Math.floor(place / count)][place % count] || 0;
        return Math.abs(weight) / scale < threshold ? 0 : weight / most;
      });
    }

    at(event) {
      const box = this.canvas.getBoundingClientRect();
      const x = event.clientX - box.left, y = event.clientY - box.top;
      const s = Math.floor((x - this.left + this.scroll.scrollLeft) / this.cell);
      const t = Math.floor((y - this.top + this.scroll.scrollTop) / this.cell);
      return [y < this.top ? null : t, x < this.left ? null : s];
    }

    // Scroll to a cell that was reached by keys.
    reveal(t, s) {
      const box = this.scroll, x = s * this.cell, y = t * this.cell;
      const across = box.clientWidth - this.left - this.cell, down = box.clientHeight - this.top - this.cell;
      box.scrollLeft = Math.max(Math.min(box.scrollLeft, x), x - across);
      box.scrollTop = Math.max(Math.min(box.scrollTop, y), y - down);
    }

    mark() {
      const box = this.scroll, ratio = devicePixelRatio || 1;
      const width = box.clientWidth, height = box.clientHeight;
      if (!width || !height) return;
      this.canvas.width = width * ratio;
      this.canvas.height = height * ratio;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
      const context = this.canvas.getContext("2d");
      context.scale(ratio, ratio);
      context.imageSmoothingEnabled = false;
      const { source, target } = this.panel.table, cell = this.cell;
      const x = (s) => this.left + s * cell - box.scrollLeft, y = (t) => this.top + t * cell - box.scrollTop;
      const seen = (scroll, room, count) => [Math.max(0, Math.floor(scroll / cell)), Math.min(count, Math.ceil((scroll + room) / cell))];
      const [s0, s1] = seen(box.scrollLeft, width - this.left, source.length);
      const [t0, t1] = seen(box.scrollTop, height - this.top, target.length);
      if (this.image && s1 > s0 && t1 > t0) {
        context.drawImage(this.image, s0, t0, s1 - s0, t1 - t0, x(s0), y(t0), (s1 - s0) * cell, (t1 - t0) * cell);
      }
      this.lines(context, { x, y, s0, s1, t0, t1 });
      this.crosses(context, { x, y, s0, s1, t0, t1 });
      this.outline(context, x, y);
      this.labels(context, { x, y, s0, s1, t0, t1, width, height });
    }

    lines(context, { x, y, s0, s1, t0, t1 }) {
      context.strokeStyle = variable(this.element, "--grid");
      context.lineWidth = 1;
      context.beginPath();
      for (let s = s0; s <= s1; s += this.cell < 8 ? Math.max(1, s1 - s0) : 1) {
        context.moveTo(x(s) + 0.5, y(t0));
        context.lineTo(x(s) + 0.5, y(t1));
      }
      for (let t = t0; t <= t1; t += this.cell < 8 ? Math.max(1, t1 - t0) : 1) {
        context.moveTo(x(s0), y(t) + 0.5);
        context.lineTo(x(s1), y(t) + 0.5);
      }
      context.stroke();
    }

    // Crosses on the cells that are cut; one stroke where not in all visible maps.
    crosses(context, { x, y, s0, s1, t0, t1 }) {
      const { cell } = this, visible = (places, from, to) => (places ? places.filter((place) => place >= from && place < to) : [...Array(to - from).keys()].map((place) => from + place));
      context.beginPath();
      for (const { target, source, full } of this.panel.crossed) {
        for (const t of visible(target, t0, t1)) {
          for (const s of visible(source, s0, s1)) {
            context.moveTo(x(s) + cell / 4, y(t) + cell / 4);
            context.lineTo(x(s) + (3 * cell) / 4, y(t) + (3 * cell) / 4);
            if (!full) continue;
            context.moveTo(x(s) + (3 * cell) / 4, y(t) + cell / 4);
            context.lineTo(x(s) + cell / 4, y(t) + (3 * cell) / 4);
          }
        }
      }
      for (const [color, width] of [["--paper", 5], ["--focus", 2]]) {
        Object.assign(context, { strokeStyle: variable(this.element, color), lineWidth: width });
        context.stroke();
      }
    }

    // A frame around the cell in focus, or the selected ones.
    outline(context, x, y) {
      const { target, source } = this.panel.focused, from = this.panel.from || this.panel.focused;
      if ([target, source, from.target, from.source].includes(null)) return;
      context.strokeStyle = variable(this.element, "--focus");
      context.lineWidth = 2;
      const [left, right] = [source, from.source].sort((a, b) => a - b), [top, bottom] = [target, from.target].sort((a, b) => a - b);
      context.strokeRect(x(left) + 0.5, y(top) + 0.5, (right - left + 1) * this.cell, (bottom - top + 1) * this.cell);
    }

    labels(context, { x, y, s0, s1, t0, t1, width, height }) {
      const { source, target } = this.panel.table, at = this.panel.focused, step = Math.ceil(10 / this.cell);
      const ink = variable(this.element, "--ink"), mark = variable(this.element, "--mark"), paper = variable(this.element, "--paper");
      context.font = this.font();
      context.textBaseline = "middle";
      context.fillStyle = paper;
      context.fillRect(0, 0, width, this.top);
      context.fillRect(0, 0, this.left, height);
      context.save();
      context.beginPath();
      context.rect(0, this.top, this.left, height);
      context.clip();
      for (let t = t0; t < t1; t++) {
        const on = t === at.target;
        if (t % step && !on) continue;
        if (on) { context.fillStyle = mark; context.fillRect(0, y(t), this.left, Math.max(this.cell, 12)); }
        context.fillStyle = ink;
        context.textAlign = "right";
        context.fillText(fitted(context, target[t], this.left - 10), this.left - 6, y(t) + this.cell / 2);
      }
      context.restore();
      context.save();
      context.beginPath();
      context.rect(this.left, 0, width, this.top);
      context.clip();
      for (let s = s0; s < s1; s++) {
        const on = s === at.source;
        if (s % step && !on) continue;
        if (on) { context.fillStyle = mark; context.fillRect(x(s), 0, Math.max(this.cell, 12), this.top); }
        context.fillStyle = ink;
        this.head(context, source[s], x(s) + this.cell / 2);
      }
      context.restore();
    }

    head(context, label, middle) {
      const turned = this.turned && [...label].length > 1; // a single letter, or a sign, stays upright
      context.save();
      context.translate(middle, this.top - 6);
      if (turned) context.rotate(-Math.PI / 2);
      context.textAlign = turned ? "left" : "center";
      context.fillText(fitted(context, label, turned ? this.top - 10 : Math.max(this.cell, TYPE)), 0, turned ? 0 : -TYPE / 2);
      context.restore();
    }
  }

  Matrix.title = "Matrix";
  Matrix.fits = (lookup, map) => !regard.data.onPatches(lookup, map);
  Matrix.keys = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  Matrix.start = [0, 0];
  return Matrix;
})();
