// A hint above each box that is wider than the screen, on narrow screens: it scrolls sideways.
function hint() {
  document.querySelectorAll(".wide, .table-wrapper, .highlight > pre").forEach(function (box) {
    var said = box.previousElementSibling;
    if (!said || !said.classList.contains("hint")) {
      said = document.createElement("p");
      said.className = "hint";
      said.textContent = "Scrolls sideways →";
      box.before(said);
    }
    said.classList.toggle("idle", box.scrollWidth <= box.clientWidth);
  });
}
addEventListener("load", hint);
addEventListener("resize", hint);
