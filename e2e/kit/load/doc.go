//go:build linux

// Package load sends requests to a cluster and keeps every answer.
//
// A Client is a strict HTTP/1.1 client of its own: it never sends a request
// twice by itself (net/http does), and it sees bytes that nobody asked for. It
// behaves like a balancer in front of the nodes: when nobody listens at one
// target, or an idle connection turns out closed before any byte of an answer,
// it goes on with the next target; everything else is the request's answer. All
// attempts are kept, so that a re-attempt that ran twice is found.
//
// A Generator sends N requests a second from a Client, open loop: a request
// that waits does not slow down the others. Start it, disturb the cluster, Stop
// it; then history.Check judges the answers.
package load
