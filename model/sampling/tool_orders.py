"""The orders in which four tools run their sampling steps by default: those in which their settings are read."""

from dataclasses import dataclass

from model.sampling.pipeline import Step
from model.sampling.settings import generation_config, llama_cpp, openai, webui


@dataclass(frozen=True)
class ToolOrder:
    """The default order of a tool."""

    name: str
    source: str  # repository and file
    warps: tuple[str, ...]  # keys of model.sampling.warps.WARPS


TOOLS: tuple[ToolOrder, ...] = (
    ToolOrder("llama.cpp", "ggml-org/llama.cpp, common/common.h", llama_cpp.ORDER),
    ToolOrder(
        "transformers", "huggingface/transformers, src/transformers/generation/utils.py", generation_config.ORDER
    ),
    ToolOrder("vLLM", "vllm-project/vllm, vllm/v1/sample/sampler.py", openai.ORDER),
    ToolOrder("text-generation-webui", "oobabooga/text-generation-webui, modules/presets.py", webui.ORDER),
)


def arranged(steps: tuple[Step, ...], tool: ToolOrder) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the indices of the steps in the tool's order, and those of the steps that the tool lacks.

    Steps of the same warp keep their order.
    """
    places = {warp: place for place, warp in enumerate(tool.warps)}
    inside = [n for n, step in enumerate(steps) if step.warp in places]
    lacking = tuple(n for n, step in enumerate(steps) if step.warp not in places)
    return tuple(sorted(inside, key=lambda n: places[steps[n].warp])), lacking
