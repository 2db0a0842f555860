#!/bin/sh
# Makes the demo model and its reference data: make_demo.sh OUTPUT_DIR [STORIES [STEPS]]
# Needs a GPU, PyTorch, numpy and tokenizers. Fixed seeds.
set -e
out=$1 stories=${2:-800000} steps=${3:-10000}
here=$(dirname "$0")
work=${TMPDIR:-/tmp}/stator-demo
mkdir -p "$out" "$work"
stamp() { echo "== $(date +%T) $*"; }
stamp text
python3 "$here/make_text.py" --seed 2 --heldout 12000 --output "$out/demo-heldout.txt"
python3 "$here/make_text.py" --seed 1 --stories "$stories" --jobs "$(nproc)" --avoid "$out/demo-heldout.txt" --output "$work/text"
du -sh "$work/text"
stamp tokens
python3 "$here/make_tokens.py" "$work/text" "$out/tokenizer.json" "$work/tokens.npy"
stamp training
python3 "$here/train.py" "$work/tokens.npy" "$work/weights.pt" --steps "$steps"
stamp export
python3 "$here/export_gguf.py" "$work/weights.pt" "$out/tokenizer.json" "$out/demo.gguf"
stamp reference
python3 "$here/reference.py" "$out/demo.gguf" "$out/tokenizer.json" "$out/demo-heldout.txt" "$out"
stamp samples
python3 "$here/samples.py" "$out/demo.gguf" "$out/tokenizer.json" 12
stamp done
