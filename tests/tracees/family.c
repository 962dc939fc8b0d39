/* Bears processes, some of which bear others, and waits for them, so many times. Each checks that its memory is as it
 * was at its birth, and what its parent has written since is not there. Their parent checks that it gets back those
 * that it has borne, with their status, and is told of no other: prints "family ok". */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 48, SIZE = 4096, CHILDREN = 3 };

static unsigned char pages[PAGES][SIZE];
static volatile sig_atomic_t told;

static void hear(int signal) { told += signal == SIGCHLD; }

static void fail(const char *what) {
    printf("%d: %s: %s\n", getpid(), what, strerror(errno));
    fflush(stdout);
    _exit(99);
}

static unsigned char wanted(int page, int turn) { return page * 7 + turn; }

static void write_all(int turn) {
    for (int page = 0; page < PAGES; page++)
        pages[page][page] = wanted(page, turn);
}

static void check_all(int turn) {
    for (int page = 0; page < PAGES; page++)
        if (pages[page][page] != wanted(page, turn))
            fail("a page");
}

/* Calls of which the results are guessed. */
static void look(int times) {
    struct stat stat;
    for (int time = 0; time < times; time++) {
        lstat("/usr", &stat);
        access("/nothing/here", R_OK);
    }
}

static int child(int turn, int number) {
    check_all(turn);
    for (int page = number; page < PAGES; page += 3)
        pages[page][page + 1] = turn;
    look(turn % 80);
    if (number == 1) {
        int status;
        pid_t grandchild = fork();
        if (grandchild == 0) {
            check_all(turn);
            _exit(turn % 50);
        }
        if (grandchild < 0 || waitpid(grandchild, &status, 0) != grandchild)
            fail("a grandchild");
        if (WEXITSTATUS(status) != turn % 50)
            fail("its status");
    }
    check_all(turn);
    for (int page = number; page < PAGES; page += 3)
        if (pages[page][page + 1] != (unsigned char)turn)
            fail("a page that it wrote");
    return (turn + number) % 90;
}

int main(int count, char **arguments) {
    int turns = count > 1 ? atoi(arguments[1]) : 10;
    struct sigaction action = {.sa_handler = hear, .sa_flags = SA_RESTART};
    sigaction(SIGCHLD, &action, 0);
    for (int turn = 0; turn < turns; turn++) {
        pid_t children[CHILDREN];
        write_all(turn);
        told = 0;
        for (int number = 0; number < CHILDREN; number++) {
            look(2);
            children[number] = fork();
            if (children[number] == 0)
                _exit(child(turn, number));
            if (children[number] < 0)
                fail("fork");
            look(1);
            pages[number][SIZE - 1] = number;
        }
        for (int waited = 0; waited < CHILDREN; waited++) {
            int status, found = -1;
            pid_t ended = waitpid(-1, &status, 0);
            for (int number = 0; number < CHILDREN; number++)
                if (ended == children[number])
                    found = number;
            if (ended < 0 || found < 0)
                fail("a strange child");
            if (!WIFEXITED(status) || WEXITSTATUS(status) != (turn + found) % 90)
                fail("a status");
            children[found] = 0;
        }
        if (waitpid(-1, 0, WNOHANG) != -1 || errno != ECHILD)
            fail("there is a child");
        if (told < 1 || told > CHILDREN)
            fail("told of another");
    }
    puts("family ok");
    return 0;
}
