"""Transformer on meshes of eight CPU devices: the same numbers on every mesh."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from meshes.build import build_mesh
from meshes.build import named_sharding
from meshes.spec import MeshSpec
from models.transformer import logical_axes

pytestmark = pytest.mark.fast

DIVISIBLE = {"num_heads": 8, "num_kv_heads": 8}
GPT = {
    "norm": "layer",
    "positions": "learned",
    "activation": "gelu",
    "bias": True,
    "tied_head": True,
}
MESHES = [
    "1/data=8",
    "1/fsdp=8",
    "1/tensor=8",
    "1/context=8",
    "1/data=2,fsdp=2,tensor=2",
    "1/fsdp=2,context=2,tensor=2",
]
every_mesh = pytest.mark.parametrize("text", MESHES)


@pytest.fixture
def tokens():
    return jax.random.randint(jax.random.key(7), (8, 17), 0, 96)


def mesh_of(text: str) -> jax.sharding.Mesh:
    return build_mesh(MeshSpec.parse(text))


def initial_params(make, mesh: jax.sharding.Mesh) -> nnx.State:
    """Returns the parameters of `make()`, made in place on the mesh."""
    shardings = jax.tree.map(
        lambda axes: named_sharding(mesh, axes),
        logical_axes(nnx.eval_shape(make)),
        is_leaf=lambda leaf: isinstance(leaf, tuple),
    )
    initialise = jax.jit(lambda: nnx.state(make(), nnx.Param), out_shardings=shardings)
    with jax.set_mesh(mesh):
        return initialise()


def loss_and_gradients(make, mesh, params, tokens):
    """Returns the loss and gradients on the mesh, laid out like the parameters."""
    return compiled_step(make, mesh, params, tokens)(params, tokens)


def compiled_step(make, mesh, params, tokens):
    graph = nnx.graphdef(nnx.eval_shape(make))

    def loss(params, tokens):
        logits = nnx.merge(graph, params)(tokens[:, :-1]).astype(jnp.float32)
        picked = jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)

    shardings = jax.tree.map(lambda leaf: leaf.sharding, params)
    step = jax.jit(
        jax.value_and_grad(loss),
        in_shardings=(shardings, named_sharding(mesh, ("batch",))),
        out_shardings=(named_sharding(mesh, ()), shardings),
    )
    with jax.set_mesh(mesh):
        return step.lower(params, tokens).compile()


@every_mesh
@pytest.mark.parametrize("layers", ["scanned", "unrolled"])
def test_initial_values_do_not_depend_on_the_mesh(shape, transformer, text, layers):
    def make():
        return transformer(shape(**DIVISIBLE), layers=layers)

    alone = jax.jit(lambda: nnx.state(make(), nnx.Param))()
    sharded = initial_params(make, mesh_of(text))
    jax.tree.map(np.testing.assert_array_equal, alone, sharded)


@every_mesh
@pytest.mark.parametrize("changes", [{}, GPT], ids=["llama", "gpt"])
def test_loss_and_gradients_do_not_depend_on_the_mesh(
    shape, transformer, tokens, text, changes
):
    def make():
        return transformer(shape(**DIVISIBLE, **changes), matmul_form="flat")

    one_device = build_mesh(MeshSpec.parse("1/1"), jax.devices()[:1])
    results = [
        loss_and_gradients(make, mesh, initial_params(make, mesh), tokens)
        for mesh in (one_device, mesh_of(text))
    ]
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-6)
    for alone, sharded in zip(
        *(jax.tree.leaves(gradients) for _, gradients in results), strict=True
    ):
        difference = np.linalg.norm((np.asarray(alone) - np.asarray(sharded)).ravel())
        assert difference <= 1e-5 * np.linalg.norm(np.asarray(alone).ravel())


@pytest.mark.parametrize("remat", ["none", "dots", "full"])
def test_fsdp_gathers_kernels_and_never_activations(shape, transformer, tokens, remat):
    def make():
        return transformer(shape(**DIVISIBLE), remat=remat)

    text = program(make, "1/fsdp=8", tokens)
    gathered = re.findall(r"= \(?\w+\[([\d,]*)\]\S* all-gather\(", text)
    kernels = {
        ",".join(map(str, leaf.shape[1:] if path[0] == "blocks" else leaf.shape))
        for path, leaf in nnx.to_flat_state(nnx.state(nnx.eval_shape(make)))
    }
    assert gathered
    assert set(gathered) <= kernels
    assert "all-to-all" not in text
    assert "collective-permute" not in text


def test_tensor_devices_never_gather_a_kernel(shape, transformer, tokens):
    def make():
        return transformer(shape(**DIVISIBLE))

    text = program(make, "1/tensor=8", tokens)
    assert "all-reduce" in text
    assert "all-gather" not in text
    assert "all-to-all" not in text


def test_data_devices_only_sum_gradients(shape, transformer, tokens):
    def make():
        return transformer(shape(**DIVISIBLE))

    text = program(make, "1/data=8", tokens)
    assert "all-reduce" in text
    assert "all-gather" not in text
    assert "collective-permute" not in text


def program(make, text: str, tokens) -> str:
    """Returns the compiled program of one device."""
    mesh = mesh_of(text)
    return compiled_step(make, mesh, initial_params(make, mesh), tokens).as_text()


def test_a_rule_for_an_axis_the_mesh_lacks_is_an_error(shape, transformer, tokens):
    model = transformer(shape())
    lacking = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    with jax.set_mesh(lacking), pytest.raises(ValueError, match="fsdp"):
        model(tokens)
