/* Appends a line at a time to a file that it opens anew for each, and looks at others while it is open and while
 * it is closed. Prints "appended ok" if the file is its lines in the end, and nothing else. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINES = 50, LOOKS = 3 };

static void look(void) {
    struct stat found;
    for (int time = 0; time < LOOKS; time++)
        (void)!stat("/etc/passwd", &found);
}

int main(void) {
    char wanted[LINES * 8] = "", got[sizeof wanted + 8] = "";
    unlink("log");
    for (int line = 1; line <= LINES; line++) {
        char text[8];
        int length = sprintf(text, "%d\n", line);
        int file = open("log", O_CREAT | O_WRONLY | O_APPEND, 0600);
        look();
        (void)!write(file, text, length);
        close(file);
        look();
        strcat(wanted, text);
    }
    int file = open("log", O_RDONLY);
    long length = read(file, got, sizeof got);
    int is_right = length == (long)strlen(wanted) && memcmp(got, wanted, length) == 0;
    puts(is_right ? "appended ok" : "not appended");
    return !is_right;
}
