#!/usr/bin/env python3
"""Causes over combinations of attributes in public sets: F1 of sonde's search and of other methods.

    [JOBS=2] [ONLY=TEXT] causes_public.py DIR CAUSE_TABLES [SET [STEP [OFFSET]]]

DIR is a checkout of github.com/shaido987/riskloc: it has the set of RobustSpot (RS) and its own implementations of the
methods. Further sets lie in DIR/data: B0 of Squeeze (B0/ of github.com/lalaland1921/Squeeze at 6c62243e), and S, which its
generator makes (python3 generate_dataset.py --num 100 --dataset-name S --seed 121). CAUSE_TABLES is build/bench/cause_tables.
Every STEP-th table is taken, in order of their names (1), from the OFFSET-th on (0). ONLY: methods whose name contains TEXT.
Each set is a line of results/causes.jsonl.

RS counts requests and failures a minute: the minute of the anomaly is compared with the four before. B0 and S have only
sums, real and predicted: what is missing of a leaf's prediction counts as its failures, and what others have too much, as
errors of the prediction are as often, as what was usual. sonde names one cause; "again" takes its rows away and asks again, until what it names has less than 5 % of what was missing.
The rules: the one value, and the pair of values, with the largest share of what is missing that is at least half lost.
It needs NumPy, pandas, SciPy, PyYAML and Loguru; kneed is replaced by the few lines below (Satopaa et al., 2011).
"""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import copy
import importlib
import io
import itertools
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import warnings

import numpy as np
import pandas as pd

from causes_peers import MEASURES, METHODS

AGAIN, AGAIN_SHARE = 6, 0.05
NO_TABLES = ("injection_info.csv", "truth_prediction.csv")
ONLY = os.environ.get("ONLY", "")
HERE = pathlib.Path(__file__).parent


class KneeLocator:
    """The knee of a concave, increasing curve: the first local maximum of its height above the diagonal that the curve
    falls S mean distances below of."""

    def __init__(self, x, y, S=1.0, **_):  # pylint: disable=invalid-name
        x, y = np.asarray(x, float), np.asarray(y, float)
        x_n = (x - x.min()) / max(np.ptp(x), 1e-300)
        height = (y - y.min()) / max(np.ptp(y), 1e-300) - x_n
        self.knee, most, at = None, -np.inf, None
        step = S * np.abs(np.diff(x_n)).mean() if len(x) > 1 else 0
        for i, h in enumerate(height):
            peak = 0 < i < len(x) - 1 and height[i - 1] < h >= height[i + 1]
            if peak:
                most, at = h - step, i
            elif at is not None and h < most:
                self.knee = x[at]
                return


def tables_of(name):
    """Every table of a set: directory, name of the file without ending, derived."""
    folder = pathlib.Path("data") / name
    for directory in sorted({p.parent for p in folder.rglob("*.csv")}):
        files = sorted(p.stem for p in directory.glob("*.csv") if p.name not in NO_TABLES)
        yield from ((str(directory), file, name == "RS") for file in files)


def rows_of(directory, file, frame, attributes, derived):
    """As cause_tables reads them, and the dispersion where it is known from something else than periods."""
    if derived:
        utils = importlib.import_module("utils.robustspot_data_utils")
        anomaly = utils.get_rs_anomaly(directory, file)
        raw = pd.read_csv(f"{directory}/{file}.csv")
        raw["period"] = (anomaly["timestamp"] - raw["min"]) // 60
        raw = raw[(raw["period"] >= 0) & (raw["period"] <= 4)]
        return raw.assign(requests=raw["cnt"], errors=raw["value"].clip(upper=raw["cnt"]))[
            ["period", *attributes, "requests", "errors"]], 0
    off = frame["predict"] - frame["real"]
    if off.sum() < 0:
        off = -off
    scale = 1e6 / max(frame[["predict", "real"]].max(axis=1).sum(), 1e-9)
    requests = (frame[["predict", "real"]].max(axis=1) * scale).round().astype(int)
    sides = []
    for period, missing in ((0, off), (1, -off)):
        errors = (missing.clip(lower=0) * scale).round().astype(int)
        sides.append(frame[attributes].assign(period=period, requests=requests, errors=np.minimum(errors, requests)))
    noise = (-off).clip(lower=0) * scale
    rows = pd.concat(sides)
    dispersion = float((noise**2).sum() / max(noise.sum(), 1e-9))
    return rows[(rows["requests"] > 0)][["period", *attributes, "requests", "errors"]], dispersion


def ask(program, rows, dispersion, scratch):
    """What sonde names in these rows: a string, empty for nothing."""
    path = os.path.join(scratch, "table.csv")
    rows.rename(columns={"period": f"period {dispersion}"}).to_csv(path, index=False)
    return subprocess.run([program, path], check=True, capture_output=True, text=True).stdout.strip()


def beyond(rows):
    """Errors beyond the share that was usual."""
    now, before = rows[rows["period"] == 0], rows[rows["period"] > 0]
    return now["errors"].sum() - now["requests"].sum() * before["errors"].sum() / max(before["requests"].sum(), 1)


def ours(program, rows, dispersion, scratch, times):
    named, rows, missing = [], rows.copy(), beyond(rows)
    while len(named) < times and len(rows):
        cause = ask(program, rows, dispersion, scratch)
        if not cause:
            break
        within = np.ones(len(rows), bool)
        for pair in cause.split("&"):
            key, value = pair.split("=", 1)
            within &= (rows[key].astype(str) == value).to_numpy()
        if named and beyond(rows[within]) < AGAIN_SHARE * missing:
            break
        named.append(cause)
        rows = rows[~within]
    return named


def rule(rows, attributes, length):
    """The one combination of so many values with the most failures, of those that mostly fail beyond what was usual."""
    best, most = "", 0
    share = rows.loc[rows["period"] > 0, "errors"].sum() / max(rows.loc[rows["period"] > 0, "requests"].sum(), 1)
    now = rows[rows["period"] == 0]
    for keys in itertools.combinations(attributes, length):
        for values, part in now.groupby(list(keys)):
            beyond = part["errors"].sum() - share * part["requests"].sum()
            if beyond > most and beyond >= 0.5 * (1 - share) * part["requests"].sum():
                most = beyond
                values = values if isinstance(values, tuple) else (values,)
                best = "&".join(f"{k}={v}" for k, v in zip(keys, values))
    return [best] if best else []


def judge_table(program, directory, file, derived):
    """What each method has right, wrong and missed in one table, and whether it gave up."""
    run_utils, evaluation = importlib.import_module("utils.run_utils"), importlib.import_module("utils.evaluation")
    frame, attributes, _, _ = run_utils.read_dataframe(directory, file, derived, derived)
    attributes = sorted(a for a in attributes if a not in MEASURES)
    label = run_utils.get_label(directory, file, derived)
    rows, dispersion = rows_of(directory, file, frame, attributes, derived)
    scores = {}

    def score(method, named, gave_up=0):
        named = np.unique(["&".join(sorted(n.split("&"))) for n in named]) if len(named) else []
        if ONLY in method:
            scores[method] = (*evaluation.score_root_causes(named, label)[:3], gave_up)

    with tempfile.TemporaryDirectory() as scratch:
        again = ours(program, rows, dispersion, scratch, AGAIN)
    score("sonde", again[:1])
    score("sonde, again", again)
    score("rule: one value", rule(rows, attributes, 1))
    score("rule: two values", rule(rows, attributes, 2))
    for method, (module, function, options) in METHODS.items():
        if ONLY not in method:
            continue
        options = {k: derived if k == "derived" else v for k, v in options.items()}
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                answer = getattr(importlib.import_module(module), function)(copy.deepcopy(frame), list(attributes), **options)
                score(method, evaluation.root_cause_postprocessing(answer, method.split(",", maxsplit=1)[0]))
        except Exception:  # pylint: disable=broad-except  (it gives up: nothing is named)
            score(method, [], 1)
    return scores


def prepare(root):
    """In every process: where the methods are, and without what Debian lacks."""
    warnings.simplefilter("ignore")
    sys.modules["kneed"] = types.SimpleNamespace(KneeLocator=KneeLocator)
    sys.path.insert(0, root)
    os.chdir(root)
    importlib.import_module("loguru").logger.remove()


def main():
    root, program, *rest = sys.argv[1:]
    root, program, sets = os.path.abspath(root), os.path.abspath(program), rest[:1] or ["RS", "B0", "S"]
    step, offset = (int(x) for x in (rest[1:3] + ["1", "0"][len(rest[1:3]):]))
    results = os.path.abspath(HERE / "results" / "causes.jsonl")
    commit = subprocess.run(["git", "-C", str(HERE.absolute()), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    prepare(root)
    with multiprocessing.Pool(int(os.environ.get("JOBS", "2")), prepare, (root,)) as pool:
        for name in sets:
            tables = [(program, *table) for table in tables_of(name)][offset::step]
            sums = {}
            for scores in pool.starmap(judge_table, tables, chunksize=1):
                for method, one in scores.items():
                    sums[method] = [a + b for a, b in zip(sums.get(method, (0, 0, 0, 0)), one)]
            line = {"commit": commit, "set": name, "tables": len(tables), "step": step, "offset": offset, "methods": {}}
            for method, (right, wrong, missed, gave_up) in sums.items():
                f1 = 2 * right / max(2 * right + wrong + missed, 1)
                line["methods"][method] = {"f1": round(f1, 3), "right": right, "wrong": wrong, "missed": missed, "gave_up": gave_up}
                print(f"{name}, {len(tables)} tables: {method}: F1 {f1:.3f} ({right} right, {wrong} wrong, {missed} missed{f', gave up on {gave_up}' if gave_up else ''})", flush=True)
            with open(results, "a", encoding="utf-8") as out:
                out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
