/* Writes without end, with calls between whose results may be guessed. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void) {
    char page[16384];
    memset(page, '.', sizeof page);
    for (;;) {
        struct stat now;
        for (int time = 0; time < 20; time++)
            stat(".", &now);
        if (write(1, page, sizeof page) < 0)
            return 1;
    }
}
