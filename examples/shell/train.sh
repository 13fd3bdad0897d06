#!/bin/sh
# Train logistic regression on two wines, with awk: train.sh RATE PENALTY BATCH ROUNDS SEED
# Each round goes through the data once. The state is a line of text, so a killed script goes on from it.
set -eu
rate=$1 penalty=$2 batch=$3 rounds=$4 seed=$5
kept=${PLAT_CHECKPOINT_DIR:-.}/state.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The data: a label and two standardised features a line, in an order that the seed decides. The last 40 are held out.
python - "$seed" > "$work/wine.txt" <<'END'
import random, statistics, sys
from sklearn.datasets import load_wine
wine = load_wine()
rows = [(int(kind), *row[:2]) for row, kind in zip(wine.data, wine.target) if kind < 2]
columns = list(zip(*rows))[1:]
middle, spread = [statistics.mean(c) for c in columns], [statistics.stdev(c) for c in columns]
random.Random(int(sys.argv[1])).shuffle(rows)
for kind, *row in rows:
    print(kind, *[repr(float((x - m) / s)) for x, m, s in zip(row, middle, spread)])
END

state="0 0 0 0" # rounds done, bias, two weights
if [ -f "$kept" ]; then state=$(cat "$kept"); fi
rounds_done=${state%% *}
while [ "$rounds_done" -lt "$rounds" ]; do
  awk -v state="$state" -v rate="$rate" -v penalty="$penalty" -v batch="$batch" -v new="$work/state.txt" '
    function probability() { return 1 / (1 + exp(-(b + w1 * $2 + w2 * $3))) }
    BEGIN { split(state, part, " "); round = part[1] + 1; b = part[2]; w1 = part[3]; w2 = part[4] }
    NR <= 90 {
      error = $1 - probability(); db += error; d1 += error * $2; d2 += error * $3
      if (NR % batch == 0 || NR == 90) {
        b += rate * db / batch; w1 += rate * (d1 / batch - penalty * w1); w2 += rate * (d2 / batch - penalty * w2)
        db = d1 = d2 = 0
      }
    }
    NR > 90 { p = probability(); right += (p > 0.5) == $1; loss -= log($1 ? p : 1 - p); count++ }
    END {
      printf "{\"step\": %d, \"loss\": %.17g, \"accuracy\": %.17g}\n", round, loss / count, right / count
      printf "%d %.17g %.17g %.17g\n", round, b, w1, w2 > new
    }' "$work/wine.txt"
  state=$(cat "$work/state.txt")
  rounds_done=${state%% *}
  if [ $((rounds_done % 200)) -eq 0 ]; then cp "$work/state.txt" "$kept.part" && mv "$kept.part" "$kept"; fi
done
