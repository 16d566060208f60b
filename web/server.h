/* The HTTP server: checks each request, and answers it from the API or the files of the page. */
#pragma once

#include "options.h"
#include "sampler.h"

#include <functional>

namespace web {

/*
 * Serve until stop() of the given function is called. on_start is called with the port, once the
 * program listens, and with a function that ends the server. Returns the exit status.
 */
int serve(const Options &options,
		  const std::function<void(int port, std::function<void()> stop)> &on_start);

} // namespace web
