/* Reads the bodies of requests, and writes answers and errors. */
#pragma once

#include "failure.h"
#include "json.h"

#include <functional>
#include <httplib.h>

namespace web {

using Request = httplib::Request;
using Response = httplib::Response;

/* The largest body that is read, in bytes. */
constexpr size_t kLargestBody = 9 * 1024 * 1024;

void answer(Response &response, const std::string &json);
void answer(Response &response, const Failure &failure);

/* Run what answers a request; an exception becomes an answer. */
void guarded(Response &response, const std::function<void()> &work);

/*
 * Read the body of a request that may change something. Only JSON is read: a form of another site
 * cannot send this type.
 */
Flat body_of(const Request &request, const httplib::ContentReader &reader);

} // namespace web
