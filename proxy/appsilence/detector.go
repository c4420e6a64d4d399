package appsilence

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// unreadAfter is how long a request must wait before Detector.Report checks whether the app has
	// read it.
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

// Report describes whether the app hangs.
type Report struct {
	// For is how long the app has begun no response while the oldest request waited. Zero means
	// that the app does not hang.
	For time.Duration
	// Requests is the number of requests that wait for a response.
	Requests int
	// Unread is the number of checked requests that the app has certainly not read.
	Unread int
}

// Detector detects an app that hangs: requests wait, and the app begins no response.
type Detector struct {
	heard atomic.Int64 // when the app last began a response

	// Only the goroutine of the sweep uses the following fields.
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

// RecordResponse records that the app begins a response. It must be called for each response.
func (d *Detector) RecordResponse(now time.Duration) {
	if d.heard.Load() != int64(now) {
		d.heard.Store(int64(now))
	}
}

// BeginSweep starts a sweep.
func (d *Detector) BeginSweep(now time.Duration) {
	d.now, d.waiting, d.oldest, d.oldestUnsafe = now, 0, 0, 0
	d.lookUp = nil // do not reuse the slice, because the last result contains it
}

// CountWaiting counts a request that has been waiting for a response of the app since the given
// time. safe means that its method is safe. conn is its connection to the app; nil means that it
// cannot be checked.
func (d *Detector) CountWaiting(since time.Duration, safe bool, conn net.Conn) {
	wait := d.now - since
	d.waiting++
	d.oldest = max(d.oldest, wait)
	if !safe {
		d.oldestUnsafe = max(d.oldestUnsafe, wait)
	}
	if wait < unreadAfter || d.silent(wait) < unreadAfter || len(d.lookUp) >= maxLookedUp || conn == nil {
		return
	}
	if c, ok := addressesOf(conn); ok {
		c.safe = safe
		d.lookUp = append(d.lookUp, c)
	}
}

// silent returns how long the app has begun no response, up to the given waiting time of a request.
func (d *Detector) silent(wait time.Duration) time.Duration {
	return min(wait, d.now-time.Duration(d.heard.Load()))
}

// EndSweep finishes a sweep, and publishes its result.
func (d *Detector) EndSweep() {
	silent := d.silent(d.oldest)
	heard := d.heard.Load()
	if d.now-d.longestAt > silenceMemory {
		d.longest = 0
	}
	if heard != d.beforeHeard && d.before > d.longest {
		d.longest, d.longestAt = d.before, d.now
	}
	d.before, d.beforeHeard = silent, heard
	hangs := d.silent(d.oldestUnsafe) >= max(unsafeSilence, 2*d.longest) || silent >= max(safeSilence, 2*d.longest)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = silenceSeen{at: d.now, silence: silent, requests: d.waiting, hangs: hangs, lookUp: d.lookUp}
}

// addressesOf returns the addresses of a connection to the app. ok is false if it is not a TCP
// connection.
func addressesOf(conn net.Conn) (c waitingConn, ok bool) {
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

// Report reports whether the app hangs, by the last sweep. The zero value means that it does not. A
// sweep before notBefore does not count. A call may take some milliseconds, so it should be called at
// most once a second. Any goroutine may call it.
func (d *Detector) Report(notBefore time.Duration) Report {
	d.mu.Lock()
	seen := d.last
	d.mu.Unlock()
	if seen.requests == 0 || seen.at < notBefore {
		return Report{}
	}
	unread := 0
	if len(seen.lookUp) > 0 {
		unread = countUnread(seen.lookUp)
	}
	if !seen.hangs && unread == 0 {
		return Report{}
	}
	return Report{For: seen.silence, Requests: seen.requests, Unread: unread}
}
