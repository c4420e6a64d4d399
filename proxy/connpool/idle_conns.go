package connpool

import (
	"slices"
	"time"
)

// idleConns contains the idle connections of a pool. Pool.mu protects all fields.
type idleConns struct {
	conns   []*Conn // in order of last use; the most recently used connection is last
	streams []*Conn // the same, for streams of multiplexed sessions
}

// preferLoopScan is the number of recently used connections among which preferLoop searches. A
// connection that is registered with the caller's event loop is preferred, because moving a
// connection to another event loop costs two system calls.
const preferLoopScan = 64

// preferLoop moves the most recently used connection of the event loop to the end of the list, so
// that popNewest returns it. It ignores connections that were last used before oldest.
func (idle *idleConns) preferLoop(loop EventLoop, oldest time.Duration) {
	conns := idle.conns
	last := len(conns) - 1
	first := max(0, last-preferLoopScan)
	for i := last; i >= first && conns[i].idleSince >= oldest; i-- {
		if conns[i].Loop == loop {
			conns[i], conns[last] = conns[last], conns[i]
			return
		}
	}
}

// popNewest removes and returns the most recently used connection, or nil if there is none. If
// fresh is set, the connection must be checkable and must have been used since oldest.
func (idle *idleConns) popNewest(fresh bool, oldest time.Duration) *Conn {
	n := len(idle.conns)
	if n == 0 {
		return nil
	}
	conn := idle.conns[n-1]
	isFresh := conn.InProcess || conn.Checkable && conn.idleSince >= oldest
	if fresh && !isFresh {
		return nil
	}
	return popLast(&idle.conns)
}

// popNewestStream removes and returns the most recently used stream, or nil if there is none.
func (idle *idleConns) popNewestStream() *Conn {
	if len(idle.streams) == 0 {
		return nil
	}
	return popLast(&idle.streams)
}

// popLast removes and returns the last connection of a non-empty list.
func popLast(conns *[]*Conn) *Conn {
	last := len(*conns) - 1
	conn := (*conns)[last]
	(*conns)[last] = nil
	*conns = (*conns)[:last]
	return conn
}

// popOldest removes and returns the connection that has been idle longest, or nil if there is none.
func (idle *idleConns) popOldest() *Conn {
	if len(idle.conns) == 0 {
		return nil
	}
	oldest := idle.conns[0]
	idle.conns = slices.Delete(idle.conns, 0, 1)
	return oldest
}

// removeMatching removes the connections and streams that match, and returns them. The caller must
// discard them after it has released Pool.mu.
func (idle *idleConns) removeMatching(match func(conn *Conn) bool) (removed []*Conn) {
	removeMatch := func(conn *Conn) bool {
		if !match(conn) {
			return false
		}
		removed = append(removed, conn)
		return true
	}
	idle.conns = slices.DeleteFunc(idle.conns, removeMatch)
	idle.streams = slices.DeleteFunc(idle.streams, removeMatch)
	return removed
}
