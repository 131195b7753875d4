// Lines from each target label to its sources, as wide as their weights; with all heads, one colour per head.
regard.views.lines = (() => {
  const { element, number, variable } = regard.page, { token, shade } = regard.tokens;
  const LINE = 24, SAMPLE = 26, MOST = 4000, FAINT = 0.02, DASHES = [[], [8, 4], [2, 4], [10, 3, 2, 3]];

  class Lines {
    constructor(panel) {
      this.panel = panel;
      this.left = element("div", { className: "regard-column regard-right" });
      this.right = element("div", { className: "regard-column" });
      this.canvas = element("canvas", { ariaHidden: "true" });
      this.middle = element("div", { className: "regard-between" }, this.canvas);
      this.heads = element("ul", { className: "regard-legend" });
      const columns = element("div", { className: "regard-columns" }, this.left, this.middle, this.right);
      this.scroll = element("div", { className: "regard-scroll" }, columns);
      this.sides = element("p", { className: "regard-sides" });
      this.note = element("p", { className: "regard-key" });
      this.element = element("div", {}, this.sides, this.scroll, this.heads, this.note);
      this.scroll.addEventListener("scroll", () => this.draw());
      this.sizes = new ResizeObserver(() => this.draw());
      this.sizes.observe(this.middle);
    }

    leave() {
      this.sizes.disconnect();
    }

    cell(side, place) {
      return side === "target" ? [place, null] : [null, place];
    }

    // [target, source, share, head], the weakest first; only the strongest if there are very many.
    links() {
      const { panel } = this, { threshold } = panel.choice, each = panel.own.head === "each", found = [];
      const add = (rows, scale, head) => rows.forEach((row, t) => row.forEach((weight, s) => {
        const share = Math.abs(weight) / scale;
        if (share >= Math.max(threshold, FAINT)) found.push([t, s, Math.min(1, share), head]);
      }));
      if (each) [...Array(panel.map.heads).keys()].filter((head) => !panel.own.hidden.includes(head)).forEach((head) => add(panel.rowsOf(head), panel.table.scale, head));
      else add(panel.table.rows, panel.table.scale, null);
      return found.sort((a, b) => a[2] - b[2]);
    }

    render() {
      const { panel } = this, { source, target } = panel.table, [attendsTo, isAttendedTo] = panel.verbs;
      this.sides.replaceChildren(element("span", {}, `target (query): ${attendsTo}`), element("span", {}, `source (key): ${isAttendedTo}`));
      this.left.replaceChildren(...target.map((_, place) => token(panel, "target", place)));
      this.right.replaceChildren(...source.map((_, place) => token(panel, "source", place)));
      this.all = this.links();
      const heads = panel.own.head === "each" ? [...Array(panel.map.heads).keys()] : [];
      const toggle = (head) => element("button", { type: "button", ariaPressed: String(!panel.own.hidden.includes(head)), title: "Show or hide this head", onclick: () => this.toggle(head) }, this.sample(head), `head ${head}`);
      const last = this.heads.contains(document.activeElement) ? [...this.heads.children].findIndex((each) => each.contains(document.activeElement)) : -1;
      this.heads.replaceChildren(...heads.map((head) => element("li", {}, toggle(head))));
      if (last >= 0) this.heads.children[last].firstChild.focus();
      this.mark();
    }

    // Show or hide the lines of one head.
    toggle(head) {
      const { hidden } = this.panel.own;
      this.panel.own.hidden = hidden.includes(head) ? hidden.filter((each) => each !== head) : [...hidden, head];
      this.render();
    }

    // The number of weights without a line, and the reason.
    hidden(count) {
      const { choice, table } = this.panel, least = number(Math.max(choice.threshold, FAINT) * table.scale);
      const many = count > MOST ? `; of ${count.toLocaleString("en")} in sight the ${MOST.toLocaleString("en")} of the greatest weights are drawn` : "";
      const wide = table.amounts ? `${table.name}, not shares: a line of ${number(table.scale)}, the largest of all layers and heads, is the widest; those` : "a line is as wide as its weight; weights";
      const none = this.all.length ? "" : `, and no weight is larger: lower \"Minimum weight\"`;
      return `${wide} under ${least} have none${none}${many}`;
    }

    colour(head) {
      if (head === null) return variable(this.element, "--line");
      const colours = regard.beside[regard.page.dark() ? "dark" : "light"];
      return colours[head % colours.length];
    }

    // The first heads have one colour each; the next ones the same colours with dashes.
    dashes(head) {
      return head === null ? [] : DASHES[Math.floor(head / regard.beside.light.length) % DASHES.length];
    }

    // A head's sample line in the legend.
    sample(head) {
      const found = element("canvas", { width: 2 * SAMPLE, height: 8, ariaHidden: "true" }), context = found.getContext("2d");
      found.style.width = `${SAMPLE}px`;
      Object.assign(context, { strokeStyle: this.colour(head), lineWidth: 6 });
      context.setLineDash(this.dashes(head).map((each) => 2 * each));
      context.beginPath();
      context.moveTo(0, 4);
      context.lineTo(2 * SAMPLE, 4);
      context.stroke();
      return found;
    }

    reveal(t) {
      this.scroll.scrollTop = Math.max(Math.min(this.scroll.scrollTop, t * LINE), (t + 1) * LINE - this.scroll.clientHeight);
    }

    mark() {
      const { table, focused } = this.panel, { rows, scale } = table;
      const mark = (side, shares, on) => [...side.children].forEach((each, place) => {
        each.classList.toggle("regard-on", place === on);
        shade(each, shares && place !== on ? shares(place) : 0);
      });
      const of = focused.target === null ? null : (s) => (rows[focused.target][s] || 0) / scale;
      const by = focused.source === null ? null : (t) => (rows[t][focused.source] || 0) / scale;
      mark(this.right, of, focused.target === null ? focused.source : -1);
      mark(this.left, focused.target === null ? by : null, focused.target);
      if (focused.target !== null && focused.source !== null) this.right.children[focused.source].classList.add("regard-on");
      this.draw();
    }

    draw() {
      const { focused } = this.panel, width = this.middle.clientWidth, height = this.scroll.clientHeight, ratio = devicePixelRatio || 1;
      if (!width || !height || !this.all) return;
      Object.assign(this.canvas, { width: width * ratio, height: height * ratio });
      Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
      const context = this.canvas.getContext("2d"), top = this.scroll.scrollTop;
      context.scale(ratio, ratio);
      const y = (place) => (place + 0.5) * LINE - top;
      const seen = ([t, s]) => (Math.max(y(t), y(s)) >= 0 && Math.min(y(t), y(s)) <= height)
        && (focused.target === null || t === focused.target) && (focused.source === null || focused.target !== null || s === focused.source);
      // Lines of several heads between the same labels lie side by side.
      const { heads } = this.panel.map, beside = (head) => (head === null ? 0 : (head - (heads - 1) / 2) * Math.min(3, (LINE - 8) / heads));
      const found = this.all.filter(seen);
      const least = regard.page.dark() ? 0.35 : 0.12; // thin light lines on dark paper look fainter than dark ones on light
      this.note.textContent = this.hidden(found.length);
      for (const [t, s, share, head] of found.slice(-MOST)) {
        const from = y(t) + beside(head), to = y(s) + beside(head);
        context.strokeStyle = this.colour(head);
        context.setLineDash(this.dashes(head));
        context.globalAlpha = least + (1 - least) * share;
        context.lineWidth = 0.5 + 4.5 * share;
        context.beginPath();
        context.moveTo(0, from);
        context.bezierCurveTo(width / 3, from, (2 * width) / 3, to, width, to);
        context.stroke();
      }
    }
  }

  Lines.title = "Lines";
  Lines.least = 0.15;
  Lines.most = regard.beside.light.length * DASHES.length;
  Lines.fits = (lookup, map) => !regard.data.onPatches(lookup, map);
  Lines.keys = { ArrowUp: [-1, null], ArrowDown: [1, null] };
  Lines.start = [0, null];
  return Lines;
})();
