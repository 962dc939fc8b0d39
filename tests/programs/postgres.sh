#!/bin/sh
# PostgreSQL's `initdb`, and two commands to what it made. It refuses to run as root: there it runs as `nobody`.
set -eu

# Debian has several versions side by side, none of them in the search path.
for directory in /usr/lib/postgresql/*/bin; do programs=$directory; done
if command -v initdb >/dev/null; then programs=$(dirname "$(command -v initdb)"); fi

[ "${1-}" != prepare ] || {
    [ -x "$programs/initdb" ] || { echo "there is no initdb here (package postgresql)" && exit 77; }
    [ "$(id -u)" != 0 ] || chown nobody .
    exit 0
}

if [ "$(id -u)" = 0 ]; then
    exec setpriv --reuid nobody --regid nogroup --clear-groups -- sh "$0"
fi

PATH=$programs:$PATH
export HOME="$PWD" PGTZ=UTC
# How many connections and buffers it finds the machine to have room for, depends on what else runs there.
initdb -D data -A trust -U owner --locale=C -E UTF8 >told 2>&1 || { cat told && exit 1; }
grep -e '^creating' -e '^running' -e '^performing' -e '^Success' told
rm told

# single COMMAND: by a server without any other process.
single() { echo "$1" | postgres --single -j -D data postgres 2>&1 | sed -n '/^[[:blank:]]/p'; }
single 'create table numbers as select n, n * n as square from generate_series(1, 1000) n;' >/dev/null
single 'select count(*), sum(square) from numbers;'
single 'select count(*) > 300 as many from pg_class;'

# These have times, and numbers made from them, in them.
rm data/global/pg_control data/pg_stat/pgstat.stat data/pg_wal/0*
