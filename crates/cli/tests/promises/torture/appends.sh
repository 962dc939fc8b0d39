# Somebody appends to a file while its writer goes back, or copies another one.
echo base >base
for n in 1 2 3 4 5 6 7 8; do
    echo one $n >f
    (sleep 0.005; echo other $n >>f) &
    cp base g
    mv g h
    ls >list
    wait
    cat f list
done
