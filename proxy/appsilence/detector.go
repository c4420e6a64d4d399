package appsilence

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// unreadCheckDelay is how long a request must wait before Detector.Report checks whether the app has
	// read it.
	unreadCheckDelay = 10 * time.Second
	// minUnsafeSilence and minSafeSilence are how long the app must begin no response, while a
	// request has been waiting at least as long, to be treated as hanging. minSafeSilence applies
	// to GET, HEAD and OPTIONS, which may be long polls. If a silence within longestSilenceTTL
	// ended with a response, the minimum is at least twice its length.
	minUnsafeSilence  = 30 * time.Second
	minSafeSilence    = 2 * time.Minute
	longestSilenceTTL = time.Hour
	// maxCheckedConns is the maximum number of connections that are checked at a time.
	maxCheckedConns = 16
)

// Report describes a hanging app.
type Report struct {
	// SilentFor is the time since the app last began a response, limited to the waiting time of the
	// oldest request. Zero means that the app does not hang.
	SilentFor time.Duration
	// WaitingRequests is the number of requests that are waiting for a response.
	WaitingRequests int
	// UnreadRequests is the number of checked requests that the app has definitely not read.
	UnreadRequests int
}

// Detector detects an app that hangs: requests wait, and the app begins no response.
type Detector struct {
	lastResponse atomic.Int64 // time of the app's last response header

	// Only the goroutine of the sweep uses the following fields.
	sweepTime                         time.Duration
	waitingRequests                   int
	longestWait, longestUnsafeWait    time.Duration // how long the oldest request has waited
	connsToCheck                      []waitingConn
	previousSilence                   time.Duration // silence at the previous sweep
	previousLastResponse              int64
	longestSilence, longestSilenceEnd time.Duration // the longest silence that ended with a response, and its end
	mu                                sync.Mutex
	lastSweep                         sweepResult // the result of the last sweep; guarded by mu
}

// sweepResult is the result of one sweep over the waiting requests.
type sweepResult struct {
	time            time.Duration
	silence         time.Duration
	waitingRequests int
	hangs           bool
	connsToCheck    []waitingConn
}

// waitingConn is a connection to the app on which a request waits for its response.
type waitingConn struct {
	local, remote netip.AddrPort
	isSafeMethod  bool
}

// RecordResponse records that the app begins a response. It must be called for each response.
func (d *Detector) RecordResponse(now time.Duration) {
	if d.lastResponse.Load() != int64(now) {
		d.lastResponse.Store(int64(now))
	}
}

// BeginSweep starts a sweep over the waiting requests, and resets their counts.
func (d *Detector) BeginSweep(now time.Duration) {
	d.sweepTime, d.waitingRequests, d.longestWait, d.longestUnsafeWait = now, 0, 0, 0
	d.connsToCheck = nil // do not reuse the slice, because the last result contains it
}

// CountWaiting counts a request that has been waiting for the app's response since the given time.
// isSafeMethod reports whether the method is safe (RFC 9110 section 9.2.1). conn is its connection to
// the app. If conn is nil, the unread check is skipped.
func (d *Detector) CountWaiting(since time.Duration, isSafeMethod bool, conn net.Conn) {
	waited := d.sweepTime - since
	d.waitingRequests++
	d.longestWait = max(d.longestWait, waited)
	if !isSafeMethod {
		d.longestUnsafeWait = max(d.longestUnsafeWait, waited)
	}
	if waited < unreadCheckDelay || d.silenceDuring(waited) < unreadCheckDelay || len(d.connsToCheck) >= maxCheckedConns || conn == nil {
		return
	}
	if addrs, ok := connAddresses(conn); ok {
		addrs.isSafeMethod = isSafeMethod
		d.connsToCheck = append(d.connsToCheck, addrs)
	}
}

// silenceDuring returns how long ago the app last began a response, capped at wait, the waiting time of a
// request. An app without requests is not silent.
func (d *Detector) silenceDuring(wait time.Duration) time.Duration {
	return min(wait, d.sweepTime-time.Duration(d.lastResponse.Load()))
}

// EndSweep finishes a sweep and publishes its result for Report. If the app has responded since the
// previous sweep, EndSweep records the silence that just ended if it is the longest so far.
func (d *Detector) EndSweep() {
	silence := d.silenceDuring(d.longestWait)
	lastResponse := d.lastResponse.Load()
	if d.sweepTime-d.longestSilenceEnd > longestSilenceTTL {
		d.longestSilence = 0
	}
	if lastResponse != d.previousLastResponse && d.previousSilence > d.longestSilence {
		d.longestSilence, d.longestSilenceEnd = d.previousSilence, d.sweepTime
	}
	d.previousSilence, d.previousLastResponse = silence, lastResponse
	hangs := d.silenceDuring(d.longestUnsafeWait) >= max(minUnsafeSilence, 2*d.longestSilence) || silence >= max(minSafeSilence, 2*d.longestSilence)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lastSweep = sweepResult{time: d.sweepTime, silence: silence, waitingRequests: d.waitingRequests, hangs: hangs, connsToCheck: d.connsToCheck}
}

// connAddresses returns the addresses of a connection to the app. ok is false if it is not a TCP
// connection.
func connAddresses(conn net.Conn) (addrs waitingConn, ok bool) {
	local, ok := conn.LocalAddr().(*net.TCPAddr)
	if !ok {
		return addrs, false
	}
	remote, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return addrs, false
	}
	return waitingConn{local: normalizeAddr(local), remote: normalizeAddr(remote)}, true
}

// normalizeAddr returns the address without zone, and IPv4 addresses in their 4-byte form, so that it
// can be compared with the addresses in the kernel tables.
func normalizeAddr(addr *net.TCPAddr) netip.AddrPort {
	addrPort := addr.AddrPort()
	return netip.AddrPortFrom(addrPort.Addr().Unmap().WithZone(""), addrPort.Port())
}

// Report reports whether the app was hanging at the last sweep. The zero Report means that it was
// not. A sweep before notBefore is ignored. A call may take some milliseconds, because it reads
// kernel tables, and should be made at most once a second. Any goroutine may call it.
func (d *Detector) Report(notBefore time.Duration) Report {
	d.mu.Lock()
	sweep := d.lastSweep
	d.mu.Unlock()
	if sweep.waitingRequests == 0 || sweep.time < notBefore {
		return Report{}
	}
	unread := 0
	if len(sweep.connsToCheck) > 0 {
		unread = countUnread(sweep.connsToCheck)
	}
	if !sweep.hangs && unread == 0 {
		return Report{}
	}
	return Report{SilentFor: sweep.silence, WaitingRequests: sweep.waitingRequests, UnreadRequests: unread}
}
