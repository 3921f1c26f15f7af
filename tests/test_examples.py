"""Each example does what its header promises."""

import dataclasses
import importlib
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from helpers import control_gradient
from scipy.integrate import solve_ivp

EXAMPLES = Path(__file__).parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES))


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_arrays_are_made_when_it_runs(name):
    """Not when it is imported: as a script it chooses double precision only afterwards, which the
    other tests here have chosen before."""
    module = importlib.import_module(name)
    made = [
        key
        for key, value in vars(module).items()
        if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(value))
    ]
    assert not made


def test_without_viser_there_is_a_line_instead_of_a_replay(tmp_path, capsys, monkeypatch):
    from replays import write_replay

    monkeypatch.setitem(sys.modules, "viser", None)
    write_replay(tmp_path / "flight.html", None, None)
    assert capsys.readouterr().out == 'A replay needs viser: pip install "jaxrb[viz]".\n'
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_throw_to_target():
    import throw_to_target

    # The optimiser's own code mixes dtypes: it is not ours to be strict about.
    with jax.numpy_dtype_promotion("standard"):
        first, last, impacts = throw_to_target.main()
    assert impacts == 2
    assert first > 0.5
    assert last < 1e-3


@pytest.mark.long
def test_throw_dice():
    """It lies level, and its derivative is not a small one."""
    import throw_dice

    for number, tilt, exact, differences in throw_dice.main():
        assert 1 <= number <= 6
        assert tilt < 1e-12
        assert np.abs(exact).max() > 0.05
        np.testing.assert_allclose(differences, exact, atol=1e-8)


@pytest.mark.long
def test_many_dice():
    """All of them lie on a face; chi-square of five degrees of freedom is above 20.5 once in a
    thousand seeds."""
    import throw_dice

    counts, chi_square, tilt, successful = throw_dice.many(600)
    assert successful.all() and counts.sum() == 600
    assert tilt < 1e-9
    assert chi_square < 20.5


@pytest.mark.long
def test_powered_landing(tmp_path):
    import powered_landing as example

    from jaxrb.optimize import RESULTS

    # The example's own arithmetic is NumPy's.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        solution, missed = example.main(tmp_path)
    assert solution.result == RESULTS.successful
    assert solution.iterations <= 10
    assert solution.controls.shape == (50, 3)
    assert missed < 1e-9
    assert (tmp_path / "powered_landing.png").stat().st_size > 10_000
    assert (tmp_path / "powered_landing.html").stat().st_size > 100_000


@pytest.mark.long
def test_hopping(tmp_path):
    import hopping as example

    from jaxrb.optimize import RESULTS, GaussNewtonShooting, solve

    # The example's own arithmetic is NumPy's.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        solution, apart = example.main(tmp_path)
        fifteen = solve(solution.plan, GaussNewtonShooting(max_iterations=15), example.guess())
    assert solution.result == RESULTS.successful
    assert solution.iterations <= 20
    # Most of the iterations are for the last digits of the cost: the motion is one long before.
    assert fifteen.iterations == 15 and fifteen.defects < 1e-10
    np.testing.assert_allclose(fifteen.cost, solution.cost, rtol=1e-9)
    assert apart < 1e-9
    assert (tmp_path / "hopping.png").stat().st_size > 10_000
    assert (tmp_path / "hopping.html").stat().st_size > 100_000


@pytest.mark.long
def test_fit_toss(tmp_path):
    """All estimates are within a percent of the truth."""
    import fit_toss as example

    from jaxrb.optimize import RESULTS

    # The example's own arithmetic is NumPy's.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        fit = example.main(tmp_path)
    assert fit.result == RESULTS.successful
    law = fit.estimates["contact_law.restitution"], fit.estimates["contact_law.friction"]
    found = np.array([law[0].value, law[1].value, *fit.estimates["bodies[0].inertia"].value])
    truth = [example.RESTITUTION, example.FRICTION, *example.MOMENTS]
    np.testing.assert_allclose(found, truth, rtol=0.01)
    assert (tmp_path / "fit_toss.png").stat().st_size > 10_000
    assert (tmp_path / "fit_toss.html").stat().st_size > 100_000


@pytest.mark.long
@pytest.mark.parametrize(("n_balls", "least"), [(3, 40), (4, 70)])
def test_trick_shot(tmp_path, n_balls, least):
    """Exact derivatives find many shots, whatever the goal; with frozen times of impacts few."""
    import trick_shot as example

    # The example's own arithmetic is NumPy's.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        costs, apart, n_solved = example.main(tmp_path, n_balls)
    assert apart < 1e-12
    shoot, exact, frozen = ((cost < 1e-4).sum() for cost in costs.values())
    assert shoot >= least and exact >= least
    assert frozen <= 15
    assert len(n_solved) == 25 and (n_solved > 0).all()
    assert (tmp_path / "trick_shot.png").stat().st_size > 10_000
    assert (tmp_path / "trick_shot.html").stat().st_size > 100_000


@pytest.mark.long
def test_hopping_leg(tmp_path):
    import hopping_leg as example

    from jaxrb.optimize import RESULTS

    # The example's own arithmetic is NumPy's.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        solution, bounces, apart = example.main(tmp_path)
    assert solution.result == RESULTS.successful
    assert solution.iterations <= 10
    assert solution.defects < 1e-10
    assert bounces == [1] * 10
    # Of second order in steps: the swing of the leg has 80 of them.
    assert apart < 0.1
    assert (tmp_path / "hopping_leg.png").stat().st_size > 10_000
    assert (tmp_path / "hopping_leg.html").stat().st_size > 100_000


@pytest.mark.long
def test_racket(tmp_path):
    import racket as example

    from jaxrb.optimize import RESULTS

    # The example's own arithmetic is NumPy's.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        solution, bounces, aside, apart = example.main(tmp_path)
    assert solution.result == RESULTS.successful
    assert solution.iterations <= 12
    assert bounces == [1] * 10
    assert aside < example.DISC
    assert apart < 1e-9
    assert (tmp_path / "racket.png").stat().st_size > 10_000
    assert (tmp_path / "racket.html").stat().st_size > 100_000


@pytest.mark.long
def test_minimum_time_throw(tmp_path):
    import minimum_time_throw as example

    # The example's own arithmetic is NumPy's.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        found, known = example.main(tmp_path)
    assert all(one.missed < 1e-9 for one in found)
    assert found[0].kind == "straight"
    for kind, (time, multiplier) in known.items():
        soonest = next(one for one in found if one.kind == kind)
        np.testing.assert_allclose(soonest.time, time, rtol=1e-9)
        np.testing.assert_allclose(soonest.multiplier, multiplier, rtol=1e-9)
        assert soonest.multiplier < 0
    assert (tmp_path / "minimum_time_throw.png").stat().st_size > 10_000
    assert (tmp_path / "minimum_time_throw.html").stat().st_size > 100_000


@pytest.mark.long
def test_sensitivity_map(tmp_path):
    """Differences grow about five-fold per impact, and nothing fails."""
    import sensitivity_map as example

    # The example's own arithmetic is NumPy's.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        maps, medians = example.main(tmp_path, n=24)
    assert all(np.isfinite(values).all() for values in maps.values())
    for impacts, expected in ((2, 5e2), (5, 5e4), (10, 2e8)):
        assert expected / 4 < medians[impacts] < 4 * expected
    assert (tmp_path / "sensitivity_map.png").stat().st_size > 10_000


@pytest.mark.long
def test_flight_between_poses(tmp_path):
    import flight_between_poses as example

    from jaxrb.optimize import RESULTS

    # The example's own arithmetic is NumPy's.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        solution, again, ends, hovering = example.main(tmp_path)
        gradient, differences = gradients(example.problem(), example.missed, solution.controls)
    np.testing.assert_allclose(gradient, differences, rtol=0, atol=1e-7 * np.abs(gradient).max())
    assert solution.result == again.result == RESULTS.successful
    assert solution.iterations <= 20 and again.iterations <= 4
    assert solution.defects < 1e-10
    for missed, bounces in ends:
        assert bounces == 1
        assert missed < 1e-9
    # What a step of 10 ms costs.
    assert np.abs(again.controls - solution.controls).max() < 1e-3
    assert solution.cost < 0.5 * hovering
    assert (tmp_path / "flight_between_poses.png").stat().st_size > 10_000
    assert (tmp_path / "flight_between_poses.html").stat().st_size > 100_000


def gradients(plan, missed, controls):
    """Derivatives of the cost along random directions of the controls, with the end as a cost: by
    the stages' Jacobians, and by differences of simulations."""
    from jaxrb.optimize.control_search import Search
    from jaxrb.optimize.stages import Policy, Programs

    soft = dataclasses.replace(plan, terminal=None, terminal_cost=missed)
    programs = Programs.of(soft)
    rng = np.random.default_rng(0)
    # Away from the end that is prescribed, where it costs something.
    aside = controls + 0.02 * rng.normal(size=controls.shape)
    at = Search(soft, programs, free_nodes=False).begin((aside, None))
    directions = rng.normal(size=(8, *controls.shape))
    directions /= np.linalg.norm(directions, axis=(1, 2), keepdims=True)
    d = 1e-5
    both = np.concatenate([aside + d * directions, aside - d * directions])
    still = Policy(both, np.zeros((16, plan.stages, controls.shape[1], 12)))
    costs = programs.rollouts(soft.state, still, at.nodes).cost
    along = np.tensordot(directions, control_gradient(at.known), 2)
    return along, (costs[:8] - costs[8:]) / (2 * d)


@pytest.mark.long
def test_quadrotor_recovery(tmp_path):
    import quadrotor_recovery as example

    # The example's own arithmetic is NumPy's.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        impacts, distance, psi = example.main(tmp_path)
    assert impacts >= 1
    assert distance < 1e-3
    assert psi < 1e-6
    assert (tmp_path / "quadrotor_recovery.png").stat().st_size > 10_000
    assert (tmp_path / "quadrotor_recovery.html").stat().st_size > 100_000


@pytest.mark.long
def test_continuous_time(tmp_path):
    import continuous_time as example

    # The example's own arithmetic is NumPy's.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        agreement, racket, with_steps, without, change = example.main(tmp_path, n=40)
    # The edge touches the floor before the centre does.
    assert 0.7 < agreement < 0.9
    # Round-off of the angle turned in a first flight of 3900 s; where another one begins close to
    # the middle axis, that of its state moves all turns that follow.
    assert len(racket) == 3232
    assert racket[:1200].max() < 2e-11 and racket.max() < 2e-7
    # Of order 2: a sixteenth of the step size has 1/256 of the error.
    np.testing.assert_allclose(with_steps[0] / with_steps[-1], 256, rtol=0.05)
    assert without.max() < 1e-12
    assert change < 1e-13
    for name in ("coin", "racket", "steps", "sphere"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000


def dop853(rate, start, ts):
    """At the times ts, to some 1e-12."""
    span = (0.0, ts[-1])
    return solve_ivp(rate, span, start, "DOP853", ts, rtol=1e-13, atol=1e-13).y.T


@pytest.mark.slow
def test_jia_wang(tmp_path, capsys):
    """The sequences of events in the captions, all figures, and the printed impulses as far as
    they are exact."""
    import jia_wang as example

    words = example.main(tmp_path)
    assert words == {instance.name: instance.event_sequence for instance in example.INSTANCES}
    assert len(list(tmp_path.glob("*.png"))) == 4
    assert "|B^-1 d|            0.3156995896" in capsys.readouterr().out


@pytest.mark.parametrize("moments", [(6.0, 8.0, 3.0), (8.0, 6.0, 3.0)])
@pytest.mark.parametrize("omega0", [(10.0, 20.0, 20.0), (-1.0, 9.0, -2.0)])
def test_exact_rotation_of_a_free_body(moments, omega0):
    """On both sides of the separatrix, and for both orientations of the axes."""
    import betsch_siebert

    moments = np.array(moments)

    def rate(_, y):
        r, omega = y[:9].reshape(3, 3), y[9:]
        turning = np.cross(r, omega)  # the rows of R times hat(omega)
        return np.concatenate([turning.reshape(9), np.cross(moments * omega, omega) / moments])

    ts = np.array([0.1, 1.0])
    for t, y in zip(ts, dop853(rate, np.append(np.eye(3), omega0), ts), strict=True):
        exact = betsch_siebert.exact_free_rotation(moments, omega0, t)
        np.testing.assert_allclose(exact, y[:9].reshape(3, 3), atol=1e-11)


@pytest.mark.long
def test_betsch_siebert(tmp_path, capsys):
    import betsch_siebert as example

    free_steps, top_steps = (500, 1000), (1000, 2000)
    found = example.main(tmp_path, free_steps, top_steps)
    for errors, steps in ((found["free"], free_steps), (found["top"], top_steps)):
        assert set(errors) == {"QUAT.EM", "QUAT.VI", "DIR.EM", "ALGO.C1"}
        for error in errors.values():
            assert abs(example.order(steps, error) - 2) < 0.1
    for name in ("free", "QUAT.EM", "DIR.EM"):
        assert found["flights"][name].energy_error < 1e-12
        assert found["flights"][name].momentum_error < 1e-12
    # These keep to the vertical momentum, not to the energy.
    for name in ("QUAT.VI", "ALGO.C1"):
        assert found["flights"][name].momentum_error < 1e-12
        assert found["flights"][name].energy_error > 1e-4

    top = example.gyro_top()
    assert 1 / 100 > top.limit > 0.007
    assert np.isnan(example.error_after_one_second(top, "QUAT.VI", 100))
    names = [f"betsch_siebert_{n}.{ending}" for n in (1, 3, 4, 5) for ending in ("png", "pdf")]
    assert all((tmp_path / name).stat().st_size > 1e4 for name in names)
    assert "order" in capsys.readouterr().out


@pytest.mark.parametrize("precession", [0.0, -10.0])
def test_exact_motion_of_a_heavy_top(precession):
    """Against Euler's equations about the tip, of which the Euler angles are the solution."""
    import geradin_rixen_top as example

    about = example.ACROSS + example.MASS * example.LENGTH**2
    moments = np.array([about, about, example.ALONG])
    weight = example.MASS * example.GRAVITY * example.LENGTH

    def rate(_, y):
        r, omega = y[:9].reshape(3, 3), y[9:]
        moment = weight * np.array([r[2, 1], -r[2, 0], 0.0])
        spin = (np.cross(moments * omega, omega) + moment) / moments
        return np.append(np.cross(r, omega), spin)

    _, start = example.top(precession)
    r0, omega0 = np.asarray(start.rotation_matrix[0]), np.asarray(start.angular_velocity[0])
    ts = np.linspace(0.0, 2.0, 401)
    found = dop853(rate, np.append(r0, omega0), ts)
    exact = example.exact_motion(precession, ts)
    r, omega = found[:, :9].reshape(-1, 3, 3), found[:, 9:]
    np.testing.assert_allclose(exact.axis(), r[:, :, 2], atol=1e-11)
    np.testing.assert_allclose(exact.transverse(), omega[:, 0], atol=1e-9)
    np.testing.assert_allclose(np.sin(exact.theta) * np.sin(exact.phi), r[:, 2, 0], atol=1e-10)
    # The force is m (a - g), with a by differences of order 4.
    h = ts[1]
    steps = [example.LENGTH * r[k : len(ts) - 4 + k, :, 2] for k in range(5)]
    weights = np.array([-1, 16, -30, 16, -1]) / (12 * h**2)
    acceleration = np.tensordot(weights, steps, 1) + np.array([0.0, 0.0, example.GRAVITY])
    force = example.exact_force(exact, precession)[2:-2]
    np.testing.assert_allclose(example.MASS * acceleration, force, atol=1e-5 * np.abs(force).max())
    # And the period, by quadrature, is that of Jacobi's functions.
    period = example.nutation(precession).period
    later = example.exact_motion(precession, np.linspace(0.0, period, 401))
    np.testing.assert_allclose(later.theta[-1], example.TILT, atol=1e-12)
    ends = [later.theta.min(), later.theta.max()]
    np.testing.assert_allclose(ends, example.nutation(precession).span, atol=1e-12)


@pytest.mark.long
def test_geradin_rixen_top(tmp_path, capsys):
    import geradin_rixen_top as example

    steps = (2e-3, 5e-3)
    found = example.main(tmp_path, steps, t1=2.0)
    assert set(found) == {1, 2}

    def order(errors):
        return np.log(errors[1] / errors[0]) / np.log(steps[1] / steps[0])

    for numbers in found.values():
        for name in ("theta, largest [rad]", "period of the nutation [s]"):
            exact, *simulated = numbers[name]
            assert abs(order(np.abs(np.array(simulated) - exact)) - 2) < 0.1
        exact, *simulated = numbers["theta, least [rad]"]
        np.testing.assert_allclose(simulated, exact, atol=1e-6)
        assert max(numbers["energy, corrected update"]) < 1e-12
        assert min(numbers["energy, printed update"]) > 1e-9
        assert abs(order(numbers["energy, printed update"]) - 2) < 0.1
        assert max(numbers["constraint, position"]) < 1e-12
        assert abs(order(numbers["constraint, velocity"]) - 2) < 0.1
        assert abs(order(numbers["force, mean of steps"]) - 2) < 0.1
        assert max(numbers["force of a step"]) < 0.05
    names = [f"geradin_rixen_{n}.{ending}" for n in (6, 7) for ending in ("png", "pdf")]
    assert all((tmp_path / name).stat().st_size > 1e4 for name in names)
    assert "period" in capsys.readouterr().out
