// A picture that is wider than the screen begins at its first node, not at its left edge.
for (const picture of document.querySelectorAll(".picture")) {
  const first = picture.querySelector("svg a");
  if (!first || picture.scrollWidth <= picture.clientWidth) continue;
  const node = first.getBoundingClientRect(), frame = picture.getBoundingClientRect();
  picture.scrollLeft += node.left + node.width / 2 - frame.left - frame.width / 2;
}
