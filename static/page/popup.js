// A popup that opens below its button, and closes on Escape, on a press elsewhere, and on a second press of the button.

// `opening` is called before the popup is shown, `opened` afterwards. Returns a function that closes the popup.
export function popup(button, box, { width, right = false, opening = () => {}, opened = () => {} }) {
  const isOpen = () => box.matches(":popover-open");
  const close = () => isOpen() && box.hidePopover();
  const place = () => {
    const at = button.getBoundingClientRect(),
      room = document.documentElement.clientWidth,
      wide = Math.min(width, room - 16);
    Object.assign(box.style, {
      width: `${wide}px`,
      left: `${Math.max(8, Math.min(right ? at.right - wide : at.left, room - wide - 8))}px`,
      top: `${at.bottom + 6}px`,
      maxHeight: `${Math.max(200, innerHeight - at.bottom - 20)}px`,
    });
  };
  // A press of the button closes an open popup before the click event, and the click must not reopen it.
  let wasOpen = false;
  button.addEventListener("pointerdown", () => {
    wasOpen = isOpen();
  });
  button.addEventListener("click", () => {
    if (wasOpen || isOpen()) {
      wasOpen = false;
      close();
      return;
    }
    opening();
    place();
    box.showPopover({ source: button });
  });
  button.setAttribute("aria-expanded", "false");
  box.addEventListener("toggle", ({ newState }) => {
    button.setAttribute("aria-expanded", newState === "open");
    if (newState === "open") opened();
  });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation(); // on the page, this key has another meaning
    event.preventDefault();
    close();
    button.focus();
  });
  box.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget && !box.contains(relatedTarget)) close();
  });
  window.addEventListener("resize", () => {
    if (isOpen()) place();
  });
  return close;
}
