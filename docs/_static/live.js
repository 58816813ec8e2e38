// Live figures are light or dark with the page around them.
const tell = (frame) => frame.contentWindow.postMessage({ theme: document.documentElement.dataset.theme }, "*");
addEventListener("DOMContentLoaded", () => {
  const frames = [...document.querySelectorAll(".live iframe")];
  for (const frame of frames) {
    tell(frame);
    frame.addEventListener("load", () => tell(frame));
  }
  new MutationObserver(() => frames.forEach(tell)).observe(document.documentElement, { attributeFilter: ["data-theme"] });
});
