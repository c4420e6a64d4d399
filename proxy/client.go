package proxy

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"shardway/proxy/h1"
)

// requestState is a request as its connection has it: who asks, what, and what has become of
// it so far. The flow and its leaves share it; who has it and no client cannot call the
// flow.
type requestState struct {
	s       *Server
	conn    *h1.Conn
	ingress string    // the node at the other end; empty: a client
	from    origin    // the client's address
	set     *Settings // in force for this request

	req  h1.Request
	x    exchange
	body requestBody

	// Memory for one head after another.
	edit  h1.Edit
	extra []byte
	// slowResponse is what the answer that is passed on is remembered by (sizes), if another node
	// gave it and nobody knows how long it takes; zero: it did not, or has taken long already.
	slowResponse atomic.Uint64
	// escaped tells that others may have come to know of the connection than those who
	// look at the registry: its memory is not used again.
	escaped bool
}

// draining reports whether the connection is to end with its present answer
// because the node is leaving. Streams of other nodes go on to the end: who
// forwards here knows by the map when to stop.
func (a *requestState) draining() bool { return a.ingress == "" && a.s.draining.Load() }

// last reports whether the request is the client's last by its own word, and all of it
// has been read.
func (a *requestState) last() bool { return !a.req.KeepAlive() && a.req.Body.Done() && !a.body.broken }

// client is a connection that requests come by: from a client, or, when ingress
// is set, from another node. Its goroutine runs serve; others reach in through
// slot, idle, down and the watch. Its methods are the flow of a request (serve.go) and
// what acts on the connection from outside; the leaves have types of their own.
type client struct {
	requestState
	life lifetime

	// The leaves.
	keys          finder
	wait          requestWait
	requestWriter requestWriter
	reply         reply
	relay         responseRelay

	// Of one that a loop may carry.
	loop          atomic.Pointer[eventLoop] // that does; nil: its goroutine
	eventLoops    *eventLoopGroup           // one of which may; nil: none
	loopState     loopState
	resumeAt      resumePoint // where its goroutine goes on
	loopAttempt   loopAttempt // what it has under way there, or had
	eligibility   loopEligibility
	wakeLoop      func()      // has it leave its loop, bound once
	parkRequested atomic.Bool // to be parked
	handedToLoop  bool        // it joins a loop: nobody else has anything to do with it

	slot slot
	// lastSeen is the number of the run that Stalled saw last, and its alone.
	lastSeen   uint32
	disconnect disconnectWatch
	// session is the socket that the connection has become, at the node that has its client.
	session atomic.Pointer[webSocketSession]
	// idle is when the wait for a request began, by the server's clock; zero
	// while one runs.
	idle atomic.Int64
	// pollSince is when a long poll was first sent that has been sent again because its shard
	// moved, by the server's clock; zero: it has not been.
	pollSince atomic.Int64
	// reused is true once the connection has carried a request before the present one. Clients
	// send a safe request again when such a connection is closed without a response.
	reused atomic.Bool
	// shed tells that it has been asked to make room for another connection.
	shed         atomic.Bool
	headerMemory reservation // what a head keeps that is partly read
	// down tells that the connection is being closed from outside, so that no
	// run begins unseen.
	down atomic.Bool
	// unobserved tells that nobody looked at the registry when it let the connection go.
	unobserved bool
	goroutines *sync.WaitGroup // of the goroutines that carry it
	watcher    *idleWatcher    // where it may be parked; nil: nowhere
	canPark    atomic.Bool     // it may be: the sweep has it parked
	parkDelay  atomic.Int64    // for how many nanoseconds it has to be idle before that
	// parked tells that it has been: the connection is not this client's any more.
	parked bool
	// parkedHalves is how many directions are parked of the socket that it has become. The
	// registry's mu guards it.
	parkedHalves int

	leaseCheck      func() (time.Duration, error) // c.askLease, bound once
	releaseAdmitted func()                        // c.release, likewise
	onHeaderMemory  func(delta int)               // c.noteHeaderMemory, likewise

	// admitted is what ends the request's part in its shard's in-flight count; nil
	// when there is none.
	admitted func()

	// The sweep's own.
	seenRun       uint32        // the run at the last sweep
	letGo         uint32        // the run that counts as a stream
	since         time.Duration // when the sweep first saw it, or saw its body go out
	nextPathCheck time.Duration // when it looks at the path to the owner next
	cutRun        uint32        // the run that was found cut, of a stream that is kept
	cutAt         time.Duration // when that was
	moved         time.Duration // since when its shard has been elsewhere; zero: it is not
}

// newClient makes the client of a connection; serve runs it. It may have the memory of one
// that is over.
func newClient(ctx context.Context, s *Server, conn net.Conn, ingress string) *client {
	var c *client
	if ingress == "" {
		c = s.clients.take()
	}
	if c == nil {
		c = makeClient(s)
	}
	c.ingress, c.set = ingress, s.set.Load()
	c.keys.set = c.set
	o := s.clientOptions(ingress, c.set)
	o.Buffers = &s.buffers
	if ingress == "" {
		o.Partial = c.onHeaderMemory
		o.EndIdle = true // a node is told that none of its requests ran, and may send more
	}
	o.Direct = direct(conn)
	c.conn.Reset(conn, o)
	c.life = lifetime{within: ctx}
	if ingress == "" {
		c.from.set(conn, c.set.TrustedProxies)
		boundUnacknowledged(conn, c.set)
	}
	return c
}

// makeClient makes a client without a connection, and binds what belongs together.
func makeClient(s *Server) *client {
	c := &client{requestState: requestState{s: s, conn: &h1.Conn{}}}
	c.keys = finder{req: &c.req, from: &c.from, place: s.placeKey}
	c.slot.client = c.conn
	c.headerMemory.stop = c.conn.StopHead
	c.body.init(s, c.conn, &c.req, c.uploaded)
	c.leaseCheck, c.releaseAdmitted, c.onHeaderMemory = c.askLease, c.release, c.noteHeaderMemory
	c.disconnect.init(c.conn, c.left)
	c.wait = requestWait{requestState: &c.requestState, disconnect: &c.disconnect, down: &c.down, life: &c.life}
	c.requestWriter, c.reply = requestWriter{&c.requestState}, reply{&c.requestState}
	c.relay = responseRelay{reply: c.reply, slot: &c.slot}
	c.relay.leaves = c.relay.answerLeaves
	c.wakeLoop = func() {
		if l := c.loop.Load(); l != nil {
			l.send(message{c: c})
		}
	}
	return c
}

// bodyPatience is for how long a request's body is waited for before its rate counts.
const bodyPatience = 10 * time.Second

// clientOptions returns the bounds of a client's connection, or of a stream from
// the node ingress.
func (s *Server) clientOptions(ingress string, set *Settings) h1.Options {
	o := h1.Options{
		Lingering: &s.lingering,
		HeadBytes: set.MaxHeaderBytes, HeadLines: set.MaxHeaders, TargetBytes: set.MaxURI,
		Timeouts: h1.Timeouts{First: set.IdleTimeout, Head: set.HeaderTimeout, Body: set.IdleTimeout, Write: set.IdleTimeout},
	}
	o.Timeouts.Rate, o.Timeouts.Patience = max(set.MinBodyRate, 0), bodyPatience
	if ingress != "" {
		// It is the ingress that tells its client; this is for one that does not.
		o.Timeouts.Patience += bodyPatience / 2
		o.Timeouts.First = 0 // how long a stream stays idle is the ingress's affair
		o = peerOptions(o, set)
	}
	return o
}

// left is called, from another goroutine, when the client has closed its side.
func (c *client) left() {
	if c.down.Load() {
		return // it was closed here
	}
	c.s.metrics.clientsGone.Add(1)
	c.shut(causeGone)
}

// partTime is how long a stream from another node may take to say what became of its
// request, when this node ends it.
const partTime = 100 * time.Millisecond

// shut ends the connection from outside: what it runs is cut, what it waits for
// is over. Another node is told what became of its request, see part.
func (c *client) shut(why cause) {
	c.down.Store(true) // and so its memory is not used again
	closes, _ := c.slot.cut(why, func(run, string) bool { return true }, nil)
	closeAll(closes)
	c.life.end()
	if why == causeShutdown && c.ingress != "" {
		c.conn.StopRead()
		time.AfterFunc(partTime, func() { _ = c.conn.Cut() })
		return
	}
	_ = c.conn.Close() // its goroutine meets the error
}

// reportStopped tells the node at the other end, as this one ends its stream, that the request
// which came by it has not run, or that it may have; false: there is another answer. A
// process that says so was not ended by what it ran.
func (c *client) reportStopped() bool {
	if c.ingress == "" || !c.down.Load() || c.x.account.status != 0 {
		return false
	}
	if !c.x.cutRun {
		c.s.metrics.refused[RefusedEnded].Add(1)
	}
	c.reply.parted(c.x.cutRun)
	return true
}

// askLease is asked right before the first byte goes to the app.
func (c *client) askLease() (time.Duration, error) {
	left := c.s.o.Cluster.LeaseLeft()
	if left <= 0 {
		return 0, errNoLease
	}
	return left, nil
}

// uploaded is told by the goroutine of an upload that it ends.
func (c *client) uploaded(rerr error) {
	if rerr == nil {
		c.disconnect.arm() // nobody reads any more
		return
	}
	if errors.Is(rerr, h1.ErrStopped) {
		return
	}
	// A request that was cut must not look whole to the app. The client's connection
	// stays: an answer may be on its way by it, the owner's 413 for one, and relay tells
	// whether that came to its end.
	closes, _ := c.slot.cut(causeGone, func(run, string) bool { return true }, nil)
	closeAll(closes[:min(len(closes), 1)])
}
