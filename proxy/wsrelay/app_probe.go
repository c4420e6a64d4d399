package wsrelay

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// AppProbe checks whether the app still accepts connections after a relay has ended without a close
// frame. Any goroutine may use it.
type AppProbe struct {
	// Dial opens a connection to the app.
	Dial func() (net.Conn, error)
	// ValidFor is how long a negative result is reused.
	ValidFor time.Duration

	mu        sync.Mutex // held while the app is probed
	startedAt time.Time  // start of the last probe
	refused   bool       // result of the last probe
}

// probeDuration is how long an app must keep a probe connection open to be treated as alive. A
// dying process may accept connections for a moment after it has lost older ones. The kernel closes
// its sockets in any order, and then resets the connections that have not been accepted.
const probeDuration = 100 * time.Millisecond

// Refuses reports whether the app no longer accepts connections after a relay has ended. When an
// app dies, many relays call Refuses at the same time, so they share results. A caller may use a
// probe that began after its call, because a connection that was accepted before a relay ended
// proves nothing.
func (probe *AppProbe) Refuses() bool {
	relayEnded := time.Now()
	probe.mu.Lock()
	defer probe.mu.Unlock()
	beganAfterCall := probe.startedAt.After(relayEnded)
	if beganAfterCall || probe.refused && relayEnded.Sub(probe.startedAt) < probe.ValidFor {
		return probe.refused
	}
	probe.startedAt = time.Now()
	conn, err := probe.Dial()
	probe.refused = err != nil || !staysOpen(conn)
	return probe.refused
}

// staysOpen reports whether a new connection stays open for probeDuration. It closes the connection.
func staysOpen(conn net.Conn) bool {
	defer func() { _ = conn.Close() }()
	if conn.SetReadDeadline(time.Now().Add(probeDuration)) != nil {
		return false
	}
	_, err := conn.Read(make([]byte, 1))
	return err == nil || errors.Is(err, os.ErrDeadlineExceeded)
}
