// Package listener accepts the connections of clients.
//
// An Acceptor bypasses package net for connections that have already arrived. After Stop, it still
// returns each connection that the kernel has accepted, so that a shutdown resets none: on Linux, the
// socket then drops SYNs while the backlog is emptied.
//
// A Set contains the listeners of a server, and stops all of them. The accepting goroutine of a listener
// calls AcceptRetry and Set.Remove. A Lifecycle adds the state of a drain and of a shutdown.
//
// SetUserTimeout makes the kernel close the connections of clients that have vanished.
package listener
