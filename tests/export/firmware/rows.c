/* Runs a model on every row from its first instruction to the answer, for traces of what is executed. */
#include "board.h"
#include "model.h"
#include "rows.h"

volatile uint32_t answer; /* so that it is computed */

void on_timer(void)
{
}

int main(void)
{
    static const volatile uint8_t stop = 0;
    static model_state state;

    uint32_t row;
#ifndef WHOLE_ROWS
    static model_input x[MODEL_N_COLUMNS];
#endif
    for (row = 0; row < N_ROWS; ++row) {
        INIT(&state);
#ifdef WHOLE_ROWS
        model_run(&state, rows[row], &stop);
#else
        model_quantize(rows[row], x);
        model_run(&state, x, &stop);
#endif
        answer = (uint32_t)ANSWER(&state);
    }
    return 0;
}
