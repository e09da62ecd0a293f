"""Rows of alignment, of training and of what is calculated by hand."""

import numpy as np

from model.alignment.lora import Lora
from model.alignment.preferences import PairSettings, split
from model.alignment.reward_model import RewardModel, RewardRecipe
from model.alignment.rewards import parse_rules
from model.by_hand.sheets import SHEETS, example
from model.training.bug_zoo import Specimen, ZooTrial
from tests.support.models.calls.row import INSIDE, PAIRS, SEED, TWO, Row, blank, rows

rows(
    "model.alignment",
    preferences__PairSettings=Row(
        lambda c: {"pairs": 2, "new_tokens": 4, "temperature": 1.0, "seed": 0}, SEED | {"temperature": "half"}
    ),
    preferences__pairs_by_rule=Row(
        lambda c: {"lm": c.lm, "prompts": ["ab"], "rules": parse_rules("contains: a"), "ask": PairSettings(1, 2)},
        slow=True,
    ),
    preferences__read_pairs=Row(
        lambda c: {"text": '{"prompt": "a", "chosen": "b", "rejected": "c"}'}, {}, {"text": "line|pairs"}
    ),
    preferences__split=Row(lambda c: {"pairs": PAIRS, "share": 0.25, "seed": 0}, SEED),
    reward_model__RewardRecipe=Row(
        lambda c: {
            "body": False,
            "steps": 2,
            "batch": 2,
            "learning_rate": 0.1,
            "weight_decay": 0.1,
            "held_out": 0.2,
            "seed": 0,
        },
        SEED | {"learning_rate": "zero", "weight_decay": "zero, half"},
    ),
    reward_model__calibration=Row(
        lambda c: {"margins": np.array([0.5, -1.0, 2.0]), "bins": 5}, {"margins": "longer, empty"}
    ),
    reward_model__accuracy=Row(lambda c: {"margins": np.array([0.5, -1.0, 2.0])}, {"margins": "longer, empty"}),
    reward_model__pair_loss=Row(lambda c: {"chosen": TWO, "rejected": TWO}),
    reward_model__train=Row(lambda c: {"lm": c.lm, "parts": split(PAIRS), "recipe": RewardRecipe()}, slow=True),
    reward_reading__change_words=Row(
        lambda c: {"reward": blank(RewardModel), "encode": len, "text": "a b", "instead": "x", "most": 3},
        {"text": "text, empty text", "instead": "text, empty", "most": "huge"},
        {"text": "word"},
        slow=True,
    ),
    rewards__parse_rules=Row(lambda c: {"value": "contains: a"}, {}, {"value": "rule"}),
    lora__Lora=Row(lambda c: {"rank": 8, "alpha": 16.0, "matrices": "qv"}, {"alpha": "half"}),
    lora__adapt=Row(lambda c: {"model": c.model, "lora": Lora(), "seed": 0}, SEED, slow=True),
    reinforcement__advantages__token_rewards=Row(
        lambda c: {"rewards": TWO[:, 0], "log_ratios": TWO, "written": INSIDE, "coefficient": 0.1},
        {"coefficient": "zero, half"},
    ),
    reinforcement__advantages__returns=Row(
        lambda c: {"rewards": TWO, "written": INSIDE, "gamma": 1.0}, {"gamma": "zero"}
    ),
    reinforcement__advantages__gae=Row(
        lambda c: {"rewards": TWO, "values": TWO, "written": INSIDE, "gamma": 1.0, "lam": 0.9},
        {"gamma": "zero", "lam": "zero"},
    ),
    reinforcement__advantages__leave_one_out=Row(lambda c: {"rewards": TWO[0], "group": 3}),
    reinforcement__advantages__group_normalized=Row(
        lambda c: {"rewards": TWO[0], "group": 3, "least": 1e-6}, {"least": "half"}
    ),
    reinforcement__advantages__whiten=Row(
        lambda c: {"values": TWO, "written": INSIDE, "least": 1e-6}, {"least": "half"}
    ),
    reinforcement__losses__policy_gradient_loss=Row(lambda c: {"log_probs": TWO, "advantages": TWO, "written": INSIDE}),
    reinforcement__losses__ppo_loss=Row(
        lambda c: {"log_probs": TWO, "old": TWO, "advantages": TWO, "written": INSIDE, "clip": 0.2}, {"clip": "half"}
    ),
    reinforcement__losses__value_loss=Row(
        lambda c: {"values": TWO, "old": TWO, "targets": TWO, "written": INSIDE, "clip": 0.2}, {"clip": "half"}
    ),
    reinforcement__losses__grpo_loss=Row(
        lambda c: {
            "log_probs": TWO,
            "old": TWO,
            "reference": TWO,
            "advantages": TWO,
            "written": INSIDE,
            "clip": 0.2,
            "beta": 0.1,
        },
        {"clip": "half", "beta": "zero, half"},
    ),
    reinforcement__losses__dpo_margins=Row(
        lambda c: {"chosen": TWO[0], "rejected": TWO[0], "chosen_reference": TWO[0], "rejected_reference": TWO[0]}
    ),
    reinforcement__losses__dpo_loss=Row(
        lambda c: {"margins": TWO[0], "beta": 0.1}, {"beta": "half", "margins": "longer"}
    ),
)
SHEET = SHEETS["rounding"]
rows(
    "model.by_hand",
    sheets__example=Row(lambda c: {"sheet": SHEET, "name": "int8"}, {}, {"name": "example"}),
    sheets__worked=Row(
        lambda c: {"sheet": SHEET, "typed": example(SHEET, "int8"), "options": {"scheme": "affine"}},
        {"options": "empty"},
    ),
    calculations__rounding__rounding=Row(lambda c: {"inputs": {}, "scheme": "affine"}, {}, slow=True),
)
rows(
    "model.training",
    bug_zoo__ZooTrial=Row(lambda c: {"steps": 2, "rate": 1e-3, "seed": 0}, SEED | {"rate": "half"}),
    bug_zoo__train_zoo=Row(lambda c: {"trial": ZooTrial()}, slow=True),
    bug_zoo__verdict=Row(lambda c: {"run": blank(Specimen), "correct": blank(Specimen)}, slow=True),
)
