"""TrainStep: one optimizer step of a point on a mesh, and the state it transforms.

Everything is laid out before the first step: parameters by the rules of the mesh,
optimizer moments like their parameters, scalars replicated. The step returns its
state in the layout that it took it in, so it compiles once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from meshes.build import named_sharding
from meshes.hardware import chip
from meshes.rules import rules
from models.blocks import form_on
from models.presets import MODELS
from models.transformer import Transformer
from models.transformer import logical_axes
from scaling.point import Point

LEARNING_RATE = 6e-4
OPTIMIZER = optax.adamw(LEARNING_RATE, b1=0.9, b2=0.95, eps=1e-8, weight_decay=0.1)
"""AdamW as GPT-3 was trained (arXiv 2005.14165, appendix B; the rate is that of its
125M model), without its schedule and clipping, and with decay on all parameters."""


class TrainState(NamedTuple):
    """What a step takes and returns, donated; every leaf is committed to the mesh."""

    params: Any
    """Arrays in the param dtype in plain dicts nested as the model is: JAX walks those
    in C++, where a Flax state would cost every step a fraction of a millisecond."""
    moments: optax.OptState
    step: Any
    """Steps done, int32 scalar."""


Step = Callable[[TrainState, jax.Array], tuple[TrainState, jax.Array]]
"""(state, tokens [global_batch, seq_len + 1]) to (state, loss float32 scalar)."""


@dataclass(frozen=True, kw_only=True)
class TrainStep:
    """The training step of one point on one mesh, before compilation."""

    point: Point
    mesh: jax.sharding.Mesh
    graph: Any
    """Static part of the model (`nnx.GraphDef`)."""
    abstract_state: TrainState
    """Shapes, dtypes and shardings of the state."""

    def init(self) -> TrainState:
        """Returns the initial state, made in place; the same values on every mesh."""
        shardings = jax.tree.map(lambda leaf: leaf.sharding, self.abstract_state)
        make = jax.jit(
            lambda: _initial_state(self.point),
            out_shardings=shardings,
            compiler_options=_init_compiler_options(self.point),
        )
        with jax.set_mesh(self.mesh):
            return make()

    def lower(self) -> jax.stages.Lowered:
        """Returns the step lowered for the mesh: StableHLO, nothing compiled yet."""
        shardings = jax.tree.map(lambda leaf: leaf.sharding, self.abstract_state)
        batch = self.abstract_batch
        step = jax.jit(
            self._step,
            in_shardings=(shardings, batch.sharding),
            out_shardings=(shardings, named_sharding(self.mesh, ())),
            donate_argnums=0,
        )
        with jax.set_mesh(self.mesh):
            return step.lower(self.abstract_state, batch)

    def compile(self) -> Step:
        """Returns the executable that is run; the first argument is donated."""
        return self.lower().compile()

    @property
    def abstract_batch(self) -> jax.ShapeDtypeStruct:
        """Shape, dtype and sharding of the tokens of one step."""
        return jax.ShapeDtypeStruct(
            (self.point.global_batch_size, self.point.seq_len + 1),
            jnp.int32,
            sharding=named_sharding(self.mesh, ("batch",)),
        )

    def _step(
        self, state: TrainState, tokens: jax.Array
    ) -> tuple[TrainState, jax.Array]:
        loss, gradients = self._loss_and_gradients(state.params, tokens)
        updates, moments = OPTIMIZER.update(gradients, state.moments, state.params)
        params = optax.apply_updates(state.params, updates)
        return TrainState(params, moments, state.step + 1), loss

    def _loss_and_gradients(self, params: Any, tokens: jax.Array) -> Any:
        differentiate = jax.value_and_grad(self._loss)
        if self.point.accumulation == 1:
            return differentiate(params, tokens)
        micro_batches = self._micro_batches(tokens)

        def add(total: Any, micro_batch: jax.Array) -> tuple[Any, None]:
            one = differentiate(params, micro_batch)
            return jax.tree.map(lambda t, x: t + x.astype(t.dtype), total, one), None

        # Sums are float32 whatever the parameters are: many small terms.
        zeros = jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), params)
        total, _ = jax.lax.scan(add, (jnp.float32(0), zeros), micro_batches)
        loss, gradients = jax.tree.map(lambda x: x / len(micro_batches), total)
        return loss, jax.tree.map(lambda g, p: g.astype(p.dtype), gradients, params)

    def _micro_batches(self, tokens: jax.Array) -> jax.Array:
        """Returns [accumulation, micro-batch, T + 1], each spread over all devices.

        Row r goes to micro-batch r mod accumulation, so no row changes its device.
        """
        count = self.point.accumulation
        rows = tokens.reshape(-1, count, tokens.shape[-1])
        batch_axes = named_sharding(self.mesh, ("batch",)).spec[0]
        return jax.lax.with_sharding_constraint(
            rows.swapaxes(0, 1), jax.P(None, batch_axes)
        )

    def _loss(self, params: Any, tokens: jax.Array) -> jax.Array:
        model = nnx.merge(self.graph, params)
        return next_token_loss(model(tokens[:, :-1]), tokens[:, 1:])


def build_step(point: Point, mesh: jax.sharding.Mesh) -> TrainStep:
    """Returns the training step of a point on a mesh; allocates nothing.

    Raises ValueError where the micro-batches do not divide over the mesh.
    """
    _check_micro_batches(point, mesh)
    model = nnx.eval_shape(lambda: _model(point))
    graph, params = nnx.split(model, nnx.Param)
    shardings = jax.tree.map(
        lambda axes: named_sharding(mesh, axes),
        nnx.to_pure_dict(logical_axes(model)),
        is_leaf=lambda leaf: isinstance(leaf, tuple),
    )
    return TrainStep(
        point=point,
        mesh=mesh,
        graph=graph,
        abstract_state=_abstract_state(nnx.to_pure_dict(params), shardings, mesh),
    )


def next_token_loss(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Returns the mean cross entropy in nats, a float32 scalar.

    Takes logits [batch, seq, vocab] and targets [batch, seq]. The target's logit is
    picked by comparison, not by a gather, so logits that are sharded along vocab stay
    where they are.
    """
    logits = logits.astype(jnp.float32)
    vocab = jax.lax.broadcasted_iota(jnp.int32, logits.shape, 2)
    picked = jnp.where(vocab == targets[..., None], logits, 0).sum(-1)
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)


def state_bytes_per_device(state: TrainState) -> int:
    """Returns the bytes of the state on the fullest device, from its shards.

    Takes a real or abstract state; in a run over several processes all of them count.
    """
    totals: dict[Any, int] = {}
    for leaf in jax.tree.leaves(state):
        size = leaf.dtype.itemsize
        for dim in leaf.sharding.shard_shape(leaf.shape):
            size *= dim
        for device in leaf.sharding.device_set:
            totals[device] = totals.get(device, 0) + size
    return max(totals.values())


def _model(point: Point) -> Transformer:
    return Transformer(
        MODELS[point.model],
        rngs=nnx.Rngs(params=point.seed),
        rules=rules(point.residual),
        layers=point.layers,
        remat=point.remat,
        param_dtype=point.param_dtype,
        compute_dtype=point.compute_dtype,
        matmul_form=form_on(chip(point.chip).platform),
        attention=point.attention,
    )


def _init_compiler_options(point: Point) -> dict[str, bool | int | str | float]:
    # It runs once: on CPU, LLVM's full optimisation of the random numbers takes longer
    # than the whole training step's and leaves them no faster.
    cpu = chip(point.chip).platform == "cpu"
    return {"xla_backend_optimization_level": 1} if cpu else {}


def _initial_state(point: Point) -> TrainState:
    params = nnx.to_pure_dict(nnx.state(_model(point), nnx.Param))
    return TrainState(params, OPTIMIZER.init(params), jnp.int32(0))


def _abstract_state(params: Any, shardings: Any, mesh: jax.sharding.Mesh) -> TrainState:
    replicated = named_sharding(mesh, ())
    moments = jax.eval_shape(OPTIMIZER.init, params)
    state = TrainState(params, moments, jax.ShapeDtypeStruct((), jnp.int32))
    state_shardings = TrainState(
        shardings,
        optax.tree_map_params(
            OPTIMIZER,
            lambda _, sharding: sharding,
            moments,
            shardings,
            transform_non_params=lambda _: replicated,
        ),
        replicated,
    )
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=sharding
        ),
        state,
        state_shardings,
    )


def _check_micro_batches(point: Point, mesh: jax.sharding.Mesh) -> None:
    axes = named_sharding(mesh, ("batch",)).spec[0] or ()
    shards = 1
    for axis in axes if isinstance(axes, tuple) else (axes,):
        shards *= mesh.shape[axis]
    if point.global_batch_size % (shards * point.accumulation):
        raise ValueError(
            f"global batch {point.global_batch_size} does not divide over accumulation "
            f"{point.accumulation} × {shards} batch shards of mesh '{point.mesh}'"
        )
