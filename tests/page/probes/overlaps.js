// Controls and headings that stand over each other.
() => {
  const shown = (e) => {
    const style = getComputedStyle(e);
    if (style.visibility === "hidden" || style.opacity === "0" || e.closest(".sr-only, dialog:not([open])")) return null;
    let { left, top, right, bottom } = e.getBoundingClientRect();
    for (let p = e.parentElement; p; p = p.parentElement) {
      if (getComputedStyle(p).overflow === "visible") continue;
      const box = p.getBoundingClientRect();
      [left, top] = [Math.max(left, box.left), Math.max(top, box.top)];
      [right, bottom] = [Math.min(right, box.right), Math.min(bottom, box.bottom)];
    }
    return right > left && bottom > top ? { left, top, right, bottom } : null;
  };
  const named = "button, select, input, h1, h2, h3, [role=tab], [role=radio]";
  const seen = [...document.querySelectorAll(named)].map((e) => [e, shown(e)]).filter(([, box]) => box);
  const nameOf = (e) => (e.ariaLabel || e.textContent).trim().slice(0, 40);
  const bad = [];
  for (const [k, [a, p]] of seen.entries()) {
    for (const [b, q] of seen.slice(k + 1)) {
      if (a.contains(b) || b.contains(a)) continue;
      const width = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const height = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (width > 1.5 && height > 1.5) bad.push(`${nameOf(a)} over ${nameOf(b)}`);
    }
  }
  return bad;
}
