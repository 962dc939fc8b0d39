#!/bin/sh
# zlib, configured and built by `make -j2` from its source, and its tests. Several jobs print in any order, so lines are sorted.
set -eu
[ "${1-}" != prepare ] || {
    root=$(cd "$(dirname "$0")/../.." && pwd)
    for program in make cc ar; do
        command -v "$program" >/dev/null || { echo "there is no $program here" && exit 77; }
    done
    source="$root/target/sources/zlib"
    "$root/scripts/fetch-source" zlib "$source" >&2 || { echo "no source of zlib to be had" && exit 77; }
    cp -R "$source/." .
    exit 0
}

./configure 2>&1 | sort
make -j2 2>&1 | sort
make -s test 2>&1 | sort
# It has numbers of processes in it.
rm configure.log
