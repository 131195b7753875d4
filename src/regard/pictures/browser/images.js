// The images of source labels, each framed in the colour of its weight for the target label in focus.
regard.views.images = (() => {
  const { colour, css, element, number, photograph } = regard.page, { token, key } = regard.tokens;
  const SIDE = 84;

  class Images {
    constructor(panel) {
      this.panel = panel;
      this.targets = element("div", { className: "regard-text", dir: "auto" });
      this.list = element("div", { className: "regard-thumbs regard-framed" });
      this.key = element("div");
      this.element = element("div", {}, this.targets, this.list, this.key);
      this.at = 0;
    }

    leave() {}

    cell(side, place) {
      return side === "target" ? [place, null] : [this.at, place];
    }

    picture(place) {
      const { pixels, width, height, channels } = this.panel.lookup.images, size = width * height * channels, scale = SIDE / Math.max(width, height);
      const canvas = element("canvas", { ariaHidden: "true", width: Math.round(width * scale), height: Math.round(height * scale) });
      const context = canvas.getContext("2d");
      context.imageSmoothingEnabled = scale < 1;
      context.drawImage(photograph(pixels.subarray(place * size, (place + 1) * size), width, height, channels), 0, 0, canvas.width, canvas.height);
      return canvas;
    }

    render() {
      const { panel } = this, { table } = panel;
      this.targets.hidden = table.target.length < 2;
      this.targets.replaceChildren(...table.target.map((_, place) => token(panel, "target", place)));
      this.frames = table.source.map((label, place) => element("button", {
        type: "button", tabIndex: -1, onmouseenter: () => panel.focus(this.at, place), onmouseleave: () => panel.unfocus(), onclick: () => panel.pick(this.at, place),
      }, this.picture(place), element("span", { dir: "auto" }, label), element("b")));
      this.list.replaceChildren(...this.frames);
      this.at = Math.min(this.at, Math.max(0, table.target.length - 1));
      this.mark();
    }

    mark() {
      const { table, focused, choice } = this.panel, { scale } = table;
      if (focused.target !== null) this.at = focused.target;
      const row = table.rows[this.at] || new Float32Array(0);
      this.frames.forEach((each, place) => {
        const weight = row[place] || 0, share = weight / scale;
        each.querySelector("canvas").style.borderColor = css(colour(Math.abs(share) < choice.threshold ? 0 : share));
        each.querySelector("b").textContent = number(weight);
        each.classList.toggle("regard-on", focused.source === place);
      });
      [...this.targets.children].forEach((each, place) => each.classList.toggle("regard-on", place === this.at));
      this.key.replaceChildren(key(scale, table, "frames"));
    }

    reveal(_, s) {
      if (this.frames[s]) this.frames[s].scrollIntoView({ block: "nearest" });
    }
  }

  Images.title = "Images";
  Images.fits = (lookup, map) => Boolean(lookup.images) && !map.source;
  Images.keys = { ArrowLeft: [null, -1], ArrowRight: [null, 1], ArrowUp: [-1, null], ArrowDown: [1, null] };
  Images.start = [0, null];
  return Images;
})();
