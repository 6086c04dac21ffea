#!/usr/bin/env bash
# Build the wheel and the sdist, install the wheel and a foreign package of checks into a new
# environment, and use both from a folder that has nothing of the source tree.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=(pip install -qq --disable-pip-version-check)

"$root/.venv/bin/pip" wheel -qq --disable-pip-version-check --no-deps -w "$folder/dist" "$root"
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/${pip[0]}" "${pip[@]:1}" "$folder"/dist/musadoctor-*.whl "$root/tests/third_party"
cd "$folder"
PATH=$folder/env/bin:$PATH

unset VIRTUAL_ENV
musadoctor --version
python -m musadoctor --version
python - <<'EOF'
import importlib.util, pathlib, musadoctor
assert importlib.util.find_spec("checks") is None, "a top-level `checks` was installed"
assert "site-packages" in musadoctor.__file__
files = {p.name for p in pathlib.Path(musadoctor.__file__).parent.rglob("*")}
assert {"py.typed", "products.toml"} <= files, files
EOF
musadoctor list | grep -q 'rack-upside-down'
musadoctor explain rack-upside-down | grep -q 'gravity'
code=0
musadoctor --json >report.json || code=$?
python - "$code" <<'EOF'
import json, sys
report = json.load(open("report.json"))
ids = {result["id"] for result in report["results"]}
assert len(ids) > 40 and "rack-upside-down" in ids, sorted(ids)
assert report["bugs"] == [], report["bugs"]
assert int(sys.argv[1]) in {0, 1, 3}, sys.argv
print(f"{len(ids)} checks, verdict {report['verdict']}, causes {report['causes']}")
EOF
code=0
musadoctor >report.txt 2>errors.txt || code=$?
cat report.txt
test "$code" -le 3
test ! -s errors.txt
musadoctor capture -o host.json
musadoctor --recording host.json --json >replayed.json || true
python - <<'EOF'
import json
here, there = (json.load(open(name)) for name in ("report.json", "replayed.json"))
assert there["causes"] == here["causes"], (there["causes"], here["causes"])
EOF
echo "the wheel works outside of the tree"
