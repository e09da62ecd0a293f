// Gradio's sign that the page is loading asks for every frame, and goes on for ever after it is taken away: frames of
// nothing, a twentieth of a core. Its next frame is cancelled here, once nobody else moves anything.
const SURE = 10, // frames in which one other asks for the next one
  MOST = 1800; // frames until it is left alone

// Browsers number the requests for frames, so that the one before ours in each frame is the sign's.
export function endSign() {
  let last = 0,
    alone = 0, // frames in a row with one other request
    quiet = 0, // and with none
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
