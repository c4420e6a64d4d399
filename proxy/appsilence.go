package proxy

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// unreadAfter is how long a request must wait before it is looked up whether the app has
	// read it.
	unreadAfter = 10 * time.Second
	// unsafeSilence and safeSilence are how long the app must begin no response, while a request
	// waits for as long, before it counts as hanging. safeSilence is for GET, HEAD and OPTIONS,
	// which may be long polls. Both are at least twice the longest such time, within
	// silenceMemory, that ended with a response.
	unsafeSilence = 30 * time.Second
	safeSilence   = 2 * time.Minute
	silenceMemory = time.Hour
	// maxLookedUp is the number of connections that are looked up at a time.
	maxLookedUp = 16
)

// AppSilence says that the app hangs.
type AppSilence struct {
	// For is how long the app has begun no response while the oldest request waited; zero: it
	// does not hang.
	For time.Duration
	// Requests is the number of requests that wait for a response.
	Requests int
	// Unread is the number of requests that the app has certainly not read, of those that were
	// looked up.
	Unread int
}

// appWatch finds out whether the app hangs: requests wait, and it begins no response.
//
// The sweep counts. A long poll waits as long as a request of an app that hangs, so a wait
// alone says nothing before safeSilence. But the kernel knows whether the app has read a request.
type appWatch struct {
	heard atomic.Int64 // when the app last began a response, by the coarse clock

	// The sweep's own.
	now                  time.Duration
	waiting              int
	oldest, oldestUnsafe time.Duration // how long the oldest request has waited
	lookUp               []waitingConn
	before               time.Duration // For of the last sweep
	beforeHeard          int64
	longest, longestAt   time.Duration // the longest silence that ended with a response, and when
	mu                   sync.Mutex
	last                 silenceSeen // the result of the last sweep; guarded by mu
}

// silenceSeen is the result of one sweep.
type silenceSeen struct {
	at       time.Duration
	silence  time.Duration
	requests int
	hangs    bool
	lookUp   []waitingConn
}

// waitingConn is a connection to the app whose request waits.
type waitingConn struct {
	local, remote netip.AddrPort
	safe          bool
}

// record notes that the app begins a response. It is called for every response.
func (a *appWatch) record(now time.Duration) {
	if a.heard.Load() != int64(now) {
		a.heard.Store(int64(now))
	}
}

// begin begins a sweep.
func (a *appWatch) begin(now time.Duration) {
	a.now, a.waiting, a.oldest, a.oldestUnsafe = now, 0, 0, 0
	a.lookUp = nil // the last result has the former one
}

// waits counts a request that has been waiting since a time for a response of the app.
func (a *appWatch) waits(since time.Duration, safe bool, l *upstreamConn) {
	wait := a.now - since
	a.waiting++
	a.oldest = max(a.oldest, wait)
	if !safe {
		a.oldestUnsafe = max(a.oldestUnsafe, wait)
	}
	if wait < unreadAfter || a.silent(wait) < unreadAfter || len(a.lookUp) >= maxLookedUp || l == nil || l.inproc != nil {
		return
	}
	if c, ok := addressesOf(l); ok {
		c.safe = safe
		a.lookUp = append(a.lookUp, c)
	}
}

// silent returns for how long the app has begun no response while a request waited that long.
func (a *appWatch) silent(wait time.Duration) time.Duration {
	return min(wait, a.now-time.Duration(a.heard.Load()))
}

// end ends a sweep.
func (a *appWatch) end() {
	silent := a.silent(a.oldest)
	heard := a.heard.Load()
	if a.now-a.longestAt > silenceMemory {
		a.longest = 0
	}
	if heard != a.beforeHeard && a.before > a.longest {
		a.longest, a.longestAt = a.before, a.now
	}
	a.before, a.beforeHeard = silent, heard
	hangs := a.silent(a.oldestUnsafe) >= max(unsafeSilence, 2*a.longest) || silent >= max(safeSilence, 2*a.longest)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = silenceSeen{at: a.now, silence: silent, requests: a.waiting, hangs: hangs, lookUp: a.lookUp}
}

// addressesOf returns both ends of a connection to the app; false: it is no TCP connection.
func addressesOf(l *upstreamConn) (c waitingConn, ok bool) {
	conn := l.NetConn()
	if conn == nil {
		return c, false
	}
	local, ok := conn.LocalAddr().(*net.TCPAddr)
	if !ok {
		return c, false
	}
	remote, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return c, false
	}
	return waitingConn{local: plainAddr(local), remote: plainAddr(remote)}, true
}

func plainAddr(a *net.TCPAddr) netip.AddrPort {
	p := a.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
}

// AppSilence reports whether the app hangs. It may take milliseconds, and should be called no
// more than once a second.
func (s *Server) AppSilence() AppSilence {
	a := &s.appWatch
	a.mu.Lock()
	seen := a.last
	a.mu.Unlock()
	// Without connections there are no sweeps.
	if seen.requests == 0 || s.clock.exact()-seen.at > 20*sweepEvery {
		return AppSilence{}
	}
	unread := 0
	if len(seen.lookUp) > 0 {
		unread = countUnread(seen.lookUp)
	}
	if !seen.hangs && unread == 0 {
		return AppSilence{}
	}
	return AppSilence{For: seen.silence, Requests: seen.requests, Unread: unread}
}
