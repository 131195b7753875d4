// An image lit by the weights of the target label in focus, and a small copy for each label.
regard.views.image = (() => {
  const { element, photograph, variable } = regard.page, { greatest } = regard.tokens;
  const WIDE = 420, SMALL = 96, DARKEST = 0.15, MOST = 120;

  class Picture {
    constructor(panel) {
      this.panel = panel;
      this.canvas = element("canvas", { className: "regard-picture", ariaHidden: "true" });
      this.list = element("div", { className: "regard-thumbs" });
      this.title = element("p", { className: "regard-caption" });
      this.element = element("div", { className: "regard-image" }, element("div", {}, this.canvas, this.title), this.list);
      this.canvas.addEventListener("mousemove", (event) => panel.focus(this.at, this.patch(event)));
      this.canvas.addEventListener("mouseleave", () => panel.unfocus());
      this.canvas.addEventListener("click", (event) => panel.pick(this.at, this.patch(event)));
      this.at = 0;
    }

    leave() {}

    patch(event) {
      const box = this.canvas.getBoundingClientRect(), { rows, columns, first } = this.panel.lookup.patches;
      const share = (place, from, size, count) => Math.max(0, Math.min(count - 1, Math.floor(((place - from) / size) * count)));
      return first + share(event.clientY, box.top, box.height, rows) * columns + share(event.clientX, box.left, box.width, columns);
    }

    render() {
      const { panel } = this, { lookup, table } = panel, { width, height, channels } = lookup.patches;
      this.image = photograph(lookup.pixels, width, height, channels);
      this.at = Math.min(this.at, Math.max(0, table.target.length - 1));
      this.thumbs = table.target.slice(0, MOST).map((label, place) => {
        const canvas = element("canvas", { ariaHidden: "true" });
        this.lit(canvas, place, SMALL);
        return element("button", {
          type: "button", tabIndex: -1, onmouseenter: () => panel.focus(place, null), onclick: () => panel.pick(place, null),
        }, canvas, element("span", {}, label));
      });
      const count = table.target.length;
      const rest = count > MOST ? element("p", { className: "regard-key" }, `the first ${MOST} of ${count} labels; the arrow keys reach all`) : "";
      this.list.replaceChildren(...this.thumbs, rest);
      this.list.hidden = table.target.length < 2;
      this.mark();
    }

    lit(canvas, target, wide) {
      const { lookup, table, choice } = this.panel, { rows, columns, first, width, height } = lookup.patches, ratio = devicePixelRatio || 1;
      const row = (table.rows[target] || []).slice(first, first + rows * columns), most = greatest(row) || 1;
      const scale = (wide * ratio) / Math.max(width, height);
      Object.assign(canvas, { width: Math.round(width * scale), height: Math.round(height * scale) });
      Object.assign(canvas.style, { width: `${canvas.width / ratio}px`, height: `${canvas.height / ratio}px` });
      const context = canvas.getContext("2d"), dark = new ImageData(columns, rows);
      context.imageSmoothingEnabled = scale < 1;
      context.drawImage(this.image, 0, 0, canvas.width, canvas.height);
      row.forEach((weight, place) => {
        const share = Math.abs(weight) / table.scale < choice.threshold ? 0 : Math.max(0, weight) / most;
        dark.data[4 * place + 3] = Math.round(255 * (1 - DARKEST) * (1 - share));
      });
      const mask = new OffscreenCanvas(columns, rows);
      mask.getContext("2d").putImageData(dark, 0, 0);
      context.imageSmoothingEnabled = true;
      context.drawImage(mask, 0, 0, canvas.width, canvas.height);
      return { context, wide: canvas.width / columns, high: canvas.height / rows };
    }

    mark() {
      const { focused, lookup, table } = this.panel, { first, columns } = lookup.patches;
      if (focused.target !== null) this.at = focused.target;
      const { context, wide, high } = this.lit(this.canvas, this.at, WIDE), place = (focused.source ?? -1) - first;
      if (place >= 0) {
        context.strokeStyle = variable(this.element, "--focus");
        context.lineWidth = 3;
        context.strokeRect((place % columns) * wide, Math.floor(place / columns) * high, wide, high);
      }
      const remark = table.notes[this.at];
      this.title.replaceChildren(element("bdi", {}, table.target[this.at] ?? ""), remark ? `  ${remark}` : "");
      this.thumbs.forEach((each, at) => each.classList.toggle("regard-on", at === this.at));
    }

    reveal(t) {
      if (this.thumbs[t]) this.thumbs[t].scrollIntoView({ block: "nearest" });
    }
  }

  Picture.title = "Image";
  Picture.fits = (lookup, map) => Boolean(lookup.patches) && !map.source;
  Picture.keys = { ArrowLeft: [-1, null], ArrowRight: [1, null], ArrowUp: [-1, null], ArrowDown: [1, null] };
  Picture.start = [0, null];
  return Picture;
})();
