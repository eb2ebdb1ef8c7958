"""Transformer: one model, however its layers are laid out and recomputed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from flax.traverse_util import flatten_dict

from models.counts import parameter_shapes
from models.transformer import logical_axes

GPT = {
    "num_kv_heads": 4,
    "norm": "layer",
    "positions": "learned",
    "activation": "gelu",
    "bias": True,
    "tied_head": True,
}
SHAPES = {
    "llama": {},
    "gpt": GPT,
    "gemma": {"head_dim": 16, "activation": "geglu", "tied_head": True},
    "squared relu": {"activation": "relu2", "num_kv_heads": 1, "norm": "layer"},
}
all_shapes = pytest.mark.parametrize("changes", SHAPES.values(), ids=SHAPES)
IS_NAMES = {"is_leaf": lambda leaf: isinstance(leaf, tuple)}


@pytest.fixture
def tokens():
    return jax.random.randint(jax.random.key(7), (2, 13), 0, 96)


def stacked_layers(params: nnx.State) -> dict[tuple, jax.Array]:
    """Returns arrays by path; those of unrolled layers stacked under one path."""
    layers: dict[tuple, list[jax.Array]] = {}
    for path, param in nnx.to_flat_state(params):
        layered = len(path) > 1 and isinstance(path[1], int)
        layers.setdefault(path[:1] + path[2:] if layered else path, []).append(
            param[...]
        )
    return {
        path: jnp.stack(arrays) if len(arrays) > 1 else arrays[0]
        for path, arrays in layers.items()
    }


def assert_same_gradients(first: nnx.State, second: nnx.State) -> None:
    """Compares each array in its own norm, to float32 rounding."""
    one, two = stacked_layers(first), stacked_layers(second)
    assert one.keys() == two.keys()
    for path, array in one.items():
        if path[-2:] == ("key", "bias"):
            # It shifts all scores of a query alike, which the softmax does not see.
            assert jnp.abs(array).max() < 1e-7
            continue
        scale = float(jnp.linalg.norm(array.ravel()))
        assert scale > 0, f"no gradient reaches {path}"
        difference = float(jnp.linalg.norm((array - two[path]).ravel()))
        assert difference <= 1e-5 * scale, path


@all_shapes
def test_scanned_and_unrolled_layers_start_from_the_same_values(
    shape, transformer, changes
):
    scanned, unrolled = (
        stacked_layers(nnx.state(transformer(shape(**changes), layers=layers)))
        for layers in ("scanned", "unrolled")
    )
    assert scanned.keys() == unrolled.keys()
    for path, array in scanned.items():
        np.testing.assert_array_equal(array, unrolled[path], err_msg=str(path))


def test_layers_and_kernels_start_from_different_values(shape, transformer):
    params = stacked_layers(nnx.state(transformer(shape(num_kv_heads=4))))
    query, key = (
        params["blocks", "attention", name, "kernel"] for name in ("query", "key")
    )
    assert not np.array_equal(query[0], query[1])
    assert not np.array_equal(query, key)


@all_shapes
def test_scanned_and_unrolled_layers_learn_the_same(shape, loss_and_gradients, changes):
    config = shape(**changes)
    results = [
        loss_and_gradients(config, layers=layers) for layers in ("scanned", "unrolled")
    ]
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-6)
    assert_same_gradients(results[0][1], results[1][1])


@pytest.mark.parametrize("layers", ["scanned", "unrolled"])
@pytest.mark.parametrize("remat", ["dots", "full"])
@pytest.mark.parametrize("changes", ["llama", "gpt"])
def test_recomputing_changes_no_gradient(
    shape, loss_and_gradients, changes, remat, layers
):
    config = shape(**SHAPES[changes])
    plain = loss_and_gradients(config, layers=layers)
    again = loss_and_gradients(config, layers=layers, remat=remat)
    assert plain[0] == pytest.approx(again[0], rel=1e-6)
    assert_same_gradients(plain[1], again[1])


@all_shapes
def test_the_flat_matmul_learns_the_same(shape, loss_and_gradients, changes):
    config = shape(**changes)
    results = [
        loss_and_gradients(config, matmul_form=form) for form in ("plain", "flat")
    ]
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-6)
    assert_same_gradients(results[0][1], results[1][1])


@pytest.mark.parametrize("form", ["plain", "flat"])
def test_bfloat16_stays_near_float32(shape, loss_and_gradients, form):
    exact, exact_gradients = loss_and_gradients(shape())
    loss, gradients = loss_and_gradients(
        shape(), compute_dtype="bfloat16", matmul_form=form
    )
    assert loss == pytest.approx(exact, rel=1e-2)
    one, two = stacked_layers(exact_gradients), stacked_layers(gradients)
    for path, array in one.items():
        assert two[path].dtype == jnp.float32
        error = jnp.linalg.norm((array - two[path]).ravel())
        assert error < 0.05 * jnp.linalg.norm(array.ravel()), path


def test_only_flat_folds_batch_and_sequence(shape, abstract_transformer, lowered_step):
    plain, flat = (
        lowered_step(abstract_transformer(shape(), matmul_form=form), 2, 12).as_text()
        for form in ("plain", "flat")
    )
    folded = "-> tensor<24x"
    assert folded not in plain
    assert folded in flat


@pytest.mark.parametrize("layers", ["scanned", "unrolled"])
@all_shapes
def test_arrays_are_those_of_the_counts(shape, abstract_transformer, changes, layers):
    config = shape(**changes)
    model = abstract_transformer(config, layers=layers)
    axes = flatten_dict(nnx.to_pure_dict(logical_axes(model)))
    params = flatten_dict(nnx.to_pure_dict(nnx.state(model, nnx.Param)))
    assert axes.keys() == params.keys()
    found: dict[str, list] = {}
    for path, param in params.items():
        size, names = list(param.shape), list(axes[path])
        if layers == "scanned" and path[0] == "blocks":
            assert (size.pop(0), names.pop(0)) == (config.num_layers, "layers")
        name = ".".join(str(part) for part in path if not isinstance(part, int))
        found.setdefault(name, []).append((tuple(size), tuple(names)))
    for counted in parameter_shapes(config):
        arrays = found.pop(counted.name)
        assert set(arrays) == {(counted.shape, counted.logical_axes)}
        scanned = layers == "scanned" and counted.name.startswith("blocks.")
        assert len(arrays) == (1 if scanned else counted.count)
    assert not found


def test_logical_axes_have_the_structure_of_the_state(shape, transformer):
    model = transformer(shape())
    state = nnx.state(model, nnx.Param)
    for given in (model, state, jax.eval_shape(lambda: state)):
        ndims = jax.tree.map(len, logical_axes(given), **IS_NAMES)
        assert ndims == jax.tree.map(jnp.ndim, state)


@all_shapes
def test_no_token_sees_a_later_one(shape, transformer, tokens, changes):
    model = transformer(shape(**changes))
    changed = tokens.at[:, 8].set((tokens[:, 8] + 1) % 96)
    before, after = model(tokens), model(changed)
    np.testing.assert_allclose(before[:, :8], after[:, :8], atol=1e-6)
    assert not np.allclose(before[:, 8:], after[:, 8:], atol=1e-4)


@all_shapes
def test_positions_matter(shape, transformer, changes):
    model = transformer(shape(**changes))
    model.blocks.attention.query.kernel[...] *= 50
    model.blocks.attention.key.kernel[...] *= 50
    first = model(jnp.array([[5, 9, 2, 7]]))[0, -1]
    second = model(jnp.array([[2, 5, 9, 7]]))[0, -1]
    assert not np.allclose(first, second, atol=1e-4)


def test_an_untrained_model_guesses_evenly(shape, loss_and_gradients):
    loss, _ = loss_and_gradients(shape())
    assert loss == pytest.approx(np.log(96), rel=0.01)


def test_dtypes_of_parameters_and_computation_are_apart(shape, transformer, tokens):
    model = transformer(shape(), param_dtype="bfloat16", compute_dtype="float32")
    assert {p.dtype for p in jax.tree.leaves(nnx.state(model))} == {
        jnp.dtype("bfloat16")
    }
    assert model(tokens).dtype == jnp.float32
    model = transformer(shape(), compute_dtype="bfloat16")
    assert {p.dtype for p in jax.tree.leaves(nnx.state(model))} == {
        jnp.dtype("float32")
    }
    assert model(tokens).dtype == jnp.bfloat16


def test_bfloat16_parameters_are_the_float32_ones_rounded(shape, transformer):
    wide, narrow = (
        nnx.state(transformer(shape(), param_dtype=dtype))
        for dtype in ("float32", "bfloat16")
    )
    jax.tree.map(
        lambda w, n: np.testing.assert_array_equal(w.astype(n.dtype), n), wide, narrow
    )


def test_more_tokens_than_learned_positions_are_refused(shape, transformer):
    model = transformer(shape(**GPT))
    assert model(jnp.zeros((1, 16), jnp.int32)).shape == (1, 16, 96)
    with pytest.raises(ValueError, match=r"17 tokens .* 16 learned positions"):
        model(jnp.zeros((1, 17), jnp.int32))


def test_rotary_positions_have_no_end(shape, transformer):
    logits = transformer(shape())(jnp.zeros((1, 40), jnp.int32))
    assert logits.shape == (1, 40, 96)
