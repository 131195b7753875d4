// What a reader takes along: a link to the present view, and the visible map as a picture or a table.
regard.share = (() => {
  const { element, colour, css, ink } = regard.page, CELL = 22, ROOM = 130, FONT = 12;

  // The parts of a map of a panel: filled squares, and labels, some of them turned.
  const parts = ({ table: { source, target, rows }, scaleEnd }) => {
    const cells = rows.flatMap((row, t) => source.map((_, s) => [ROOM + s * CELL, ROOM + t * CELL, css(colour((row[s] || 0) / scaleEnd))]));
    const short = (label) => (label.length > 16 ? `${label.slice(0, 15)}…` : label), middle = (place) => ROOM + (place + 0.7) * CELL;
    const labels = [...source.map((label, s) => [short(label), middle(s), ROOM - 6, true]), ...target.map((label, t) => [short(label), ROOM - 6, middle(t), false])];
    return { cells, labels, width: ROOM + source.length * CELL + 2, height: ROOM + target.length * CELL + 2, paper: css(colour(0)), text: ink(colour(0)) };
  };

  const svg = (panel) => {
    const { cells, labels, width, height, paper, text } = parts(panel), escaped = (label) => label.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt()};`);
    const lines = [`<svg width="${width}" height="${height}" font-family="sans-serif" font-size="${FONT}"><rect width="100%" height="100%" fill="${paper}"/><g stroke="#9995">`,
      ...cells.map(([x, y, fill]) => `<rect x="${x}" y="${y}" width="${CELL}" height="${CELL}" fill="${fill}"/>`), `</g><g fill="${text}">`,
      ...labels.map(([label, x, y, turn]) => `<text x="${x}" y="${y}" ${turn ? `transform="rotate(-90 ${x} ${y})"` : 'text-anchor="end"'}>${escaped(label)}</text>`), "</g></svg>"];
    // written with its namespace
    return new XMLSerializer().serializeToString(new DOMParser().parseFromString(lines.join("\n"), "text/html").querySelector("svg"));
  };

  const png = (panel) => {
    const { cells, labels, width, height, paper, text } = parts(panel), canvas = new OffscreenCanvas(2 * width, 2 * height), context = canvas.getContext("2d");
    context.scale(2, 2);
    for (const [x, y, fill, side = CELL - 0.5] of [[0, 0, paper, width + height], ...cells]) {
      context.fillStyle = fill;
      context.fillRect(x, y, side, side);
    }
    Object.assign(context, { fillStyle: text, font: `${FONT}px sans-serif` });
    for (const [label, x, y, turn] of labels) {
      context.setTransform(...(turn ? [0, -2, 2, 0] : [2, 0, 0, 2]), 2 * x, 2 * y);
      context.textAlign = turn ? "start" : "end";
      context.fillText(label, 0, 0);
    }
    return canvas.convertToBlob({ type: "image/png" });
  };

  const csv = ({ table: { source, target, rows } }) => {
    const cell = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    return [["", ...source.map(cell)], ...rows.map((row, t) => [cell(target[t]), ...source.map((_, s) => row[s] || 0)])].map((line) => line.join(",")).join("\n");
  };

  const save = (content, name, type) => {
    const link = element("a", { href: URL.createObjectURL(new Blob([content], { type })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  // The settings that `begin` reads, as the end of an address.
  const settings = ({ choice: { view, threshold, words, zoom, shade }, panels: [{ own: { map, layer, head }, focused: { target, source } }] }) => {
    const all = { view, threshold, words: words ? "1" : null, zoom: zoom || null, shade: shade === "auto" ? null : shade, map: map || null, layer, head, target, source };
    return String(new URLSearchParams(Object.entries(all).filter(([, value]) => value !== null && value !== undefined)));
  };

  // The buttons of a page or, without the link, of a part of another page.
  const buttons = (mounted) => {
    const [panel] = mounted.panels, said = element("span", { role: "status" }), button = (text, onclick) => element("button", { type: "button", ariaLabel: text === "Copy link" ? text : `Download ${text}`, onclick }, text);
    const copy = async () => {
      location.replace(`#${settings(mounted)}`);
      const done = navigator.clipboard && await navigator.clipboard.writeText(location.href).then(() => true, () => false);
      said.textContent = done ? "copied" : "the address of the page is the link";
    };
    const link = document.body.classList.contains("regard-page") ? [button("Copy link", copy)] : [];
    return element("details", { className: "regard-share" }, element("summary", {}, "Share"), element("span", {}, ...link,
      button("PNG", async () => save(await png(panel), "attention.png", "image/png")), button("SVG", () => save(svg(panel), "attention.svg", "image/svg+xml")),
      button("CSV", () => save(csv(panel), "attention.csv", "text/csv")), said));
  };

  return { buttons, settings, svg, csv };
})();
