#!/bin/bash
# llama-server's own API: /completion, and /infill for a model with tokens for filling in (tests/clients/llama_client.py).
. tests/lib.sh
. tests/serving.sh
client_file=tests/clients/llama_client.py

test_completion() {
    need_python
    serve memory.context=512 memory.sequences=2
    client completion
    ends
}

test_slots() {
    need_python
    serve memory.context=512 memory.sequences=2 "cache.kv_dir=\"$tmp/kv\""
    client slots
    ends
}

test_infill() {
    need_python
    script 'return ' 'a + b' '+<|fim_prefix|>' '+<|fim_suffix|>' '+<|fim_middle|>' '+<|repo_name|>' '+<|file_sep|>'
    client infill 1024
    ends
}

run_tests
