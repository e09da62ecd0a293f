"""Excerpts of three published pages, whose right and wrong numbers are recomputed here with NumPy."""

import math

import numpy as np
import pytest

from model.by_hand.claims.check import check_tutorial


def softmax(z):
    powers = np.exp(np.array(z) - max(z))
    return (powers / powers.sum()).tolist()


SIX = [0.1, 0.3, 98.5, 123.7, 0.2, 201.3]

# A page by what it says: {number as stated: [verdict, right value]}, in order.
STATISTICS = (
    """```python
x = [0.1, 0.3, 98.5, 123.7, 0.2, 201.3]

# 步骤1：计算均值和方差
mean = (0.1 + 0.3 + 98.5 + 123.7 + 0.2 + 201.3) / 6
     = 70.68

variance = ((0.1-70.68)² + (0.3-70.68)² + ... ) / 6
std = √variance = 78.23
```
""",
    [("70.68", "right", np.mean(SIX)), ("78.23", "wrong", np.std(SIX))],
)
TEMPERATURES = (
    """```python
logits = np.array([2.0, 1.0, 0.5])  # 3 个候选 token

# temperature = 0.5 (更确定)
probs_low_temp = softmax(logits / 0.5)
print(probs_low_temp)  # [0.84, 0.11, 0.05]  # 更偏向第一个

# temperature = 2.0 (更随机)
probs_high_temp = softmax(logits / 2.0)
print(probs_high_temp)  # [0.52, 0.28, 0.20]  # 更平均
```
""",
    [
        *zip(["0.84", "0.11", "0.05"], ["right", "right", "wrong"], softmax([4, 2, 1]), strict=True),
        *zip(["0.52", "0.28", "0.20"], ["wrong"] * 3, softmax([1, 0.5, 0.25]), strict=True),
    ],
)
SIZES = (
    """# Q: 4096 × 4096 = 16.7M FLOPs/token

x = torch.tensor([1000.0, 1000.1, 1000.2])  # 很大的数
probs = F.softmax(x, dim=0)
print(probs)  # tensor([0.0900, 0.2447, 0.6652])

**完整 8B 模型参数分布**：
- Embedding: ~622M (7%)
- 36 × Transformer Layer: ~7.8B (92%)
- Final RMSNorm + LM Head: ~626M (1%)
""",
    [
        ("16.7M", "wrong", 2 * 4096**2),
        *zip(["0.0900", "0.2447", "0.6652"], ["wrong"] * 3, softmax([1000, 1000.1, 1000.2]), strict=True),
        ("7%", "right", 622 / (622 + 7800 + 626)),
        ("92%", "wrong", 7800 / (622 + 7800 + 626)),
        ("1%", "wrong", 626 / (622 + 7800 + 626)),
    ],
)


@pytest.mark.parametrize(("page", "known"), [STATISTICS, TEMPERATURES, SIZES])
def test_the_numbers_of_a_published_page(page, known):
    found = check_tutorial(page).claims
    assert [(each.stated, each.verdict) for each in found] == [(stated, verdict) for stated, verdict, _ in known]
    for each, (_, _, right) in zip(found, known, strict=True):
        assert math.isclose(float(each.right), right, rel_tol=1e-9)
