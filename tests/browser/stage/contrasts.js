// Every text on the page whose contrast with what is behind it is below 4.5.
() => {
  const parse = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const part = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * part(r / 255) + 0.7152 * part(g / 255) + 0.0722 * part(b / 255);
  const behind = (element) => {
    const node = element.closest(".node");
    if (node) return parse(getComputedStyle(node.querySelector("rect")).fill);
    for (let each = element; each; each = each.parentElement) {
      const own = parse(getComputedStyle(each).backgroundColor);
      if (own.length === 3 || own[3] === 1) return own;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    if (!text || ["TITLE", "title", "OPTION"].includes(element.tagName)) continue;
    if (!element.checkVisibility() || element.closest("[disabled], .unseen, .skip")) continue;
    const style = getComputedStyle(element), isDrawn = element.tagName === "text";
    const front = light(parse(isDrawn ? style.fill : style.color)), back = light(behind(element));
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (ratio < 4.5) found.push(`${ratio.toFixed(2)}: ${text.slice(0, 40)} in ${element.tagName}`);
  }
  return found;
}
