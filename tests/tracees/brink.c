/* Writes from the last page of its memory on, and more than there is: the kernel takes what there is. Prints
 * a line of 4096 bytes for each round, and how much it was not told to have written. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096, ROUNDS = 60 };

int main(void) {
    char *page = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long missing = 0;
    munmap(page + PAGE, PAGE);
    for (int round = 0; round < ROUNDS; round++) {
        struct stat now;
        /* A guess may go wrong here: what is written then was never so. */
        int is_here = 1;
        for (int time = 0; time < 5; time++)
            is_here &= stat(".", &now) == 0;
        memset(page, '.', PAGE);
        snprintf(page, PAGE, "round %d %s", round, is_here ? "here" : "nowhere");
        page[strlen(page)] = '.';
        page[PAGE - 1] = '\n';
        missing += PAGE - write(1, page, 2 * PAGE);
    }
    dprintf(1, "%ld missing\n", missing);
    return 0;
}
