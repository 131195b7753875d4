// A photograph under the heat map of the target label in focus, and a small copy for each label.
regard.views.image = (() => {
  const { element, number, photograph, variable } = regard.page, { EVEN, end } = regard.tokens;
  const WIDE = 420, SMALL = 96, STRONGEST = 0.8, MOST = 120;
  const heat = regard.heat.map((hex) => [0, 2, 4].map((place) => parseInt(hex.slice(place, place + 2), 16)));

  class Picture {
    constructor(panel) {
      this.panel = panel;
      this.canvas = element("canvas", { className: "regard-picture", ariaHidden: "true" });
      this.list = element("div", { className: "regard-thumbs" });
      this.title = element("p", { className: "regard-caption" });
      this.key = element("div");
      this.element = element("div", { className: "regard-image" }, element("div", {}, this.canvas, this.title, this.key), this.list);
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
      const { lookup, table, choice } = this.panel, { rows, columns, width, height } = lookup.patches, ratio = devicePixelRatio || 1;
      const row = this.row(target), most = end(row);
      const scale = (wide * ratio) / Math.max(width, height);
      Object.assign(canvas, { width: Math.round(width * scale), height: Math.round(height * scale) });
      Object.assign(canvas.style, { width: `${canvas.width / ratio}px`, height: "auto" });
      const context = canvas.getContext("2d"), shades = new ImageData(columns, rows);
      context.imageSmoothingEnabled = scale < 1;
      context.drawImage(this.image, 0, 0, canvas.width, canvas.height);
      row.forEach((weight, place) => {
        const share = Math.abs(weight) / table.scale < choice.threshold ? 0 : Math.max(0, weight) / most;
        const [red, green, blue] = this.colour(share);
        shades.data.set([red, green, blue, Math.round(255 * STRONGEST * share)], 4 * place);
      });
      const mask = new OffscreenCanvas(columns, rows);
      mask.getContext("2d").putImageData(shades, 0, 0);
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
      this.legend(end(this.row(this.at)));
      const remark = table.notes[this.at];
      this.title.replaceChildren(element("bdi", {}, table.target[this.at] ?? ""), remark ? `  ${remark}` : "");
      this.thumbs.forEach((each, at) => each.classList.toggle("regard-on", at === this.at));
      this.crosses(context, wide, high);
    }

    // Crosses on the patches that the label in focus is cut from; one stroke where not in all visible maps.
    crosses(context, wide, high) {
      const { crossed, lookup: { patches: { first, rows, columns } } } = this.panel;
      context.beginPath();
      for (const { target, source, full } of crossed.filter((cut) => !cut.target || cut.target.includes(this.at))) {
        for (const place of source ? source.map((each) => each - first) : Array(rows * columns).keys()) {
          const left = (place % columns) * wide, top = Math.floor(place / columns) * high;
          context.moveTo(left + wide / 4, top + high / 4);
          context.lineTo(left + (3 * wide) / 4, top + (3 * high) / 4);
          if (!full) continue;
          context.moveTo(left + (3 * wide) / 4, top + high / 4);
          context.lineTo(left + wide / 4, top + (3 * high) / 4);
        }
      }
      for (const [color, width] of [["--paper", 6], ["--focus", 3]]) {
        Object.assign(context, { strokeStyle: variable(this.element, color), lineWidth: width });
        context.stroke();
      }
    }

    // While attention is cut the arrow keys move over the patches.
    get keys() {
      const { lookup: { patches: { columns } }, mounted } = this.panel;
      return mounted.cutting ? { ArrowLeft: [null, -1], ArrowRight: [null, 1], ArrowUp: [null, -columns], ArrowDown: [null, columns] } : Picture.keys;
    }

    // The colour of a share of the scale, which over a dark photograph is the lighter the greater it is.
    colour(share) {
      const place = Math.round(255 * share);
      return heat[this.panel.lookup.patches.dark ? 255 - place : place];
    }

    // The weights of a target label on the patches.
    row(target) {
      const { table, lookup: { patches: { first, rows, columns } } } = this.panel;
      return (table.rows[target] || new Float32Array(0)).slice(first, first + rows * columns);
    }

    // The colours of the heat map, with the weights at both ends, and the meaning of a gate.
    legend(most) {
      const ramp = element("span", { className: "regard-ramp", ariaHidden: "true" }), { notes } = this.panel.table;
      ramp.style.background = this.panel.lookup.patches.dark ? "black" : "white";
      for (let i = 0; i <= 10; i++) {
        const step = element("i"), share = i / 10;
        step.style.background = `rgb(${this.colour(share).join(" ")} / ${STRONGEST * share})`;
        ramp.append(step);
      }
      const shades = element("p", { className: "regard-key" }, "0", ramp, number(most), element("span", {}, `the greatest weight of this label, at least ${EVEN} times an even share`));
      const gate = notes.some((each) => each) ? [element("p", { className: "regard-key" }, "gate: how much of the context is used, 0 to 1")] : [];
      this.key.replaceChildren(shades, ...gate);
    }

    reveal(t) {
      if (this.thumbs[t]) this.thumbs[t].scrollIntoView({ block: "nearest" });
    }
  }

  Picture.title = "Image";
  Picture.fits = (lookup, map) => regard.data.onPatches(lookup, map);
  Picture.keys = { ArrowLeft: [-1, null], ArrowRight: [1, null], ArrowUp: [-1, null], ArrowDown: [1, null] };
  Picture.start = [0, null];
  Picture.cutHint = "A click, or arrow keys and Enter, cuts a patch; a click on a label cuts all.";
  return Picture;
})();
