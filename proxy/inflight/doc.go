// Package inflight tracks the request in flight on a connection, so that other goroutines can cancel it.
//
// Each connection has one Slot. The goroutine of the connection, or an event loop, calls Begin,
// SetFlags and Finish for each Run, the execution of one attempt. Any goroutine may call Load and
// Cancel. The state is one atomic word, so these methods take no lock and allocate nothing.
//
// A StallDetector detects that a connection has been running the same request since the previous check.
//
// Invariant: a run is either finished or cancelled. After Finish has returned cause.None, the upstream
// connection belongs to the goroutine of the run. After Cancel has cancelled a run, its caller must
// close the connections that Cancel returns.
package inflight
