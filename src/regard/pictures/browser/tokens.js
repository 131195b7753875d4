// Labels as focusable elements, shared by the views lines, reading, document and image.
regard.tokens = (() => {
  const { element, colour, css, ink, dark, number } = regard.page;

  // A label of a side, "source" or "target".
  const token = (panel, side, place, label = panel.table[side][place]) => {
    const [opposite] = ["source", "target"].filter((each) => each !== side);
    const hidden = panel.crossed.some((cut) => cut.full && cut[opposite] === null && (!cut[side] || cut[side].includes(place)));
    return element("span", {
      className: hidden ? "regard-token regard-cut" : "regard-token",
      "data-side": side,
      "data-place": place,
      onmouseenter: () => panel.focus(...panel.view.cell(side, place)),
      onmouseleave: () => panel.unfocus(),
      onclick: () => panel.pick(...panel.view.cell(side, place)),
    }, label === "" ? " " : label);
  };

  const shade = (found, share) => {
    const rgb = share ? colour(share) : null;
    found.style.background = rgb ? css(rgb) : "";
    found.style.color = rgb ? ink(rgb) : "";
  };

  // Weights on an image, and nearly even ones of a text, are dark from so many times an even share on, so that nearly even ones are faint.
  const EVEN = 4;
  const end = (row) => Math.max(greatest(row), (EVEN * row.reduce((sum, each) => sum + Math.abs(each), 0)) / Math.max(1, row.length)) || 1;

  // Whether no weight of a row stands out: all have one sign, and the greatest is below one and a half times the mean, of
  // two or three weights 1.2 times.
  const nearlyEven = (row) => {
    const most = ((row.length >= 4 ? 1.5 : 1.2) * row.reduce((sum, each) => sum + each, 0)) / row.length;
    return row.length > 1 && row.every((each) => each >= 0) && greatest(row) < most;
  };

  const greatest = (row) => row.reduce((most, each) => Math.max(most, Math.abs(each)), 0);

  // The legend of shades up to `most`, of a table or a map.
  const key = (most, { name, signed, amounts }, whose = "") => {
    const shown = amounts ? number(most) : most >= 0.01 ? most.toFixed(2) : most.toExponential(1);
    const remark = [amounts ? `${name}, not shares` : "", whose].filter((each) => each).join("; ");
    const ramp = element("span", { className: "regard-ramp", ariaHidden: "true" });
    const ends = signed ? [-1, 1] : [0, 1];
    for (let i = 0; i <= 10; i++) {
      const step = element("i");
      step.style.background = css(colour(ends[0] + ((ends[1] - ends[0]) * i) / 10));
      ramp.append(step);
    }
    return element("p", { className: "regard-key" }, signed ? `−${shown}` : "0", ramp, shown === "1.00" ? "1" : shown, remark ? element("span", {}, remark) : null);
  };

  // The appearance of the largest weight on this page.
  const strongest = () => (dark() ? "lightest" : "darkest");

  // The amount at the end of the fixed scale of a table or a map, if it is not 1.
  const whole = ({ amounts }) => (amounts ? `${strongest()}: the largest of all layers and heads` : "");

  return { token, shade, EVEN, end, nearlyEven, greatest, key, strongest, whole };
})();
