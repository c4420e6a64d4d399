// Package connlife ends the work for an accepted connection when the connection's lifetime ends, or when its
// peer disconnects.
//
// A Lifetime has a context for everything that waits on behalf of the connection. Any goroutine may use
// it. A DisconnectWatch detects that the peer disconnects while no goroutine reads from the connection.
//
//	off ──Arm──► armed ──Start──► running
//	 ▲             │                 │
//	 └───Disarm────┴─────Disarm──────┘
//
// The goroutine of the connection calls Arm and Disarm, because only it may read. Any goroutine may
// call Start; the sweep of package proxy does so for requests that have run for a while.
package connlife
