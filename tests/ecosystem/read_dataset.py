"""Reads an exported directory as other people do: `read_dataset.py DIRECTORY` prints what `datasets` finds in it."""

import json
import sys

import datasets

found = {}
for split, rows in datasets.load_dataset(sys.argv[1]).items():
    found[split] = [
        {
            "id": row["id"],
            "tags": row["tags"],
            "inputs": row["test_input"],
            "programs": row["reference_program"],
            "duration_s": row["duration_s"],
        }
        for row in rows
    ]
print(json.dumps(found))
