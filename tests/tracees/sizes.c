/* Cuts and extends a file whenever it reads less than there is, which never happens, and then uses it in ways
 * for which the kernel does not ask how long it is. Prints "sizes ok". */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "wrong.h"

enum { LENGTH = 12288, ROUNDS = 40 };

static char bytes[LENGTH];

int main(void) {
    memset(bytes, 'x', sizeof bytes);
    int other = open_other();
    for (int round = 0; round < ROUNDS; round++) {
        unlink("file");
        int file = open("file", O_CREAT | O_RDWR, 0600);
        (void)!write(file, bytes, LENGTH);
        volatile char *mapped = mmap(0, LENGTH, PROT_READ, MAP_PRIVATE, file, 0);
        int copy = open("copy", O_CREAT | O_RDWR | O_TRUNC, 0600);
        struct iovec end = {"END", 3};
        off_t from = 0;
        if (is_wrong(other))
            (void)!(round % 2 ? ftruncate(file, 0) : pwrite(file, bytes, 5000, 20000));
        check(round, "a byte of the map", mapped[5000], 'x');
        check(round, "sendfile", sendfile(copy, file, &from, LENGTH), LENGTH);
        check(round, "append", pwritev2(file, &end, 1, -1, RWF_APPEND), 3);
        struct stat now;
        fstat(file, &now);
        check(round, "size", now.st_size, LENGTH + 3);
        munmap((void *)mapped, LENGTH);
        close(copy);
        close(file);
    }
    return checked("sizes ok");
}
