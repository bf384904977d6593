"""Writes the fixtures: models of XGBoost and scikit-learn, and what they predict there.

With Debian's python3-sklearn and python3-xgboost: python3 make.py
"""
import json
import math

import numpy as np
import xgboost as xgb
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor, RandomForestRegressor

NAMES = ["cpu", "memory", "load"]


# The exporter of docs/models.md.
def export(model, names):
    def tree(t):
        t = t.tree_
        return {"left": t.children_left.tolist(), "right": t.children_right.tolist(), "feature": t.feature.tolist(),
                "threshold": t.threshold.tolist(), "value": t.value[:, 0, 0].tolist()}
    boosted = hasattr(model, "init_")
    trees = [tree(e) for e in np.ravel(model.estimators_)]
    return {"format": "sklearn-trees", "features": names, "trees": trees, "mean": not boosted,
            "rate": model.learning_rate if boosted else 1.0,
            "base": float(model.init_.constant_[0][0]) if boosted else 0.0}


def rows(seed, count):
    rng = np.random.RandomState(seed)
    x = rng.uniform(0, 1, (count, 3))
    x[:, 1] *= 1e9
    return x


def target(x):
    return 0.05 + 0.02 / (1.05 - x[:, 0]) + 1e-11 * x[:, 1] + np.where(x[:, 2] > 0.5, 0.01, 0)


def listed(x):
    return [[None if math.isnan(v) else v for v in row] for row in x.tolist()]


def keep(name, model, x, y):
    with open(name + ".json", "w") as f:
        json.dump(model, f)
    with open(name + ".predictions.json", "w") as f:
        json.dump({"x": listed(x), "y": [float(v) for v in y]}, f)


x, later = rows(1, 300), rows(2, 40)
y = target(x)
# Rows on the thresholds themselves tell "not above" from "below".
for name, model in {
    "sklearn-forest": RandomForestRegressor(5, max_depth=4, random_state=1),
    "sklearn-extra": ExtraTreesRegressor(5, max_depth=4, random_state=2),
    "sklearn-boosting": GradientBoostingRegressor(n_estimators=8, max_depth=3, random_state=3),
}.items():
    model.fit(x, y)
    edge = later.copy()
    t = np.ravel(model.estimators_)[0].tree_
    edge[:5, t.feature[0]] = t.threshold[0]
    keep(name, export(model, NAMES), edge, model.predict(edge))

holes = x.copy()
holes[::7, 0] = np.nan
asked = later.copy()
asked[::5, 0] = np.nan
asked[1::5, 2] = np.nan
for name, params, label in [
    ("xgboost-squared", {"objective": "reg:squarederror"}, y),
    ("xgboost-forest", {"objective": "reg:squarederror", "base_score": 0.1, "num_parallel_tree": 4, "subsample": 0.7, "colsample_bynode": 0.7, "eta": 1}, y),
    ("xgboost-poisson", {"objective": "count:poisson", "max_delta_step": 5}, np.round(2000 * (y - 0.06))),
    ("xgboost-logistic", {"objective": "binary:logistic", "base_score": 0.3}, (y > np.median(y)).astype(float)),
]:
    rounds = 1 if "num_parallel_tree" in params else 8
    data = xgb.DMatrix(holes, label=label, feature_names=NAMES if name != "xgboost-poisson" else None)
    b = xgb.train({"max_depth": 3, "seed": 4, "nthread": 1, **params}, data, rounds)
    b.save_model(name + ".json")
    edge = asked.copy()
    first = json.load(open(name + ".json"))["learner"]["gradient_booster"]["model"]["trees"][0]
    edge[2:5, first["split_indices"][0]] = np.float32(first["split_conditions"][0])
    p = b.predict(xgb.DMatrix(edge, feature_names=NAMES if name != "xgboost-poisson" else None))
    keep(name, json.load(open(name + ".json")), edge, p)
