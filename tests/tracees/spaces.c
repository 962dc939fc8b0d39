/* Namespaces that a program makes for its children, looked at with many calls before, between and after.
 *
 * spaces parent: its children are born into another pid namespace. spaces clock: and into another time
 * namespace, whose clock can be set until the first one is there. spaces killed: the first process of a
 * namespace, which has a child that works, is killed. spaces orphans: who adopts orphans finds no others. spaces
 * init: nor does the first process of a namespace. Prints "spaces ok". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOKS = 12, CHILDREN = 3, ROUNDS = 20, DAY = 86400 };

static void fail(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    fflush(stdout);
    _exit(1);
}

static void look(void) {
    struct stat stat_of;
    for (int i = 0; i < LOOKS; i++)
        stat("/etc/passwd", &stat_of);
}

static pid_t bear(void) {
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    return child;
}

static void expect(pid_t child, int status) {
    int got;
    if (waitpid(child, &got, 0) != child || got != status)
        printf("a child ended with %x, not %x\n", got, status), exit(1);
}

/* The first child is pid 1 of the namespace, and the others are as long there as that is. */
static void parent(void) {
    pid_t children[CHILDREN];
    int gate[2];
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID))
        fail("unshare");
    pipe(gate);
    for (int i = 0; i < CHILDREN; i++) {
        look();
        children[i] = bear();
        if (children[i] == 0) {
            char byte;
            close(gate[1]);
            look();
            if ((getpid() == 1) != (i == 0))
                _exit(100);
            if (i == 0)
                read(gate[0], &byte, 1);
            _exit(50 + i);
        }
        look();
    }
    for (int i = 1; i < CHILDREN; i++)
        expect(children[i], (50 + i) << 8);
    close(gate[1]);
    expect(children[0], 50 << 8);
}

static void clock_of_children(void) {
    struct timespec own, childs;
    int told[2];
    if (unshare(CLONE_NEWUSER | CLONE_NEWTIME))
        fail("unshare");
    look();
    char line[64];
    int length = sprintf(line, "monotonic %d 0\n", DAY);
    int file = open("/proc/self/timens_offsets", O_WRONLY);
    if (file < 0 || write(file, line, length) != length)
        fail("set the clock");
    look();
    pipe(told);
    pid_t child = bear();
    if (child == 0) {
        look();
        clock_gettime(CLOCK_MONOTONIC, &childs);
        write(told[1], &childs, sizeof childs);
        _exit(7);
    }
    expect(child, 7 << 8);
    read(told[0], &childs, sizeof childs);
    clock_gettime(CLOCK_MONOTONIC, &own);
    long ahead = childs.tv_sec - own.tv_sec;
    if (ahead < DAY - 600 || ahead > DAY)
        printf("a child's clock is %ld s ahead\n", ahead), exit(1);
}

static void killed(void) {
    int told[2];
    char byte;
    for (int round = 0; round < ROUNDS; round++) {
        /* After the end of its first process nobody is born into a namespace. */
        pid_t maker = bear();
        if (maker > 0) {
            expect(maker, 0);
            continue;
        }
        if (unshare(CLONE_NEWUSER | CLONE_NEWPID))
            fail("unshare");
        pipe(told);
        pid_t first = bear();
        if (first == 0) {
            pid_t second = bear();
            write(told[1], second ? "1" : "2", 1);
            for (;;)
                look();
        }
        close(told[1]);
        read(told[0], &byte, 1);
        read(told[0], &byte, 1);
        usleep(round * 2500);
        if (kill(first, SIGKILL))
            fail("kill");
        expect(first, SIGKILL);
        /* All of them are gone. */
        if (read(told[0], &byte, 1) != 0)
            fail("somebody is left");
        _exit(0);
    }
}

/* A child is killed, then its own child. The first one is there before this adopts orphans, if it does not yet. */
static void adopt(int does_adopt) {
    for (int round = 0; round < ROUNDS; round++) {
        int told[2], found = 0;
        pid_t orphan, got;
        pipe(told);
        pid_t child = bear();
        if (child == 0) {
            orphan = bear();
            if (orphan)
                write(told[1], &orphan, sizeof orphan);
            for (;;)
                look();
        }
        read(told[0], &orphan, sizeof orphan);
        usleep(round * 1000);
        if (!does_adopt)
            does_adopt = !prctl(PR_SET_CHILD_SUBREAPER, 1);
        usleep(2000);
        kill(child, SIGKILL);
        while ((got = waitpid(-1, 0, 0)) > 0) {
            if (got != child && got != orphan)
                printf("round %d: %d is neither %d nor %d\n", round, got, child, orphan), exit(1);
            if (got == child)
                kill(orphan, SIGKILL);
            found++;
        }
        if (found != 2)
            printf("round %d: %d children ended\n", round, found), exit(1);
        close(told[0]);
        close(told[1]);
    }
}

static void first_process(void) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID))
        fail("unshare");
    pid_t first = bear();
    if (first == 0) {
        adopt(1);
        exit(0);
    }
    expect(first, 0);
}

int main(int count, char **arguments) {
    if (count < 2)
        return 2;
    switch (arguments[1][0]) {
    case 'p':
        parent();
        break;
    case 'c':
        clock_of_children();
        break;
    case 'o':
        adopt(0);
        break;
    case 'i':
        first_process();
        break;
    default:
        killed();
    }
    puts("spaces ok");
    return 0;
}
