"""Measurements of a position encoding at the first positions of a model."""

import dataclasses
from dataclasses import dataclass

import numpy as np

from model.design.positions import (
    SCHEMES,
    Similarity,
    Spectrum,
    cosines,
    decay_bound,
    frequencies,
    kernel,
    principal_shares,
    similarity,
    spectrum,
    vectors,
    wavelengths,
)
from model.gpt.config import ModelConfig
from viz.seam.scene import Scene
from viz.seam.settings import Settings

OWN, ALL = "own", "all"
RANGES = (64, 256, 1024)  # selectable numbers of first positions, besides the full context
FORMULAS = ("sinusoidal", "rope")
MOST_CELLS = 140_000  # maximum number of cells in a map
MOST_ROWS = 512
MOST_PAIRS = 256  # maximum number of positions in the map of all pairs
MOST_POINTS = 2048  # maximum number of points on a curve by distance
MOST_LEARNED = 2048  # maximum number of rows of a learned table to compare in pairs


@dataclass(frozen=True, eq=False)
class Vectors:
    """Position vectors at the selected positions and dimensions."""

    rows: list[int]  # positions
    columns: list[int]  # dimensions
    table: np.ndarray  # float32 [rows, columns]
    width: int  # total number of dimensions
    largest: float  # largest |value| over all dimensions
    end: float  # limit of the color scale, see `color_end`


@dataclass(frozen=True, eq=False)
class Formula:
    """Sinusoidal vectors or RoPE by their formula, with the model's sizes."""

    scheme: str
    kernel: np.ndarray  # mean cosine by distance, [N]
    wavelengths: np.ndarray  # positions per full turn of each pair, [n]
    bound: np.ndarray | None  # bound by distance, [N]; None unless the scheme is RoPE


@dataclass(frozen=True, eq=False)
class Positions:
    """A position scheme at the first positions, with the formulas for comparison."""

    scheme: str
    is_own: bool  # whether the model uses this scheme
    length: int
    vectors: Vectors | None  # None for the scheme `none`, and for `learned` if the model has no table
    pairs: list[int]  # positions to compare in pairs, [P]
    cosines: np.ndarray | None  # cosines of the vectors at these positions, [P, P]
    similarity: Similarity | None  # of the learned table; None for other schemes
    distances: np.ndarray  # distances at which the formulas are evaluated, [N]
    formulas: tuple[Formula, ...]
    unscaled: np.ndarray | None  # wavelengths of the model's RoPE without its scaling, [n]


@dataclass(frozen=True, eq=False)
class Table:
    """Statistics of the full learned table."""

    lengths: tuple[float, float, float]  # norms of the first, middle and last vector
    token: float  # mean norm of a token embedding
    first: float  # fraction of the variance over positions in the first principal component
    four: float  # fraction in the first four principal components
    half: int  # minimum number of components that explain half of the variance
    spectrum: Spectrum | None  # None if the table has a single position


# --- positions to show ---


def lengths_of(config: ModelConfig) -> tuple[str, ...]:
    """Return the selectable ranges of positions: those of RANGES below the context length, and all positions."""
    return (*(str(n) for n in RANGES if n < config.n_ctx), ALL)


def first_length(config: ModelConfig) -> str:
    """Return the default range of positions."""
    return "256" if config.n_ctx > 256 else ALL


def rows_of(length: int, width: int) -> list[int]:
    """Select the positions of a map: all of them, or every k-th if the map would be too large."""
    return _every(length, max(1, min(MOST_ROWS, MOST_CELLS // max(width, 1))))


def columns_of(width: int) -> list[int]:
    """Select the dimensions of a map: all of them, or every k-th if the map would be too large."""
    return list(range(0, width, -(-width // (MOST_CELLS // 64))))


def pairs_of(length: int) -> list[int]:
    """Select the positions of the map of all pairs."""
    return _every(length, MOST_PAIRS)


def _every(length: int, room: int) -> list[int]:
    """Return every k-th position, at most `room` of them.

    If k is not 1, it is odd because the values of some tables alternate between even and odd positions.
    """
    step = -(-length // room)
    return list(range(0, length, step + (step % 2 == 0)))


def distances_of(length: int) -> np.ndarray:
    """Return the distances from 0 to `length` - 1. [N]

    If they exceed MOST_POINTS, return all in the first half of the points and then geometrically increasing ones.
    """
    if length <= MOST_POINTS:
        return np.arange(length)
    half = MOST_POINTS // 2
    return np.unique(np.concatenate([np.arange(half), np.geomspace(half, length - 1, half).round().astype(int)]))


def color_end(table: np.ndarray) -> float:
    """Return the limit of the color scale for a map of vectors, the 99.5% quantile of the absolute values."""
    return float(np.quantile(np.abs(table), 0.995)) or float(np.abs(table).max()) or 1.0


# --- measures ---


def measure(scene: Scene, settings: Settings) -> Positions:
    """Compute the selected scheme at the first positions. Raises InputError for RoPE if d_head is 1."""
    model, config = scene.model.model, scene.model.config
    scheme = config.positions if settings.scheme == OWN else settings.scheme
    length = config.n_ctx if settings.length == ALL else int(settings.length)
    is_own, distances = scheme == config.positions, distances_of(length)
    written = scheme in FORMULAS or (scheme == "learned" and is_own)
    pairs = pairs_of(length) if written else []
    first = range(min(length, MOST_LEARNED))
    compared = [each for each in FORMULAS if each in (scheme, "sinusoidal") or config.d_head > 1]
    return Positions(
        scheme,
        is_own,
        length,
        _vectors(scene, scheme, length) if written else None,
        pairs,
        cosines(vectors(model, scheme, pairs)) if written else None,
        similarity(vectors(model, "learned", first)) if scheme == "learned" and is_own else None,
        distances,
        tuple(_formula(config, each, distances, length) for each in compared),
        _unscaled(config),
    )


def _vectors(scene: Scene, scheme: str, length: int) -> Vectors:
    config = scene.model.config
    width = frequencies(config, "rope").size * 2 if scheme == "rope" else config.d_model
    columns = columns_of(width)
    rows = rows_of(length, len(columns))
    table = vectors(scene.model.model, scheme, rows)
    return Vectors(rows, columns, table[:, columns], width, float(np.abs(table).max()), color_end(table))


def _formula(config: ModelConfig, scheme: str, distances: np.ndarray, length: int) -> Formula:
    theta = frequencies(config, scheme, length)
    bound = decay_bound(theta, distances) if scheme == "rope" else None
    return Formula(scheme, kernel(theta, distances), wavelengths(theta), bound)


def _unscaled(config: ModelConfig) -> np.ndarray | None:
    """Return the wavelengths of the model's RoPE without its scaling; None if it has no RoPE or no scaling. [n]"""
    if config.positions != "rope" or not config.rope_scaling:
        return None
    return wavelengths(frequencies(dataclasses.replace(config, rope_scaling=None), "rope"))


def measure_table(scene: Scene, settings: Settings) -> Table | None:
    """Compute norms, principal components and spectrum of the full learned table; None for a model without a table."""
    model, config = scene.model.model, scene.model.config
    if config.positions != "learned":
        return None
    table = vectors(model, "learned", range(config.n_ctx))
    lengths = (table**2).sum(1) ** 0.5
    token = float(model.embed.weight.detach().norm(dim=1).mean()) * config.embed_factor
    shares = principal_shares(table)
    sums = shares.cumsum()
    first, middle, last = (float(lengths[at]) for at in (0, len(table) // 2, -1))
    half = min(int((sums < 0.5).sum()) + 1, len(shares))
    waves = spectrum(table) if len(table) > 1 else None
    return Table((first, middle, last), token, float(shares[0]), float(sums[:4][-1]), half, waves)


def schemes_of(config: ModelConfig) -> tuple[str, ...]:
    """Return the selectable schemes, the model's own first."""
    return (OWN, *(scheme for scheme in SCHEMES if scheme != config.positions))
