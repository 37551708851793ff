/* What the test firmware needs of a board: a timer that interrupts once, a clock, and a file on the host. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

void board_init(void);
void timer_start(uint32_t ticks); /* calls on_timer() once, after so many ticks */
void timer_stop(void);
uint32_t clock_ticks(void); /* counts up, in ticks of the timer */
void on_timer(void);        /* the firmware's own; runs in the interrupt */

int32_t semihost(int32_t operation, const void *argument);
void host_open(const char *name);
void host_write(const void *data, uint32_t n_bytes);
void host_exit(void);

#endif
