// Words that are cut off or stand outside the window, where nothing scrolls to them.
() => {
  const scrolls = (style) => /(auto|scroll)/.test(style.overflowX);
  const isReached = (e) => {
    for (let p = e; p; p = p.parentElement) if (scrolls(getComputedStyle(p))) return true;
    return false;
  };
  const bad = [];
  const named = "button, label, h1, h2, h3, kbd, td, th, dt, dd, li, p, [role=tab], [role=status]";
  for (const e of document.querySelectorAll(named)) {
    const style = getComputedStyle(e);
    const box = e.getBoundingClientRect();
    if (!box.width || !box.height || e.closest(".sr-only") || style.visibility === "hidden") continue;
    const words = (e.ariaLabel || e.textContent).trim().slice(0, 60);
    const hides = style.overflowX !== "visible" && !scrolls(style) && style.textOverflow !== "ellipsis";
    if (hides && e.scrollWidth > e.clientWidth + 1) bad.push(`cut: ${words}`);
    const isOut = box.right > innerWidth + 1 || box.left < -1;
    if (isOut && !isReached(e.parentElement)) bad.push(`outside: ${words}`);
  }
  if (document.documentElement.scrollWidth > innerWidth + 1) bad.push("the page is wider than its window");
  return bad;
}
