"""The recursion over stages against one dense least squares of everything, by NumPy's SVD.

Numbers are of order one and random problems well conditioned: 1e-10 leaves room for products of
the matrices of a chain.
"""

import numpy as np
import pytest

from jaxrb.optimize import gauss_newton as gn

N_X, N_V, M = 4, 2, 12


def random_stages(rng, lead, n_stages, n_p, n_v=N_V, n_x=N_X, m=M):
    """Stages with everything in them, in which the matrices neither grow nor shrink much."""

    def normal(*shape):
        return rng.normal(size=(*lead, n_stages, *shape))

    turn = np.linalg.qr(normal(n_x, n_x))[0]
    return gn.Stages(
        residual=normal(m),
        residual_by_input=normal(m, n_v),
        residual_by_state=normal(m, n_x),
        residual_by_parameter=normal(m, n_p),
        defect=normal(n_x),
        next_by_input=normal(n_x, n_v),
        next_by_state=turn,
        next_by_parameter=normal(n_x, n_p),
    )


class Dense:
    """All unknowns of several chains in one vector: the parameters, then of each chain the nodes
    and the inputs. Residuals are rows of J z + c, continuity rows of G z + d = 0."""

    def __init__(self, stages):
        self.n_chains, self.n_stages, self.n_x = stages.defect.shape
        self.n_v, self.n_p = stages.next_by_input.shape[-1], stages.next_by_parameter.shape[-1]
        self.per_chain = (self.n_stages + 1) * self.n_x + self.n_stages * self.n_v
        self.size = self.n_p + self.n_chains * self.per_chain
        self.theta = range(self.n_p)
        rows, constants, between, defects = [], [], [], []
        for chain in range(self.n_chains):
            for k in range(self.n_stages):
                at = (chain, k)
                row = np.zeros((stages.residual.shape[-1], self.size))
                row[:, self.node(chain, k)] = stages.residual_by_state[at]
                row[:, self.input(chain, k)] = stages.residual_by_input[at]
                row[:, self.theta] = stages.residual_by_parameter[at]
                rows.append(row)
                constants.append(stages.residual[at])
                meet = np.zeros((self.n_x, self.size))
                meet[:, self.node(chain, k)] = stages.next_by_state[at]
                meet[:, self.input(chain, k)] = stages.next_by_input[at]
                meet[:, self.theta] = stages.next_by_parameter[at]
                meet[:, self.node(chain, k + 1)] = -np.eye(self.n_x)
                between.append(meet)
                defects.append(stages.defect[at])
        self.J, self.c = np.concatenate(rows), np.concatenate(constants)
        self.G, self.d = np.concatenate(between), np.concatenate(defects)

    def node(self, chain, k):
        start = self.n_p + chain * self.per_chain + k * self.n_x
        return range(start, start + self.n_x)

    def input(self, chain, k):
        start = self.n_p + chain * self.per_chain + (self.n_stages + 1) * self.n_x
        return range(start + k * self.n_v, start + (k + 1) * self.n_v)

    def free(self):
        """A point z0 and a basis Z of what keeps the chains continuous: z = z0 + Z y."""
        z0 = np.linalg.lstsq(self.G, -self.d, rcond=None)[0]
        _, values, rows = np.linalg.svd(self.G)
        return z0, rows[np.sum(values > 1e-12) :].T

    def solve(self, rows=None, constants=None):
        """The least squares of residuals, with rows of damping if there are any."""
        J = self.J if rows is None else np.concatenate([self.J, rows])
        c = self.c if rows is None else np.concatenate([self.c, constants])
        z0, Z = self.free()
        return z0 + Z @ np.linalg.lstsq(J @ Z, -(J @ z0 + c), rcond=None)[0]

    def parts(self, z):
        chains = range(self.n_chains)
        nodes = [[z[self.node(j, k)] for k in range(self.n_stages + 1)] for j in chains]
        inputs = [[z[self.input(j, k)] for k in range(self.n_stages)] for j in chains]
        return z[: self.n_p], np.array(nodes), np.array(inputs).reshape(*np.shape(inputs)[:2], -1)


def recursion(stages, damping=0.0, input_damping=0.0):
    lead = stages.defect.shape[:-2]
    n_v, n_p = stages.next_by_input.shape[-1], stages.next_by_parameter.shape[-1]
    left, feedbacks = gn.eliminate(
        stages, None, np.full(lead, damping), np.full((*lead, n_v), input_damping)
    )
    step, first, root = gn.join(left[0], np.full(lead[:-1], damping), np.inf)
    shared = np.broadcast_to(step[..., None, :], (*lead, n_p))
    inputs, nodes = gn.forward(feedbacks, stages, first, shared)
    return step, nodes, inputs, root, left, shared


@pytest.mark.parametrize("n_v", [0, N_V])
@pytest.mark.parametrize("n_p", [0, 3])
@pytest.mark.parametrize(("n_chains", "n_stages"), [(1, 1), (1, 5), (3, 4)])
def test_exact_continuity(n_chains, n_stages, n_p, n_v):
    rng = np.random.default_rng(n_chains + 10 * n_stages + 100 * n_p + n_v)
    stages = random_stages(rng, (n_chains,), n_stages, n_p, n_v)
    dense = Dense(stages)
    theta, nodes, inputs = dense.parts(dense.solve())
    step, found, chosen, *_ = recursion(stages)
    np.testing.assert_allclose(step, theta, atol=1e-10)
    np.testing.assert_allclose(found, nodes, atol=1e-10)
    np.testing.assert_allclose(chosen, inputs, atol=1e-10)


def test_the_terminal_counts():
    """A target of the last node, as rows of its own in the dense problem."""
    rng = np.random.default_rng(1)
    stages = random_stages(rng, (1,), 3, 2)
    by_state, by_parameter, constant = (
        rng.normal(size=(6, 4)),
        rng.normal(size=(6, 2)),
        rng.normal(size=6),
    )
    terminal = gn.Remainder(by_state[None], by_parameter[None], constant[None])
    left, _ = gn.eliminate(stages, terminal, np.zeros(1), np.zeros((1, N_V)))
    step, _, _ = gn.join(left[0], np.zeros(()), np.inf)
    dense = Dense(stages)
    rows = np.zeros((6, dense.size))
    rows[:, dense.node(0, 3)], rows[:, dense.theta] = by_state, by_parameter
    np.testing.assert_allclose(step, dense.solve(rows, constant)[:2], atol=1e-10)


def test_gaps_at_a_price():
    """Inputs that are gaps in units of their noise, with their own squares: soft continuity. The
    dense problem has no input but squares of the gaps, and no constraint."""
    rng = np.random.default_rng(2)
    noise = np.array([0.1, 0.5, 1.0, 2.0])
    plain = random_stages(rng, (2,), 4, 3, n_v=0)
    zeros = np.zeros((2, 4, N_X, N_X))
    eye = zeros + np.eye(N_X)

    def below(top, rows):
        return np.concatenate([top, rows], axis=2)

    soft = gn.Stages(
        residual=below(np.zeros((2, 4, N_X)), plain.residual),
        residual_by_input=below(eye, np.zeros((2, 4, M, N_X))),
        residual_by_state=below(zeros, plain.residual_by_state),
        residual_by_parameter=below(np.zeros((2, 4, N_X, 3)), plain.residual_by_parameter),
        defect=plain.defect,
        next_by_input=eye * noise[:, None],
        next_by_state=plain.next_by_state,
        next_by_parameter=plain.next_by_parameter,
    )
    step, nodes, gaps, *_ = recursion(soft)
    dense = Dense(plain)
    weight = np.tile(1 / noise, len(dense.d) // N_X)
    J = np.concatenate([dense.J, weight[:, None] * dense.G])
    c = np.concatenate([dense.c, weight * dense.d])
    theta, expected, _ = dense.parts(np.linalg.lstsq(J, -c, rcond=None)[0])
    np.testing.assert_allclose(step, theta, atol=1e-10)
    np.testing.assert_allclose(nodes, expected, atol=1e-10)
    missed = -(
        dense.G @ np.concatenate([theta, expected.reshape(2, -1)[0], expected.reshape(2, -1)[1]])
        + dense.d
    )
    np.testing.assert_allclose(gaps * noise, missed.reshape(gaps.shape), atol=1e-10)


def damping_rows(dense, stages, damping, input_damping):
    """What damps the dense problem: each coordinate of a node is held by the diagonal of the
    information that what follows has of it, from Schur complements of the normal equations from
    the last stage to the first; the parameters by that of all chains."""
    n_p, n_x = dense.n_p, dense.n_x
    rows, joined = [], np.zeros((n_p, n_p))
    for chain in range(dense.n_chains):
        after = np.zeros((n_x + n_p, n_x + n_p))  # of the node and the parameters
        for k in reversed(range(dense.n_stages)):
            A, B, D = (
                getattr(stages, f"next_by_{name}")[chain, k]
                for name in ("state", "input", "parameter")
            )
            C, E, F = (
                getattr(stages, f"residual_by_{name}")[chain, k]
                for name in ("state", "input", "parameter")
            )
            # From (v, x, theta) to the next node and the parameters.
            onward = np.block([[B, A, D], [np.zeros((n_p, dense.n_v + n_x)), np.eye(n_p)]])
            own = np.concatenate([E, C, F], axis=1)
            H = onward.T @ after @ onward + own.T @ own
            v, others = slice(0, dense.n_v), slice(dense.n_v, None)
            held = input_damping * np.diagonal(H[v, v])
            H[v, v] += np.diag(held)
            for place, weight in zip(dense.input(chain, k), held, strict=True):
                rows.append(np.sqrt(weight) * np.eye(dense.size)[place])
            after = H[others, others] - H[others, v] @ np.linalg.solve(H[v, v], H[v, others])
            held = damping * np.diagonal(after)[:n_x]
            after[:n_x, :n_x] += np.diag(held)
            for place, weight in zip(dense.node(chain, k), held, strict=True):
                rows.append(np.sqrt(weight) * np.eye(dense.size)[place])
        x, theta = slice(0, n_x), slice(n_x, None)
        joined += after[theta, theta] - after[theta, x] @ np.linalg.solve(
            after[x, x], after[x, theta]
        )
    for place in dense.theta:
        rows.append(np.sqrt(damping * joined[place, place]) * np.eye(dense.size)[place])
    return np.array(rows), joined


@pytest.mark.parametrize(("damping", "input_damping"), [(0.3, 0.0), (0.0, 2.0), (0.05, 0.7)])
def test_damping(damping, input_damping):
    rng = np.random.default_rng(3)
    stages = random_stages(rng, (2,), 4, 3)
    dense = Dense(stages)
    rows, _ = damping_rows(dense, stages, damping, input_damping)
    theta, nodes, inputs = dense.parts(dense.solve(rows, np.zeros(len(rows))))
    step, found, chosen, *_ = recursion(stages, damping, input_damping)
    np.testing.assert_allclose(step, theta, atol=1e-10)
    np.testing.assert_allclose(found, nodes, atol=1e-10)
    np.testing.assert_allclose(chosen, inputs, atol=1e-10)
    # It holds steps back.
    undamped = recursion(stages)[0]
    assert np.linalg.norm(step - undamped) > 1e-3


def test_the_information_of_the_parameters():
    """R^T R is the Schur complement of the parameters in the dense normal equations."""
    stages = random_stages(np.random.default_rng(4), (3,), 4, 3)
    dense = Dense(stages)
    root = recursion(stages)[3]
    _, Z = dense.free()
    covariance = Z @ np.linalg.solve((dense.J @ Z).T @ (dense.J @ Z), Z.T)
    np.testing.assert_allclose(np.tril(root, -1), 0)
    np.testing.assert_allclose(root.T @ root, np.linalg.inv(covariance[:3, :3]), rtol=1e-9)


def test_multipliers_are_those_of_the_constraints():
    """From the Karush-Kuhn-Tucker system of |J z + c|^2/2 with G z + d = 0, where the node after a
    stage stands with a minus sign."""
    stages = random_stages(np.random.default_rng(5), (2,), 4, 3)
    dense = Dense(stages)
    none = np.zeros((len(dense.d), len(dense.d)))
    system = np.block([[dense.J.T @ dense.J, dense.G.T], [dense.G, none]])
    solution = np.linalg.solve(system, -np.concatenate([dense.J.T @ dense.c, dense.d]))
    expected = solution[dense.size :].reshape(2, 4, N_X)
    _, nodes, _, _, left, shared = recursion(stages)
    np.testing.assert_allclose(gn.multipliers(left, nodes, shared), expected, atol=1e-9)


def test_a_batch_is_its_problems_one_by_one():
    """Here the code is compared with itself."""
    stages = random_stages(np.random.default_rng(6), (2, 3), 4, 3)
    both = recursion(stages, 0.1, 0.2)
    for lane in range(2):
        one = recursion(gn.Stages(*(array[lane] for array in stages)), 0.1, 0.2)
        for found, expected in zip(both[:4], one[:4], strict=True):
            np.testing.assert_allclose(found[lane], expected, atol=1e-12)


@pytest.mark.parametrize("damping", [0.0, 1e-3])
@pytest.mark.parametrize("blind", [[0], [1], [0, 2], [0, 1, 2]])
def test_parameters_without_influence_stay(blind, damping):
    """The others are found as if these were not there."""
    stages = random_stages(np.random.default_rng(7), (2,), 3, 3)
    stages.residual_by_parameter[..., blind] = 0.0
    stages.next_by_parameter[..., blind] = 0.0
    seen = [k for k in range(3) if k not in blind]
    step, nodes, inputs, *_ = recursion(stages, damping)
    np.testing.assert_array_equal(step[blind], 0.0)
    fewer = stages._replace(
        residual_by_parameter=stages.residual_by_parameter[..., seen],
        next_by_parameter=stages.next_by_parameter[..., seen],
    )
    dense = Dense(fewer)
    rows, _ = damping_rows(dense, fewer, damping, 0.0)
    theta, expected, chosen = dense.parts(dense.solve(rows, np.zeros(len(rows))))
    np.testing.assert_allclose(step[seen], theta, atol=1e-9)
    np.testing.assert_allclose(nodes, expected, atol=1e-9)
    np.testing.assert_allclose(inputs, chosen, atol=1e-9)


def test_round_off_is_no_influence():
    """Derivatives of 1e-12 of the others, of the first of three parameters, would move it by some
    1e12; it stays, and the others are found as if it was not there."""
    stages = random_stages(np.random.default_rng(10), (2,), 3, 3)
    stages.residual_by_parameter[..., 0] *= 1e-12
    stages.next_by_parameter[..., 0] *= 1e-12
    step, *_ = recursion(stages)
    fewer = stages._replace(
        residual_by_parameter=stages.residual_by_parameter[..., 1:],
        next_by_parameter=stages.next_by_parameter[..., 1:],
    )
    dense = Dense(fewer)
    np.testing.assert_allclose(step, [0.0, *dense.parts(dense.solve())[0]], atol=1e-10)


@pytest.mark.parametrize("blind", [[0], [3], [1, 2]])
def test_states_without_influence_stay(blind):
    """As the attitude of a ball whose position alone is measured: what is not seen of the first
    node is left where it is, and nothing that the data say of the rest is lost with it."""
    stages = random_stages(np.random.default_rng(8), (2,), 3, 3)
    stages.residual_by_state[..., blind] = 0.0
    # The coordinates move by themselves alone.
    stages.next_by_state[:] = np.eye(N_X)
    step, nodes, inputs, *_ = recursion(stages)
    np.testing.assert_allclose(nodes[:, 0, blind], 0.0, atol=1e-13)
    dense = Dense(stages)
    fixed = np.eye(dense.size)[[dense.node(j, 0)[k] for j in range(2) for k in blind]]
    theta, expected, chosen = dense.parts(dense.solve(fixed, np.zeros(len(fixed))))
    np.testing.assert_allclose(step, theta, atol=1e-10)
    np.testing.assert_allclose(nodes, expected, atol=1e-10)
    np.testing.assert_allclose(inputs, chosen, atol=1e-10)


@pytest.mark.parametrize("seed", range(20))
def test_columns_that_others_determine(seed):
    """Of least squares whose rank is less than the number of unknowns, in badly scaled units: the
    step is as good as the best, and of a dependent column zero."""
    rng = np.random.default_rng(seed)
    n, rank = 6, int(rng.integers(1, 6))
    known = np.sort(rng.permutation(n)[:rank])
    known[0] = 0  # so that each other column depends on ones before it
    known = np.unique(known)
    M = np.zeros((30, n))
    M[:, known] = rng.normal(size=(30, known.size))
    for column in range(n):
        if column not in known:
            before = known[known < column]
            M[:, column] = M[:, before] @ rng.normal(size=before.size)
    scale = 10.0 ** rng.uniform(-4, 4, size=n)
    c = rng.normal(size=30)
    step, root = gn.least_squares(np.column_stack([M * scale, c]), np.zeros(()))
    best = np.linalg.lstsq(M, -c, rcond=None)[0]
    np.testing.assert_allclose(M @ (scale * step), M @ best, atol=1e-11)
    others = [k for k in range(n) if k not in known]
    np.testing.assert_allclose((scale * step)[others], 0.0, atol=1e-12)
    np.testing.assert_allclose(root.T @ root / np.outer(scale, scale), M.T @ M, atol=1e-11)


@pytest.mark.parametrize("noise", [0.0, 1e-15, 1e-14, 1e-13])
def test_nothing_known_is_lost_with_states_that_others_determine(noise):
    """As the attitude of a ball of which places alone are measured, whose derivatives are zero but
    for round-off: the information of the parameters is what a pseudo-inverse of the rest gives."""
    rng = np.random.default_rng(11)
    n_x, n_p, rows = 6, 2, 8
    by_state = rng.normal(size=(rows, 3)) @ rng.normal(size=(3, n_x))
    by_parameter, constant = rng.normal(size=(rows, n_p)), rng.normal(size=rows)
    project = np.eye(rows) - by_state @ np.linalg.pinv(by_state, rcond=1e-10)
    expected = by_parameter.T @ project @ by_parameter
    by_state = by_state * (1 + noise * rng.normal(size=by_state.shape))
    parts = [array[None] for array in (by_state, by_parameter, constant)]
    *_, root = gn.join(gn.Remainder(*parts), np.zeros(()), np.inf)
    np.testing.assert_allclose(root.T @ root, expected, rtol=1e3 * noise + 1e-11)


def test_a_start_of_nan_does_not_end_the_others():
    """Lanes whose simulation failed have derivatives of NaN, beside columns of zeros."""
    stages = random_stages(np.random.default_rng(9), (3, 2), 3, 2)
    expected = recursion(gn.Stages(*(array[1:] for array in stages)))[0]
    for array in stages:
        array[0, 0, 1] = np.nan
    stages.residual_by_state[0, :, :, 1:3] = 0.0
    stages.next_by_state[0, :, :, 1:3] = 0.0
    stages.residual_by_input[0] = 0.0
    stages.next_by_input[0] = 0.0
    step, *_ = recursion(stages)
    assert np.isnan(step[0]).all()
    np.testing.assert_allclose(step[1:], expected, atol=1e-13)
