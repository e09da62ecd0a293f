// Gradio's loading indicator requests animation frames forever, even after it is removed from the page. The empty
// frames take 5% of a CPU core, so its next request is canceled once nothing else is animated.
const SURE = 10, // number of frames with exactly one other request, after which it counts as the indicator's
  MOST = 1800; // maximum number of frames to observe

// Browsers number animation frame requests, so the request before ours in each frame is the indicator's.
export function endSign() {
  let last = 0,
    alone = 0, // number of consecutive frames with one other request
    quiet = 0, // number of consecutive frames without any
    left = MOST;
  const look = () => {
    const mine = requestAnimationFrame(look);
    alone = mine - last === 2 ? alone + 1 : 0;
    quiet = mine - last === 1 ? quiet + 1 : 0;
    last = mine;
    left -= 1;
    if (alone < SURE && quiet < SURE && left) return;
    cancelAnimationFrame(mine);
    if (alone === SURE) cancelAnimationFrame(mine - 1);
  };
  requestAnimationFrame(look);
}
