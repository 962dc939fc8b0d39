/* Writes table.h: for each byte, its effect on the sum after 0 to 7 more bytes. */
#include <stdint.h>
#include <stdio.h>

#define POLYNOMIAL 0xedb88320 /* x^32 + x^26 + … + 1, lowest power in the highest bit */

int main(void)
{
    uint32_t table[8][256];
    unsigned row, byte, bit;

    for (byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;

        for (bit = 0; bit < 8; bit++)
            sum = sum & 1 ? sum >> 1 ^ POLYNOMIAL : sum >> 1;
        table[0][byte] = sum;
    }
    for (row = 1; row < 8; row++)
        for (byte = 0; byte < 256; byte++)
            table[row][byte] = table[0][table[row - 1][byte] & 0xff] ^ table[row - 1][byte] >> 8;

    printf("/* Written by mktable. */\nstatic const uint32_t table[8][256] = {\n");
    for (row = 0; row < 8; row++) {
        printf("    {");
        for (byte = 0; byte < 256; byte++)
            printf("%s0x%08lx,", byte % 6 ? " " : "\n        ", (unsigned long)table[row][byte]);
        printf("\n    },\n");
    }
    printf("};\n");
    return fflush(stdout) == 0 ? 0 : 1;
}
