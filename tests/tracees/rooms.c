/* Reads from a pipe into more room than there is, by lengths that no sum holds, and then what is there. Prints
 * what the kernel has said to each. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ROUNDS = 60 };

static int answer(ssize_t got) {
    return got < 0 ? -errno : (int)got;
}

int main(void) {
    char bytes[8];
    const size_t most = SIZE_MAX / 2;
    struct iovec over[3] = {{bytes, most}, {bytes, most}, {bytes, most}};
    struct iovec negative[2] = {{bytes, sizeof bytes}, {bytes, SIZE_MAX}};
    struct iovec fits[2] = {{bytes, 3}, {bytes + 3, 5}};
    int ends[2];
    if (pipe(ends) != 0)
        return 1;
    for (int round = 0; round < ROUNDS; round++) {
        struct stat now;
        (void)!write(ends[1], "12345678", 8);
        /* A guess here makes what follows depend on it. */
        for (int time = 0; time < 5; time++)
            stat(".", &now);
        int said[3] = {answer(readv(ends[0], over, 3)), answer(readv(ends[0], negative, 2)),
                       answer(readv(ends[0], fits, 2))};
        dprintf(1, "%d %d %d\n", said[0], said[1], said[2]);
    }
    return 0;
}
