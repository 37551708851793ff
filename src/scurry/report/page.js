"use strict";
(() => {
  document.body.classList.remove("no-script");
  const source = document.getElementById("budgets");
  if (!source) return;
  const { shipped, markers, points } = JSON.parse(source.textContent);
  const slider = document.getElementById("budget");
  const write = (id, text) => { document.getElementById(id).textContent = text; };
  const show = () => {
    const at = Number(slider.value);
    const point = points[at];
    slider.setAttribute("aria-valuetext", point.spoken);
    write("spent", point.spent);
    write("call", point.call);
    point.values.forEach((text, index) => write("value-" + index, text));
    markers.forEach((id, index) => {
      const marker = document.getElementById(id);
      marker.setAttribute("cx", point.places[index][0]);
      marker.setAttribute("cy", point.places[index][1]);
    });
    const note = document.getElementById("shipped");
    if (note) note.hidden = at !== shipped;
  };
  slider.addEventListener("input", show);
  show();
})();
