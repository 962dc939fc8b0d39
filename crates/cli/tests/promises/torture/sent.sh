# A script is sent signals by its subshells and by itself, and sends them to those.
got=0
trap 'got=$((got + 1))' USR1
n=0
while test $n -lt 6; do
    test -e .
    (test -e .; kill -USR1 $$; test -e other || exit $n)
    echo "$n ended with $?"
    kill -USR1 $$
    kill -0 $$ && echo "$n: $got"
    n=$((n + 1))
done
# It is told to end while it looks around or sleeps.
for n in 3 4 5; do
    (trap "exit $n" TERM; : > ready$n; while :; do test -e .; sleep 0.01; done) &
    until test -e ready$n; do sleep 0.01; done
    kill -TERM $!
    wait $!
    echo "told to end with $?"
done
