"""Transformer on meshes of eight CPU devices: the same numbers on every mesh."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from flax.traverse_util import flatten_dict

from meshes.build import build_mesh
from meshes.build import named_sharding
from meshes.rules import rules
from meshes.spec import MeshSpec
from models.transformer import Transformer
from models.transformer import logical_axes

pytestmark = pytest.mark.fast

LLAMA = {"num_heads": 8, "num_kv_heads": 8}
GPT = LLAMA | {
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
BATCH, SEQ_LEN = 8, 16
FAST_COMPILE = {"xla_backend_optimization_level": 0}


def make(config, settings) -> Transformer:
    settings = {"compute_dtype": "float32", "residual": "replicated"} | dict(settings)
    table = rules(settings.pop("residual"))
    return Transformer(config, rngs=nnx.Rngs(0), rules=table, **settings)


def mesh_of(text: str) -> jax.sharding.Mesh:
    spec = MeshSpec.parse(text)
    return build_mesh(spec, jax.devices()[: spec.num_devices])


@functools.cache
def initial_params(config, text: str, **settings) -> nnx.State:
    """Returns the parameters, made in place on the mesh."""
    model = functools.partial(make, config, settings)
    shardings = jax.tree.map(
        lambda axes: named_sharding(mesh_of(text), axes),
        logical_axes(nnx.eval_shape(model)),
        is_leaf=lambda leaf: isinstance(leaf, tuple),
    )
    initialise = jax.jit(
        lambda: nnx.state(model(), nnx.Param),
        out_shardings=shardings,
        compiler_options=FAST_COMPILE,
    )
    with jax.set_mesh(mesh_of(text)):
        return initialise()


@functools.cache
def compiled_step(config, text: str, **settings) -> jax.stages.Compiled:
    """Returns loss and gradients of (parameters, tokens), laid out like them."""
    graph, params = nnx.split(nnx.eval_shape(lambda: make(config, settings)), nnx.Param)

    def loss(params, tokens):
        logits = nnx.merge(graph, params)(tokens[:, :-1])
        picked = jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)

    mesh = mesh_of(text)
    shardings = jax.tree.map(
        lambda axes: named_sharding(mesh, axes),
        logical_axes(params),
        is_leaf=lambda leaf: isinstance(leaf, tuple),
    )
    step = jax.jit(
        jax.value_and_grad(loss),
        in_shardings=(shardings, named_sharding(mesh, ("batch",))),
        out_shardings=(named_sharding(mesh, ()), shardings),
    )
    tokens = jax.ShapeDtypeStruct((BATCH, SEQ_LEN + 1), jnp.int32)
    with jax.set_mesh(mesh):
        return step.lower(params, tokens).compile(FAST_COMPILE)


def loss_and_gradients(config, text: str, **settings) -> tuple[float, dict]:
    tokens = jax.random.randint(
        jax.random.key(7), (BATCH, SEQ_LEN + 1), 0, config.vocab_size
    )
    tokens = jax.device_put(tokens, named_sharding(mesh_of(text), ("batch",)))
    params = initial_params(config, text)
    loss, gradients = compiled_step(config, text, **settings)(params, tokens)
    return loss.item(), flatten_dict(nnx.to_pure_dict(jax.device_get(gradients)))


@every_mesh
@pytest.mark.parametrize("layers", ["scanned", "unrolled"])
def test_initial_values_do_not_depend_on_the_mesh(shape, text, layers):
    alone, sharded = (
        initial_params(shape(**LLAMA), on, layers=layers) for on in ("1/1", text)
    )
    jax.tree.map(np.testing.assert_array_equal, alone, sharded)


@every_mesh
@pytest.mark.parametrize(
    ("changes", "form"), [(LLAMA, "plain"), (GPT, "flat")], ids=["llama", "gpt flat"]
)
def test_loss_and_gradients_do_not_depend_on_the_mesh(shape, text, changes, form):
    check_same_as_alone(shape(**changes), text, matmul_form=form)


def check_same_as_alone(config, text: str, **settings) -> None:
    alone, alone_gradients = loss_and_gradients(config, "1/1")
    loss, gradients = loss_and_gradients(config, text, **settings)
    assert loss == pytest.approx(alone, rel=1e-6)
    for path, gradient in alone_gradients.items():
        if path[-2:] == ("key", "bias"):
            continue  # zero but for rounding: the softmax does not see it
        difference = np.linalg.norm((gradient - gradients[path]).ravel())
        assert difference <= 1e-5 * np.linalg.norm(gradient.ravel()), path


@pytest.mark.parametrize("text", ["1/tensor=8", "1/data=2,fsdp=2,tensor=2"])
def test_sharding_the_residual_stream_does_not_change_the_numbers(shape, text):
    check_same_as_alone(shape(**LLAMA), text, residual="seq")


@pytest.mark.parametrize(("residual", "parts"), [("replicated", 1), ("seq", 8)])
def test_the_layers_keep_their_share_of_the_residual_stream(shape, residual, parts):
    config = shape(**LLAMA)
    program = compiled_step(config, "1/tensor=8", residual=residual, remat="full")
    kept = f"f32[{config.num_layers},{BATCH},{SEQ_LEN // parts},{config.embed_dim}]"
    assert kept in program.as_text()


@pytest.mark.parametrize("remat", ["none", "dots", "full"])
def test_fsdp_gathers_parameters_and_never_activations(shape, remat):
    config = shape(**LLAMA)
    text = compiled_step(config, "1/fsdp=8", remat=remat).as_text()
    gathered = re.findall(r"= \(?\w+\[([\d,]*)\]\S* all-gather\(", text)
    params = nnx.to_pure_dict(nnx.state(nnx.eval_shape(lambda: make(config, {}))))
    shapes = {
        ",".join(map(str, array.shape[1:] if path[0] == "blocks" else array.shape))
        for path, array in flatten_dict(params).items()
    }
    assert gathered
    # A slice of stacked layers keeps its layer dim of 1 where it is gathered early.
    assert {size.removeprefix("1,") for size in gathered} <= shapes
    assert "all-to-all" not in text
    assert "collective-permute" not in text


@pytest.mark.parametrize("text", ["1/tensor=8", "1/data=8"])
def test_only_sums_cross_tensor_and_data_axes(shape, text):
    program = compiled_step(shape(**LLAMA), text).as_text()
    assert "all-reduce" in program
    for kind in ("all-gather", "all-to-all", "collective-permute"):
        assert kind not in program


def test_a_mesh_that_lacks_an_axis_of_the_rules_is_an_error(shape):
    lacking = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    tokens = jnp.zeros((8, 16), jnp.int32)
    with jax.set_mesh(lacking), pytest.raises(ValueError, match="tensor"):
        jax.eval_shape(lambda: make(shape(), {})(tokens))
