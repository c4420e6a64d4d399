//go:build linux

// Package load sends requests to a cluster and records every response.
//
// A Client is a strict HTTP/1.1 client. Unlike net/http, it never repeats a request on
// its own, and it detects bytes that belong to no request. It behaves like a load
// balancer in front of the nodes. If a connection is refused, or an idle connection is
// found closed before the first byte of a response, it tries the next target. Any other
// result is the response to the request. It records all attempts, so that a retry that
// ran twice is found.
//
// A Generator sends N requests per second with a Client, in an open loop: a slow request
// does not delay the others. Start it, inject faults, Stop it, and pass the responses to
// history.Check.
package load
