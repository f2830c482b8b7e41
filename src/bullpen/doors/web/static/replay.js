"use strict";
// The replay slider: fetches one moment at a time and shows it like an update.
const scrub = byId("scrub");
let wanted = null, busy = false, playing = false;
async function go(to) {
  wanted = Math.min(Number(scrub.max), Math.max(1, Math.round(to)));
  scrub.value = wanted;
  if (busy) return;
  busy = true;
  try {
    while (wanted !== null) {
      const at = wanted;
      wanted = null;
      const answer = await fetch(`${root.dataset.replay}?at=${at}`);
      if (!answer.ok) throw new Error(`${answer.status}`);
      const update = await answer.json();
      root.dataset.frozen = update.at_ms;
      show({ set: update.set, order: update.order });
      byId("at").textContent = update.at;
      byId("at-time").textContent = new Date(update.at_ms).toLocaleString();
      byId("told").textContent = update.told;
      history.replaceState(null, "", `/replay?at=${update.at}`);
    }
  } catch (error) { byId("link").textContent = `disconnected (${error.message})`; playing = false; } finally { busy = false; }
}
async function play() {
  playing = !playing;
  byId("play").textContent = playing ? "Pause" : "Play";
  const end = Number(scrub.max);
  if (playing && Number(scrub.value) >= end) await go(1);
  while (playing && Number(scrub.value) < end) {
    await go(Number(scrub.value) + Math.max(1, end / 300));
    await new Promise((done) => setTimeout(done, 100));
  }
  playing = false;
  byId("play").textContent = "Play";
}
byId("play").hidden = false;
byId("play").addEventListener("click", play);
scrub.addEventListener("input", () => { playing = false; go(Number(scrub.value)); });
byId("scrubber").addEventListener("submit", (event) => event.preventDefault());
document.querySelectorAll("[data-to]").forEach((each) => each.addEventListener("click", (event) => {
  event.preventDefault();
  playing = false;
  const at = Number(scrub.value);
  go({ first: 1, back: at - 1, on: at + 1, last: Number(scrub.max) }[each.dataset.to]);
}));
