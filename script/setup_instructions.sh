#!/bin/bash
# Installs what counts instructions (bench/instructions.sh).
cd "$(dirname "$0")/.." && script/setup.sh valgrind
