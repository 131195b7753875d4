// regard.mount(element, payload): the component on an element of any page.
regard.mount = (() => {
  const { element, night } = regard.page;

  class Mounted {
    constructor(host, title, lookups) {
      this.host = host;
      this.lookups = lookups;
      this.choice = { view: "matrix", threshold: 0, words: false, zoom: 0 };
      this.panels = [new regard.Panel(this, {})];
      this.area = element("div", { className: "regard-panels" }, ...this.panels.map((panel) => panel.element));
      host.classList.add("regard");
      host.replaceChildren(...(title ? [element("h1", { dir: "auto" }, title)] : []), this.area);
      this.repaint = () => this.render();
      night.addEventListener("change", this.repaint);
      this.render();
    }

    render() {
      this.panels.forEach((panel) => panel.render());
    }

    // choose({ view, threshold, words, zoom }): what holds for all panels.
    choose(some) {
      Object.assign(this.choice, some);
      this.render();
    }

    // append({ target, weights, source, note, others }, lookup = 0): one more target label with its row.
    append(row, lookup = 0) {
      this.lookups[lookup].append(row);
      this.render();
    }

    follow(from, { target, source }) {
      for (const panel of this.panels) if (panel !== from) panel.focus(target, source, false);
    }

    tell(name, detail) {
      this.host.dispatchEvent(new CustomEvent(name, { detail, bubbles: true }));
    }

    leave() {
      night.removeEventListener("change", this.repaint);
      this.panels.forEach((panel) => panel.view.leave());
      this.host.replaceChildren();
    }
  }

  return async (host, payload) => {
    if (payload.format !== 1) throw new Error(`lookups in format ${payload.format}; this page reads format 1`);
    const lookups = await Promise.all(payload.lookups.map(regard.data.lookups));
    return new Mounted(host, payload.title, lookups);
  };
})();
