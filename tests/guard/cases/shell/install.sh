#!/bin/bash
set -e
# pip install torch==2.4.0
python3 -m pip install --upgrade pip
uv pip install torch==2.4.0
conda install -y cudatoolkit=11.8
