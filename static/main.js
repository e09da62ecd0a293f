// The page's scripts, in order of execution where the imports do not determine it.
import "./page/server/connection.js";
import "./page/keyboard.js";
import "./page/nav.js";
import "./page/prompt/header.js";
import "./page/stuck.js";
import "./page/server/notice.js";
import "./page/wire/events.js";
import "./page/prompt/examples.js";
import "./page/prompt/tokens.js";
import "./page/prompt/shortfall.js";
import "./page/chat/chat.js";
import "./page/chat/chat_tokens.js";
import "./page/chat/chat_answer.js";
import "./page/selection/picked.js";
import "./page/selection/edited.js";
import "./parts/form.js";
import "./parts/job.js";
import "./parts/figure/figure.js";
import "./parts/howto.js";
import "./parts/code.js";
import "./parts/labtable.js";
import "./parts/facts.js";
import "./parts/shaded/shaded.js";
import "./parts/shaded/passages.js";
import "./views/start/next.js";
import "./views/start/way.js";
import "./parts/targets.js";
import "./views/attention/overview.js";
import "./views/attention/lines.js";
import "./views/attention/reading.js";
import "./views/attention/cell.js";
import "./views/attention/find.js";
import "./views/sampling/beam_tree/beam_tree.js";
import "./views/sampling/pipeline.js";
import "./views/sampling/distribution.js";
import "./views/sampling/draws.js";
import "./views/sampling/kv_cache.js";
import "./views/sampling/strategies.js";
import "./views/sampling/many_samples.js";
import "./views/sampling/orders.js";
import "./views/sampling/prompts.js";
import "./views/sampling/side_by_side.js";
import "./views/sampling/speculative.js";
import "./views/predictions/surprise.js";
import "./views/predictions/guess.js";
import "./views/predictions/lens.js";
import "./views/predictions/place.js";
import "./views/predictions/logit_parts.js";
import "./views/activations/norm.js";
import "./views/activations/neurons.js";
import "./views/activations/sizes.js";
import "./views/heads/head_cards.js";
import "./views/heads/head_table.js";
import "./views/effects/edits.js";
import "./views/effects/before_after.js";
import "./views/effects/effect_map.js";
import "./views/effects/steer.js";
import "./views/compare/runs.js";
import "./views/anatomy/diagram.js";
import "./views/anatomy/tokenizers.js";
import "./views/design/rope.js";
import "./views/training/bug_cards.js";
import "./views/training/training.js";
import "./views/assistant/glance.js";
import "./views/assistant/more.js";
import "./views/assistant/reinforcement.js";
import "./views/assistant/losses.js";
import "./views/assistant/fine_tune.js";
import "./views/assistant/preferences.js";
import "./views/assistant/reward_model.js";
import "./views/by_hand/desk.js";
import "./views/by_hand/mistakes.js";
import "./views/by_hand/tutorial.js";
import "./views/by_hand/slips.js";
import "./views/by_hand/steps.js";
import "./views/checks/checks.js";
import "./views/checks/claims.js";
import "./guide/glossary.js";
import "./guide/tour.js";
import "./guide/learn_item.js";
import "./page/address/share.js";
import "./page/menu/menu.js";
import "./page/menu/programs.js";
import "./page/server/log_out.js";
import "./export/report.js";
import { opened, state } from "./page/address/address.js";
import { mount } from "./page/mount.js";
import { screen } from "./page/screen.js";
import { pickHead, select, selection } from "./page/selection/selection.js";
import { pageState } from "./page/state.js";
import { isDark } from "./page/theme.js";
import { choose, updates } from "./page/wire/models.js";
import { ask } from "./page/wire/view.js";
import { lab } from "./views/training/runs.js";

// Functions that the page's parts call and that can be used in a browser's console. Until this point, a stub in the
// page's head has queued the calls.
const { waiting } = window.playground;
window.playground = {
  mount,
  screen,
  opened,
  ask: () => void ask(),
  choose: (id) => void choose(id),
  put: updates,
  select,
  selection,
  pickHead,
  isDark,
  state,
  page: pageState,
  lab,
};
for (const [name, values] of waiting) window.playground[name](...values);
