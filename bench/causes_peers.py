#!/usr/bin/env python3
"""What other methods name as the cause, of the data sets that causes.mjs makes: run by it.

    causes_peers.py DIR LIST

DIR is a checkout of github.com/shaido987/riskloc, which has RiskLoc and its own implementations of AutoRoot,
Adtributor, recursive Adtributor and RobustSpot; it needs Python with NumPy, pandas and SciPy (RobustSpot also kneed
and Loguru). LIST is a JSON file: [{"file": table, "truth": "key=value&key=value"}, ...]; nothing was planted where truth is empty. A table has a row for each
combination of attribute values: requests and good ones (or the sum of their latencies), real and predicted.
Prints a JSON object: {method: {"exact": n, "named": n} or {"error": why}}.
"""
# SPDX-License-Identifier: Apache-2.0
import contextlib
import copy
import importlib
import io
import json
import sys
import warnings

import pandas as pd

# As in the repository's own runs: its defaults.
METHODS = {
    "riskloc": ("algorithms.riskloc", "riskloc", {"derived": True, "risk_threshold": 0.5, "pep_threshold": 0.02}),
    "autoroot": ("algorithms.autoroot", "autoroot", {"delta_threshold": 0.25}),
    "adtributor": ("algorithms.adtributor", "adtributor", {"derived": True, "teep": 0.1, "tep": 0.1, "k": 3}),
    "r_adtributor": ("algorithms.rev_rec_adtributor", "rev_rec_adtributor", {"derived": True, "teep": 0.2, "k": 3}),
    "robustspot": ("algorithms.robustspot.robustspot", "robustspot", {"derived": True, "k": 3}),
    "robustspot, first only": ("algorithms.robustspot.robustspot", "robustspot", {"derived": True, "k": 1}),
}
MEASURES = {"real", "predict", "real_a", "predict_a", "real_b", "predict_b"}


def main():
    directory, table_list = sys.argv[1:]
    sys.path.insert(0, directory)
    warnings.simplefilter("ignore")
    postprocess = importlib.import_module("utils.evaluation").root_cause_postprocessing
    with open(table_list, encoding="utf-8") as file:
        tables = json.load(file)
    answers = {}
    for name, (module, function, options) in METHODS.items():
        try:
            method = getattr(importlib.import_module(module), function)
        except ImportError as error:
            answers[name] = {"error": str(error)}
            continue
        answer = {"exact": 0, "named": 0, "failed": 0}
        for table in tables:
            frame = pd.read_csv(table["file"])
            frame["real"] = frame["real_a"] / frame["real_b"]
            frame["predict"] = frame["predict_a"] / frame["predict_b"]
            frame = frame.fillna(0.0)
            attributes = sorted(column for column in frame.columns if column not in MEASURES)
            try:
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    named = set(postprocess(copy.deepcopy(method(frame, attributes, **options)), name.split(",")[0]))
            except Exception:  # pylint: disable=broad-except  (it gives up: nothing is named)
                answer["failed"] += 1
                continue
            truth = "&".join(sorted(table["truth"].split("&")))
            answer["exact"] += truth in named
            answer["named"] += len(named)
        answers[name] = answer
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
