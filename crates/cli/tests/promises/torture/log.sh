# A shell and those that it starts append to one file that they all have open, in any order. No line is lost, and there is nothing
# between lines.
exec 5>>log
for line in 1 2 3 4 5 6 7 8 9 10; do
    (
        test -e . && echo "child $line" >&5
        test -e missing || echo "more of child $line" >&5
    ) &
    # Where a file is believed to be missing, a line is written and undone. The others that have the log open know nothing of it.
    (for file in log . .. /; do test -e $file || echo "never $line" >>log; done) 5>&- &
    for part in 1 2 3 4 5 6; do
        echo "parent $line, part $part" >&5
        read nothing </dev/null
    done
    test -e . && sh -c 'test -e . && echo "program $1" >&5' sh $line
    echo "parent again $line" >&5
    (test -e . && ls missing 2>&5)
    wait
    wc -l <log
done
exec 5>&-
sort log
tr -d '\n[:print:]' <log | wc -c
rm log
