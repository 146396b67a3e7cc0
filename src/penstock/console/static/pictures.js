// A drawing that is larger than its place begins where something happens: at the node that runs, waits or has failed, or
// else where runs begin. Without script it is made to fit, so that nothing of it is out of sight.

const UNDER_WAY = ".figure.state-running, .figure.state-retrying, .figure.state-waiting";
const FAILED = ".figure.state-failed";

const holds = (outer, inner) => outer !== inner && outer.left <= inner.left && outer.right >= inner.right
  && outer.top <= inner.top && outer.bottom >= inner.bottom;

function placeOf(drawing) {
  const boxes = selector => [...drawing.querySelectorAll(selector)].map(item => item.getBoundingClientRect());
  const current = boxes(UNDER_WAY);
  const found = current.length ? current : boxes(FAILED);
  // A loop runs while something inside it does; that is what is looked for.
  if (found.length) return found.find(box => !found.some(other => holds(box, other)));
  return boxes(".dot, .figure").reduce((first, box) => first && first.top <= box.top ? first : box, null);
}

function bringIntoSight(picture) {
  const drawing = picture.querySelector("svg.penstock-drawing");
  const box = drawing && placeOf(drawing);
  if (!box) return;
  const frame = picture.getBoundingClientRect();
  picture.scrollLeft += box.left + box.width / 2 - frame.left - frame.width / 2;
  if (box.bottom > frame.bottom) picture.scrollTop += box.top + box.height / 2 - frame.top - frame.height / 2;
}

for (const picture of document.querySelectorAll(".picture")) bringIntoSight(picture);
