"""A trick shot: a cue ball that sends another ball by a third one to a point of the table.

Smooth balls between four cushions, restitution 0.95. Place and velocity of the cue ball are free;
after 1.2 s the target ball is to be at a given point. `shoot` improves 100 starts at once, of those
that move the target ball at all. Beside it is the same method with the derivative that an engine
with fixed steps computes: where the balls are is exact, but the shift of the impact times is left
out of the derivative.
Expected: with exact derivatives 85 of the starts come within a centimetre, in fact to round-off (79
with a fourth ball beside), with times that are frozen 5; and each of 25 random points that can be
reached is. The map shows the basins: where from a given place starts end, by angle and speed.

Run: python examples/trick_shot.py [--balls 4] [--out DIR]
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from matplotlib.patches import Circle, Rectangle
from replays import write_replay

import jaxrb as rb
from jaxrb import optimize as ro
from jaxrb.viz.figure import BLACK, BLUE, GREEN, ORANGE, PURPLE

RADIUS, LENGTH, WIDTH, T1 = 0.04, 1.0, 0.5, 1.2  # of the balls, half the table [m]; [s]
PLACES = np.array([[-0.4, 0.0], [0.0, 0.0], [0.2, 0.0], [0.2, 0.12]])  # of the balls [m]
CUE, TARGET = 0, 2
RESTITUTION = 0.95
METHOD = rb.EventDriven(rb.ExactFlight(), dt=None)
GOAL = np.array([0.8, 0.2])
# Of the starts: place [m], angle [degrees], speed [m/s]; and of the map.
AWAY, ANGLE, SPEEDS = 0.05, 14.0, (1.0, 2.5)
MAP_ANGLE, MAP_SPEEDS = 7.0, (0.8, 4.0)


def table(n_balls):
    """Balls between cushions."""
    sides = ((1, 0, 0), LENGTH), ((-1, 0, 0), LENGTH), ((0, 1, 0), WIDTH), ((0, -1, 0), WIDTH)
    cushions = [rb.HalfSpace(normal, -offset) for normal, offset in sides]
    balls = [rb.RigidBody(rb.Sphere(RADIUS), 0.17)] * n_balls
    return rb.World(balls, cushions, gravity=(0, 0, 0), contact_law=rb.Frictionless(RESTITUTION))


def lined_up(n_balls, cue):
    """The state with place and velocity of the cue ball, shape (4,); the others are at rest."""
    place, still = jnp.zeros((n_balls, 3)).at[:, :2].set(PLACES[:n_balls]), jnp.zeros((n_balls, 3))
    upright = jnp.tile(jnp.array([1.0, 0.0, 0.0, 0.0]), (n_balls, 1))
    place, moving = place.at[CUE, :2].set(cue[:2]), still.at[CUE, :2].set(cue[2:])
    return rb.State(place, upright, moving, still)


def missed(end, goal):
    return end.position[TARGET, :2] - goal


def aim(world, starts, goal, free, **options) -> Any:
    """The shots from all starts; the free coordinates are those of the cue ball."""
    mask = np.zeros((len(world.bodies), 12), bool)
    mask[CUE, free] = True
    state = lined_up(len(world.bodies), jnp.zeros(4).at[:2].set(PLACES[CUE]))
    residual = eqx.Partial(missed, goal=jnp.asarray(goal))
    return ro.shoot(
        world, state, METHOD, T1, residual=residual, free=mask, starts=starts, rounds=1,
        tolerance=1e-9, **options,
    ).all  # fmt: skip


PLACE_AND_VELOCITY, VELOCITY = [0, 1, 6, 7], [6, 7]


def cues(n, seed=0):
    """Place and velocity of the cue ball, more or less towards the first ball, shape (n, 4)."""
    rng = np.random.default_rng(seed)
    place = PLACES[CUE] + rng.uniform(-AWAY, AWAY, (n, 2))
    angle, speed = rng.uniform(-ANGLE, ANGLE, n), rng.uniform(*SPEEDS, n)
    return np.column_stack([place, velocities(angle, speed)])


def velocities(degrees, speed):
    angle = np.radians(degrees)
    return np.stack([speed * np.cos(angle), speed * np.sin(angle)], axis=-1)


def ends(world, cue):
    """Where the target ball comes to, shape (n, 2)."""
    states = jax.vmap(partial(lined_up, len(world.bodies)))(jnp.asarray(cue))
    sols = rb.simulate_batch(world, states, METHOD, T1, throw=False)
    return np.asarray(sols.final.position[:, TARGET, :2])


def taken_again(world, start, impacts, frozen):
    """Where the target ball ends: the impacts of a simulation once more, at their times."""
    walls = jnp.stack([cushion.normal for cushion in world.obstacles])
    times = jnp.minimum(impacts.time, T1)  # unused slots have infinity
    times = jax.lax.stop_gradient(times) if frozen else times

    def impact(course, event):
        (before, x, v), (time, (i, other)) = course, event
        x = x + v * (time - before)
        wall, j = other < len(walls), jnp.maximum(other - len(walls), 0)
        line = jnp.where(wall, walls[jnp.minimum(other, len(walls) - 1)], x[i] - x[j])
        normal = line / jnp.linalg.norm(line)
        share, moving = jnp.where(wall, 1.0, 0.5), jnp.where(wall, 0.0, v[j])
        change = -(1 + RESTITUTION) * share * jnp.dot(normal, v[i] - moving) * normal
        after = v.at[i].add(change).at[j].add(jnp.where(wall, 0.0, -change))
        return (time, x, jnp.where(i < 0, v, after)), None

    first = (jnp.zeros(()), start.position, start.velocity)
    (time, x, v), _ = jax.lax.scan(impact, first, (times, impacts.pair))
    return (x + v * (T1 - time))[TARGET, :2]


def by_replay(world, frozen):
    """A function of many cues and a goal to residuals, Jacobians, whether they count, and by how
    much what was taken again differs from the simulation."""

    def one(cue, goal):
        def residual(cue):
            start = lined_up(len(world.bodies), cue)
            save = rb.SaveAt(final=True, impacts=32)
            sol = rb.simulate(world, start, METHOD, T1, save=save, throw=False)
            place = taken_again(world, start, sol.impacts, frozen)
            apart = jnp.abs(place - sol.final.position[TARGET, :2]).max()
            return place - goal, (place - goal, sol.successful, apart)

        by, (value, fine, apart) = jax.jacfwd(residual, has_aux=True)(cue)
        return value, by, fine, apart

    program = jax.jit(jax.vmap(one, in_axes=(0, None)))
    return lambda cue, goal: jax.tree.map(np.asarray, program(cue, goal))


def levenberg_marquardt(function, cue, goal, iterations=40):
    """The costs that `shoot`'s method reaches with a function as of `by_replay`."""
    damping, eye = np.full(len(cue), 1e-3), np.eye(cue.shape[1])
    value, by, fine, apart = function(cue, goal)
    cost = np.where(fine, (value**2).sum(axis=1), np.inf)
    for _ in range(iterations):
        squares = np.swapaxes(by, 1, 2) @ by
        held = squares * (1 + damping[:, None, None] * eye) + 1e-14 * eye
        step = np.linalg.solve(held, np.einsum("kij,ki->kj", by, value)[..., None])[..., 0]
        trial = function(cue - step, goal)
        found = np.where(trial[2], (trial[0] ** 2).sum(axis=1), np.inf)
        better, cost = found < cost, np.minimum(found, cost)
        cue = np.where(better[:, None], cue - step, cue)
        value = np.where(better[:, None], trial[0], value)
        by = np.where(better[:, None, None], trial[1], by)
        damping = np.where(better, np.maximum(0.2 * damping, 1e-12), 5 * damping)
    return cost, float(apart[fine].max())


def draw(world, shots, path, n=160):
    """Two of the shots; and the miss by angle and speed, with where starts on a grid lead."""
    figure, axes = rb.viz.new_figure(2, 2, size=(9.5, 4.6), width_ratios=(1, 1.25))
    for ax in axes[:, 1]:
        ax.remove()
    solved = np.flatnonzero(shots.cost < 1e-10)
    order = solved[np.argsort(shots.impacts[solved], kind="stable")]
    for ax, which in zip(axes[:, 0], (order[0], order[-1]), strict=True):
        sol = draw_shot(world, jax.tree.map(lambda leaf, k=which: leaf[k], shots.state), ax)
    draw_map(world, figure.add_subplot(axes[0, 0].get_gridspec()[:, 1]), figure, n)
    path.parent.mkdir(parents=True, exist_ok=True)
    rb.viz.save_figure(figure, path)
    write_replay(path.with_suffix(".html"), world, sol, speed=0.25)


def draw_shot(world, state, ax):
    """The table with the paths of the balls; returns the solution."""
    save = rb.SaveAt(ts=np.linspace(0.0, T1, 400), impacts=32)
    sol = rb.simulate(world, state, METHOD, T1, save=save)
    places = np.asarray(sol.states.position)
    for k, color in zip(range(len(world.bodies)), (BLACK, BLUE, ORANGE, GREEN), strict=False):
        ax.plot(*places[:, k, :2].T, color=color, lw=1)
        for when, look in ((0, {"fill": False}), (-1, {"alpha": 0.6, "lw": 0})):
            x, y = places[when, k, :2]
            ax.add_patch(Circle((x, y), RADIUS, color=color, **look))
    ax.plot(*GOAL, "+", color=PURPLE, ms=10, mew=1.5, zorder=4)
    ax.add_patch(Rectangle((-LENGTH, -WIDTH), 2 * LENGTH, 2 * WIDTH, fill=False))
    ax.set(aspect="equal", xlim=(-1.03, 1.03), ylim=(-0.53, 0.53), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.set_title(f"{int(sol.impacts.count)} impacts", loc="left")
    return sol


def draw_map(world, ax, figure, n):
    """The miss from the place of the cue ball, and where starts on a coarser grid lead."""
    angles, speeds = np.linspace(-MAP_ANGLE, MAP_ANGLE, n), np.linspace(*MAP_SPEEDS, n)

    def grid(every):
        angle, speed = (g.ravel() for g in np.meshgrid(angles[::every], speeds[::every]))
        place = np.broadcast_to(PLACES[CUE], (len(angle), 2))
        return angle, speed, np.column_stack([place, velocities(angle, speed)])

    distance = np.linalg.norm(ends(world, grid(1)[2]) - GOAL, axis=1).reshape(n, n)
    shades = ax.pcolormesh(angles, speeds, distance, cmap="Greys_r", rasterized=True)
    figure.colorbar(shades, ax=ax, label="distance of the target ball from the point [m]")
    angle, speed, cue = grid(6)
    starts = jax.vmap(partial(lined_up, len(world.bodies)))(jnp.asarray(cue))
    shots = aim(world, starts, GOAL, VELOCITY, max_iterations=15)
    vx, vy = np.asarray(shots.state.velocity)[:, CUE, :2].T
    found = np.column_stack([np.degrees(np.arctan2(vy, vx)), np.hypot(vx, vy)])
    inside = (np.abs(found[:, 0]) < MAP_ANGLE) & (found[:, 1] < MAP_SPEEDS[1])
    solved = (shots.cost < 1e-10) & inside & (found[:, 1] > MAP_SPEEDS[0])
    _, which = np.unique(np.round(found[solved], 3), axis=0, return_inverse=True)
    shots_and_starts = {"c": which % 10, "cmap": "tab10", "vmin": 0, "vmax": 9}
    ax.scatter(angle[solved], speed[solved], s=9, lw=0, **shots_and_starts)
    ax.scatter(
        *found[solved].T, s=90, marker="*", ec="white", lw=0.7, clip_on=False, **shots_and_starts
    )
    ax.set(xlabel="angle of the cue ball [degrees]", ylabel="speed [m/s]")
    ax.set_title("stars: shots; dots of the same colour: starts that lead there", loc="left")


def main(out=None, n_balls=3, n_goals=25):
    """Returns the costs from 100 starts by method; how far what is taken again is from the
    simulation [m]; and of random reachable goals how many of 50 starts reach 1e-10."""
    world, cue = table(n_balls), cues(2000)
    reached = ends(world, cue)
    moves = np.abs(reached - PLACES[TARGET]).max(axis=1) > 1e-6
    chosen, goals = cue[moves][:100], reached[moves][100 : 100 + n_goals]
    starts = jax.vmap(partial(lined_up, n_balls))(jnp.asarray(chosen))
    shots = aim(world, starts, GOAL, PLACE_AND_VELOCITY)
    exact, apart = levenberg_marquardt(by_replay(world, frozen=False), chosen, GOAL)
    frozen, _ = levenberg_marquardt(by_replay(world, frozen=True), chosen, GOAL)
    costs = {"shoot": shots.cost, "the loop here, exact": exact, "the loop here, frozen": frozen}
    print(f"{n_balls} balls; of {len(chosen)} starts, below    1e-4   1e-10 m^2")
    for name, cost in costs.items():
        print(f"{name:32}{(cost < 1e-4).sum():5d}{(cost < 1e-10).sum():8d}")
    few = jax.tree.map(lambda leaf: leaf[:50], starts)
    each = [aim(world, few, goal, PLACE_AND_VELOCITY, max_iterations=12).cost for goal in goals]
    n_solved = np.array([(cost < 1e-10).sum() for cost in each])
    print(f"{(n_solved > 0).sum()} of {n_goals} random goals are reached, each from", end=" ")
    print(f"{n_solved.min()} to {n_solved.max()} of 50 starts")
    if out is not None:
        with mpl.rc_context(rb.viz.STYLE):
            draw(world, shots, Path(out) / "trick_shot.png")
    return costs, apart, n_solved


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--out", default="examples/figures", help="folder of the picture")
    parser.add_argument("--balls", type=int, default=3, choices=(3, 4))
    arguments = parser.parse_args()
    main(arguments.out, arguments.balls)
