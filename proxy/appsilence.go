package proxy

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// unreadAfter is how long a request must wait before AppSilence checks whether the app has read
	// it.
	unreadAfter = 10 * time.Second
	// unsafeSilence and safeSilence are how long the app must begin no response, while a request
	// waits for the same time, to count as hanging. safeSilence applies to GET, HEAD and OPTIONS,
	// which may be long polls. If, within silenceMemory, a longer silence has ended with a
	// response, twice the length of that silence is required instead.
	unsafeSilence = 30 * time.Second
	safeSilence   = 2 * time.Minute
	silenceMemory = time.Hour
	// maxLookedUp is the maximum number of connections that are checked at a time.
	maxLookedUp = 16
)

// AppSilence describes whether the app hangs.
type AppSilence struct {
	// For is how long the app has begun no response while the oldest request waited. Zero means
	// that the app does not hang.
	For time.Duration
	// Requests is the number of requests that wait for a response.
	Requests int
	// Unread is the number of checked requests that the app has certainly not read.
	Unread int
}

// appWatch detects an app that hangs: requests wait, and the app begins no response.
//
// The sweep counts the waiting requests. A request of a hanging app cannot be distinguished from a
// long poll by its waiting time alone before safeSilence. But the kernel can report whether the app
// has read the request.
type appWatch struct {
	heard atomic.Int64 // when the app last began a response, by the coarse clock

	// Only the sweep uses the following fields.
	now                  time.Duration
	waiting              int
	oldest, oldestUnsafe time.Duration // how long the oldest request has waited
	lookUp               []waitingConn
	before               time.Duration // value of For at the last sweep
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

// waitingConn is a connection to the app on which a request waits for its response.
type waitingConn struct {
	local, remote netip.AddrPort
	safe          bool
}

// record records that the app begins a response. It is called for each response.
func (a *appWatch) record(now time.Duration) {
	if a.heard.Load() != int64(now) {
		a.heard.Store(int64(now))
	}
}

// begin starts a sweep.
func (a *appWatch) begin(now time.Duration) {
	a.now, a.waiting, a.oldest, a.oldestUnsafe = now, 0, 0, 0
	a.lookUp = nil // do not reuse the slice, because the last result contains it
}

// waits counts a request that has been waiting for a response of the app since the given time.
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

// silent returns how long the app has begun no response, up to the given waiting time of a request.
func (a *appWatch) silent(wait time.Duration) time.Duration {
	return min(wait, a.now-time.Duration(a.heard.Load()))
}

// end finishes a sweep, and publishes its result.
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

// addressesOf returns the addresses of a connection to the app. ok is false if it is not a TCP
// connection.
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

// AppSilence reports whether the app hangs. A call may take some milliseconds, so it should be
// called at most once a second.
func (s *Server) AppSilence() AppSilence {
	a := &s.appWatch
	a.mu.Lock()
	seen := a.last
	a.mu.Unlock()
	// If there are no connections, there are no sweeps, so the last result may be outdated.
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
