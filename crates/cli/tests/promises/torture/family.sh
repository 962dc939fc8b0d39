# Subshells, jobs and what they end with. Each looks at names first, of which some are not there: so often that it is not taken
# for a process that is about to execute a program.
look() {
    for turn in 1 2 3 4 5; do
        for file in /etc/p* /usr/l* /none/$1; do test -e "$file"; done
    done
}
for n in 1 2 3; do
    (look $n; echo "subshell $n"; exit $n)
    echo "status $?"
    ( (look $n; exit 9); echo "inner $?"; exit 8)
    echo "outer $?"
done
(look a; exit 3) & first=$!
(look b; exit 4) & second=$!
wait $second; echo "second $?"
wait $first; echo "first $?"
told=$(look c; echo hello; exit 5); echo "$told $?"
{ (look d; kill -9 $(exec sh -c 'echo $PPID')); } 2>/dev/null
echo "killed $?"
trap 'echo trap' CHLD
(look e; exit 6); echo "last $?"
wait; echo "none $?"
