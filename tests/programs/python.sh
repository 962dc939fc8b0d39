#!/bin/sh
# Python's own tests of what is hard for a process that goes back: signals, threads, subprocesses, maps, sockets. Each
# test of the module MODULE has to end as it does plainly; how long it takes is not told.
#
#     python.sh MODULE [prepare]
set -eu
module=$1

# Those that need no network and little time.
case $module in
    # The same tests as others, without `poll`.
    test_subprocess) chosen="-i *NoPoll*" ;;
    test_mmap) chosen="-i *Large*" ;;
    test_socket) chosen="-m *Unix*" ;;
    test_asyncio)
        chosen=
        for part in subprocess unix_events streams sock_lowlevel locks queues server threads runners; do
            chosen="$chosen -m test.test_asyncio.test_$part.*"
        done
        ;;
    *) chosen= ;;
esac

[ "${2-}" != prepare ] || {
    for python in "$(python3 -c 'import sys; print(sys.executable)' || true)" /usr/bin/python3; do
        if "$python" -c 'import test.test_subprocess' 2>/dev/null; then
            echo "$python" >python
            exit 0
        fi
    done
    echo "no python3 here has the package test (Debian: libpython3.11-testsuite)"
    exit 77
}

python=$(cat python)
set -f
# shellcheck disable=SC2086 # one word a pattern
"$python" -m test --junit-xml results.xml "$module" $chosen >told 2>&1 || echo "status $?"
[ -e results.xml ] || { cat told && exit 1; }
"$python" - <<'END' | sort
from xml.etree import ElementTree
for case in ElementTree.parse("results.xml").getroot().iter("testcase"):
    for outcome in case.findall("skipped") + case.findall("failure") + case.findall("error"):
        # The last line of a failure says what was raised.
        print(case.get("name"), outcome.tag, *(outcome.text or "").strip().split("\n")[-1:])
        break
    else:
        print(case.get("name"), "ok")
END
# They have times in them.
rm results.xml told
