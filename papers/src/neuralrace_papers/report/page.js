// Figures open large in the page itself; without this script their links lead to the files.
const large = document.getElementById("large");
const [picture, words] = [large.querySelector("img"), large.querySelector("p")];
document.addEventListener("click", (event) => {
  const link = event.target.closest("a.picture");
  if (link && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    picture.src = link.querySelector("img").src;
    words.textContent = link.querySelector("img").alt;
    large.showModal();
  } else if (event.target.closest("dialog")) {
    large.close();
  }
});
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => (one.open = true)));
