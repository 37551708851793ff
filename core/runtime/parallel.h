// Threads that are kept between calls, and the loop that shares work among them.
#pragma once

#include <cstddef>
#include <functional>

namespace scurry {

// Runs task(i) for i in [0, n_tasks) on up to n_threads threads, of which this is one. The others are started when they
// are first needed, and wait for more work afterwards: starting a thread takes longer than evaluating a small model.
// There are never more of them than processors, and calls at the same time share them; a call that gets none works
// alone. A process made by fork() starts threads of its own. An exception in any thread is rethrown.
void parallel_for(std::size_t n_tasks, std::size_t n_threads, const std::function<void(std::size_t)>& task);

}  // namespace scurry
