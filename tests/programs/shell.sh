#!/bin/sh
# What shell scripts do: pipes, traps, subshells, `$(...)`, here-documents, background jobs, functions, descriptors.
# The script checks itself, and what it prints is the same each time: no numbers of processes, no times.
set -eu
[ "${1-}" != prepare ] || exit 0

checks=0

# same NAME WANTED GOT: goes on where both are alike.
same() {
    checks=$((checks + 1))
    if [ "$2" != "$3" ]; then
        printf 'FAILED %s: wanted <%s>, got <%s>\n' "$1" "$2" "$3"
        exit 1
    fi
    printf 'ok %s\n' "$1"
}

# --- functions, arithmetic, parameters -----------------------------------------------------------

greatest_divisor() {
    if [ "$2" -eq 0 ]; then
        echo "$1"
    else
        greatest_divisor "$2" $(($1 % $2))
    fi
}

factorial() {
    if [ "$1" -le 1 ]; then echo 1; else echo $(($1 * $(factorial $(($1 - 1))))); fi
}

kind() {
    case $1 in
        *.tar.gz | *.tgz) echo archive ;;
        [0-9]*) echo number ;;
        '') echo empty ;;
        *) echo word ;;
    esac
}

same divisor 21 "$(greatest_divisor 1071 462)"
same factorial 5040 "$(factorial 7)"
same arithmetic 42 $(((3 + 4) * (10 - 4) | 0))
same kinds 'archive number empty word' "$(kind a.tgz) $(kind 7z) $(kind '') $(kind x)"
path=usr/share/doc/readme.txt
same parameters 'readme.txt usr/share/doc txt fallback' "${path##*/} ${path%/*} ${path##*.} ${unset_name:-fallback}"
set -- one 'two words' three
same arguments '3 two words' "$# $2"
shift
same shifted 'two words,three,' "$(printf '%s,' "$@")"

# --- files and here-documents --------------------------------------------------------------------

mkdir -p data
who=reader
cat >data/letter <<END
Dear $who,
$((6 * 7)) is $(printf 'the %s' answer).
END
cat >data/verbatim <<'END'
$who $(not run) `nor this`
END
same here 'Dear reader,|42 is the answer.' "$(paste -s -d '|' data/letter)"
# shellcheck disable=SC2016 # what a quoted here-document keeps as it is
same verbatim '$who $(not run) `nor this`' "$(cat data/verbatim)"

number=0
while [ "$number" -lt 20 ]; do
    number=$((number + 1))
    printf '%d %d\n' "$number" $((number * number)) >>data/squares
done
sum=0
while read -r _ square; do sum=$((sum + square)); done <data/squares
same squares 2870 "$sum"

# --- pipes ---------------------------------------------------------------------------------------

same pipeline '20 400' "$(sort -rn data/squares | head -n 1)"
same filter 10 "$(awk '$1 % 2 == 0' data/squares | wc -l | tr -d ' ')"
same long 508a2 "$(seq 1 2000 | sed 's/$/ line/' | tr -d ' ' | cksum | cut -d ' ' -f 1 | xargs printf '%x\n' | cut -c 1-5)"
same statuses 3 "$(false | (cat && exit 3) || echo $?)"
# The writer of a pipe whose reader has gone is told so.
same broken y "$(yes | head -n 1)"
seq 1 50 | tee data/copy | awk '{ sum += $1 } END { print sum }' >data/sum
same tee "1275 50" "$(cat data/sum) $(wc -l <data/copy | tr -d ' ')"
mkfifo data/fifo
seq 1 5 >data/fifo &
same fifo '1 2 3 4 5' "$(paste -s -d ' ' <data/fifo)"
wait

# --- subshells -----------------------------------------------------------------------------------

outer=kept
(
    outer=changed
    cd data
    echo "$outer" >inner
)
same subshell 'kept changed' "$outer $(cat data/inner)"
same nested deep "$(echo "$(echo "$(echo deep)")")"
same 'exit of a subshell' 7 "$( (exit 7) || echo $?)"
same group 'a b' "$({ echo a; echo b; } | paste -s -d ' ')"

# --- background jobs -----------------------------------------------------------------------------

jobs_done() {
    for job in 1 2 3 4; do
        (
            mkdir "data/job$job"
            seq 1 $((job * 100)) | wc -l | tr -d ' ' >"data/job$job/lines"
            exit $((job * 10))
        ) &
        eval "job$job=$!"
    done
    told=
    for job in 1 2 3 4; do
        eval "process=\$job$job"
        status=0
        # shellcheck disable=SC2154 # set by eval
        wait "$process" || status=$?
        told="$told $status"
    done
    echo "$told $(cat data/job1/lines data/job2/lines data/job3/lines data/job4/lines | paste -s -d ' ')"
}
same jobs ' 10 20 30 40 100 200 300 400' "$(jobs_done)"

# Jobs that append to one file: no line is lost and none is torn.
for job in a b c; do
    (
        line=0
        while [ "$line" -lt 15 ]; do
            echo "$job $line" >>data/shared
            line=$((line + 1))
        done
    ) &
done
wait
same shared '15 a,15 b,15 c' "$(cut -d ' ' -f 1 data/shared | sort | uniq -c | sed 's/^ *//' | paste -s -d ,)"

# One job makes what another waits for.
(while [ ! -e data/ready ]; do sleep 0.01; done && cat data/ready) >data/seen &
echo now >data/making
mv data/making data/ready
wait $!
same handed now "$(cat data/seen)"

# --- traps and signals ---------------------------------------------------------------------------

(
    trap 'echo "left with $?" >>data/trapped' EXIT
    trap 'echo "told" >>data/trapped; exit 5' TERM
    # The shell finds its own number so: $$ is that of the script.
    sh -c 'kill -TERM $PPID'
    sleep 5
) || echo "status $?" >>data/trapped
same trap 'told,left with 5,status 5' "$(paste -s -d , data/trapped)"

sh -c 'trap "" INT; kill -INT $$; echo survived' >data/ignored
same ignored survived "$(cat data/ignored)"
status=0
{ sh -c 'kill -KILL $$' || status=$?; } 2>data/killed
same killed 137 "$status"

# Whether the shell says on standard error that the job was ended is a matter of time.
sleep 100 &
kill $!
status=0
{ wait $! || status=$?; } 2>/dev/null
same 'killed job' 143 "$status"

counted=0
trap 'counted=$((counted + 1))' USR1
for _ in 1 2 3; do kill -USR1 $$; done
trap - USR1
same counted 3 "$counted"

# --- descriptors ---------------------------------------------------------------------------------

exec 3>data/three 4<data/squares
echo first >&3
read -r line <&4
echo "$line" >&3
read -r line <&4
(echo "inside $line" >&3)
exec 3>&- 4<&-
same descriptors 'first,1 1,inside 2 4' "$(paste -s -d , data/three)"
{ echo out; echo err >&2; } >data/out 2>data/err
same apart 'out err' "$(cat data/out) $(cat data/err)"
same swapped err "$({ { echo out; echo err >&2; } 3>&1 1>/dev/null 2>&3; })"
same closed failed "$( (echo lost >&9) 2>/dev/null || echo failed)"

# --- set -e, and names of files ------------------------------------------------------------------

same strict 'before 1' "$(sh -ec 'echo before; false; echo after' | tr '\n' ' ')$(sh -ec 'false; true' && echo 0 || echo $?)"
touch 'data/a name' data/b.txt data/c.txt
same glob 'data/b.txt data/c.txt' "$(echo data/*.txt)"
ln -s b.txt data/link && ln data/c.txt data/hard
same links 'b.txt 2' "$(readlink data/link) $(find data/hard -printf '%n')"
chmod 640 data/b.txt
# What some shells say of the killed process has its number.
rm -r data/job1 data/job2 data/killed
# Its lines are in the order in which the jobs wrote them.
sort -o data/shared data/shared
find data -name 'job*' | sort
echo "$checks checks"
