"""Where a question goes, and how many replicas a model gets."""

import collections
import dataclasses

import torch

from model.anatomy.footprint import weights_bytes
from model.gpt.edits import Edit
from model.loading.halves import halved
from model.records import RunKey
from tests.support.models.helpers import byte_model
from viz.cluster.places import MANY, PROGRAM, Need, home, need_of, route_of, spare, wanted
from viz.seam.scene import SceneKey
from viz.seam.selection import Selection
from viz.seam.settings import Settings
from viz.seam.tasks import Answering, Measuring, TraceReading, WritingTask
from viz.work.prompt import Prompt

ROUTES = [f"prompt {n}" for n in range(2000)]


def homes(*names):
    return [home(route, names) for route in ROUTES]


def test_routes_are_spread_evenly_and_stay():
    counts = collections.Counter(homes("a", "b", "c", "d"))
    assert min(counts.values()) > 400 and homes("d", "c", "b", "a") == homes("a", "b", "c", "d")


def test_a_new_replica_takes_its_share_and_moves_nothing_else():
    before, after = homes("a", "b", "c"), homes("a", "b", "c", "d")
    moved = [now for was, now in zip(before, after, strict=True) if now != was]
    assert set(moved) == {"d"} and 400 < len(moved) < 600
    lost = homes("a", "c")
    assert all(now == was for was, now in zip(before, lost, strict=True) if was != "b")


def test_a_hot_model_gets_another_replica_and_no_more_than_are_allowed():
    assert wanted(1, MANY, 4) == 1 and wanted(1, MANY + 1, 4) == 2
    assert wanted(2, 2 * MANY, 4) == 2 and wanted(4, 100, 4) == 4


def test_a_replica_goes_only_where_the_others_are_far_from_hot():
    assert not spare(1, 0) and spare(2, 1) and not spare(2, 2) and spare(3, MANY) and not spare(3, MANY + 1)
    for replicas in range(2, 20):  # whatever makes one come does not make one go, nor the other way round
        for under_way in range(100):
            if spare(replicas, under_way):
                assert wanted(replicas - 1, under_way, 99) == replicas - 1


def test_what_a_replica_reserves_is_what_it_will_hold(tmp_path):
    lm = byte_model(tmp_path)
    need = need_of(lm, 2, 64)
    assert need == Need(2.0, weights_bytes(lm.config) + (64 << 20) + PROGRAM)
    assert need.fits({"CPU": 2.0, "memory": need.memory}) and not need.fits({"CPU": 1.0, "memory": need.memory})
    assert not need.fits({"CPU": 8.0}) and need_of(lm, 2, 65).memory == need.memory + (1 << 20)
    gpu = need_of(lm, 2, 64, 1)
    assert gpu == dataclasses.replace(need, gpus=1.0) and not gpu.fits({"CPU": 2.0, "memory": need.memory})
    assert gpu.fits({"CPU": 2.0, "memory": need.memory, "GPU": 1.0})
    half = dataclasses.replace(lm, model=halved(lm.model, torch.bfloat16), dtype="bfloat16")
    assert need_of(half, 2, 64).memory < need.memory


def test_a_prompt_has_one_place_whatever_is_asked_of_it():
    edited = RunKey("m", (1, 2), (Edit("zero", 0, 0),))
    scene = SceneKey("m", Prompt("ab"), (1, 2), Selection(heads=((0, 0),)), "zh")
    same = {
        route_of(each)
        for each in (
            edited,
            RunKey("m", (1, 2)),
            Measuring(scene, "map", "main", Settings()),
            TraceReading(edited, "pattern", (0, 0)),
            WritingTask("m", (1, 2), None),
        )
    }
    assert len(same) == 1 and route_of(RunKey("m", (1, 3))) not in same and route_of(RunKey("n", (1, 2))) not in same
    assert route_of(Answering("m", Prompt("ab"), "greedy")) == route_of(Answering("m", Prompt("ab"), "beam"))
