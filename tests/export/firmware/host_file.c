/* Files of the host by semihosting, the same operations on both boards. */
#include "board.h"

enum { SYS_OPEN = 0x01, SYS_CLOSE = 0x02, SYS_WRITE = 0x05, SYS_EXIT = 0x18, WRITE_BINARY = 5, EXITED = 0x20026 };

static int32_t file;

void host_open(const char *name)
{
    uint32_t length = 0;
    uintptr_t argument[3];
    while (name[length]) ++length;
    argument[0] = (uintptr_t)name;
    argument[1] = WRITE_BINARY;
    argument[2] = length;
    file = semihost(SYS_OPEN, argument);
}

void host_write(const void *data, uint32_t n_bytes)
{
    uintptr_t argument[3];
    argument[0] = (uintptr_t)file;
    argument[1] = (uintptr_t)data;
    argument[2] = n_bytes;
    semihost(SYS_WRITE, argument);
}

void host_exit(void)
{
    uintptr_t argument[1];
    argument[0] = (uintptr_t)file;
    semihost(SYS_CLOSE, argument);
    semihost(SYS_EXIT, (const void *)EXITED);
}
