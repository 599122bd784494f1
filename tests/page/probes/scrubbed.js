// How many frames a second are shown while the clock is scrubbed to and fro.
async ({ steps }) => {
  const clock = document.querySelector('input[type="range"][aria-label^="moment of the clock"]');
  const [low, high] = [Number(clock.min), Number(clock.max)];
  const frame = () => new Promise(requestAnimationFrame);
  await frame();
  const begin = performance.now();
  for (let k = 0; k < steps; k++) {
    clock.value = String(low + ((high - low) * ((k * 37) % steps)) / steps);
    clock.dispatchEvent(new Event("input", { bubbles: true }));
    await frame();
  }
  return (1000 * steps) / (performance.now() - begin);
}
