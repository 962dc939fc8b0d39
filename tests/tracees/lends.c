/* Lends its memory to children that execute programs, fail to, or end, and checks the memory, the children and their ends.
 * `lends ROUNDS [THREADS]`; with threads, each lends while the others do. Each looks at files, so that something is
 * undecided. Prints "lends ok". */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char *program;
static int rounds;

static void fail(const char *what, int number) {
    fprintf(stderr, "%s: %d\n", what, number);
    _exit(99);
}

static void look(int times) {
    struct stat there;
    while (times-- > 0)
        if (stat(".", &there) != 0 || !S_ISDIR(there.st_mode))
            fail("there is no directory", errno);
}

static void await(pid_t child, int wanted) {
    int status;
    if (waitpid(child, &status, 0) != child)
        fail("there is no such child", errno);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != wanted)
        fail("it has ended otherwise", status);
    if (waitpid(child, &status, WNOHANG) != -1 || errno != ECHILD)
        fail("it ends twice", errno);
}

/* Of one thread: its child writes here. */
struct shared {
    volatile int begun, failed;
};

static pid_t lend(int round, struct shared *shared) {
    char number[12];
    snprintf(number, sizeof number, "%d", round & 63);
    shared->begun = shared->failed = 0;
    pid_t child = vfork();
    if (child == 0) {
        shared->begun = round + 1;
        look(1);
        if (round % 4 == 0)
            execl("/bin/true", "true", NULL);
        else if (round % 4 == 3)
            execl(program, program, "child", number, NULL);
        else if (round % 4 == 1)
            execl("/no/such/program", "program", NULL);
        shared->failed = errno;
        _exit(round & 63);
    }
    if (child < 0)
        fail("vfork", errno);
    if (shared->begun != round + 1)
        fail("the memory is not the child's", shared->begun);
    if (shared->failed != (round % 4 == 1 ? ENOENT : shared->failed) || (round % 4 % 3 == 0 && shared->failed))
        fail("it executes otherwise", shared->failed);
    return child;
}

static void spawn(int round, const char *path) {
    char number[12];
    char *arguments[] = {"echo", number, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t set;
    pid_t child;
    snprintf(number, sizeof number, "%d", round);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    posix_spawnattr_init(&attributes);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    posix_spawnattr_setsigdefault(&attributes, &set);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    int error = posix_spawn(&child, "/bin/echo", &actions, &attributes, arguments, environ);
    if (error)
        fail("posix_spawn", error);
    await(child, 0);
    error = posix_spawn(&child, "/no/such/program", &actions, &attributes, arguments, environ);
    if (error != ENOENT)
        fail("there is such a program", error);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
}

static void *work(void *argument) {
    long number = (long)argument;
    struct shared shared;
    char path[20], *word = malloc(64), line[20];
    snprintf(path, sizeof path, "spawned%ld", number);
    for (int round = 0; round < rounds; round++) {
        memset(word, round, 64);
        look(2);
        pid_t child = lend(round, &shared);
        look(1);
        await(child, round % 4 == 0 ? 0 : round & 63);
        if (round % 5 == 0)
            spawn(round, path);
        for (int at = 0; at < 64; at++)
            if (word[at] != (char)round)
                fail("the memory is another's", word[at]);
    }
    FILE *file = fopen(path, "r");
    for (int round = 0; round < rounds; round += 5)
        if (!file || !fgets(line, sizeof line, file) || atoi(line) != round)
            fail("the file has another line", round);
    if (fgets(line, sizeof line, file))
        fail("the file has more", rounds);
    fclose(file);
    return NULL;
}

static void handle(int signal) { (void)signal; }

int main(int count, char **arguments) {
    program = arguments[0];
    if (count > 2 && strcmp(arguments[1], "child") == 0) {
        look(3);
        return atoi(arguments[2]);
    }
    rounds = atoi(arguments[1]);
    signal(SIGUSR1, handle);
    pthread_t threads[8];
    long others = count > 2 ? atoi(arguments[2]) : 0;
    for (long number = 0; number < others; number++)
        pthread_create(&threads[number], NULL, work, (void *)(number + 1));
    work(NULL);
    for (long number = 0; number < others; number++)
        pthread_join(threads[number], NULL);
    if (waitpid(-1, 0, WNOHANG) != -1 || errno != ECHILD)
        fail("there is another child", errno);
    puts("lends ok");
    return 0;
}
