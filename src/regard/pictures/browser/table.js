// The weights as a table: all of them, or the row in focus if there are many.
regard.views.table = (() => {
  const { element, number } = regard.page, MOST = 2500;

  class Table {
    constructor(panel) {
      this.panel = panel;
      this.element = element("div", { className: "regard-scroll" });
      this.at = 0;
    }

    leave() {}

    render() {
      const { source, target, rows } = this.panel.table;
      this.whole = source.length * target.length <= MOST;
      if (!this.whole) return this.row();
      const heads = source.map((label) => element("th", { scope: "col", dir: "auto" }, label));
      const line = (label, t) => element("tr", {}, element("th", { scope: "row", dir: "auto" }, label), ...source.map((_, s) => element("td", {}, number(rows[t][s] || 0))));
      const corner = element("td", {}, "target \\ source");
      this.element.replaceChildren(element("table", { className: "regard-numbers" }, element("thead", {}, element("tr", {}, corner, ...heads)), element("tbody", {}, ...target.map(line))));
    }

    // One row, the largest weight first.
    row() {
      const { source, target, rows } = this.panel.table, row = rows[this.at] || [];
      const order = [...source.keys()].sort((a, b) => Math.abs(row[b] || 0) - Math.abs(row[a] || 0) || a - b);
      const choice = element("select", { ariaLabel: "Row", onchange: () => { this.at = Number(choice.value); this.row(); } },
        ...target.map((label, t) => element("option", { value: t, selected: t === this.at }, `${t}: ${label}`)));
      const body = order.map((s) => element("tr", {}, element("td", {}, `${s}`), element("th", { scope: "row", dir: "auto" }, source[s]), element("td", {}, number(row[s] || 0))));
      const names = ["position", "source", "weight"].map((name) => element("th", { scope: "col" }, name));
      const head = element("thead", {}, element("tr", {}, ...names));
      this.element.replaceChildren(
        element("label", { className: "regard-choice" }, element("span", {}, "Row"), choice),
        element("table", { className: "regard-numbers" }, head, element("tbody", {}, ...body)),
      );
    }

    mark() {
      const { target } = this.panel.focused;
      if (this.whole || target === null || target === this.at) return;
      this.at = target;
      this.row();
    }
  }

  Table.title = "Table";
  Table.hint = "";
  Table.cutHint = "Choose another view to cut attention.";
  Table.fits = () => true;
  Table.keys = {};
  return Table;
})();
