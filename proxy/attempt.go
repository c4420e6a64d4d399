package proxy

import (
	"errors"

	"shardway/internal/problem"
	"shardway/proxy/cause"
	"shardway/proxy/connlife"
	"shardway/proxy/connpool"
	"shardway/proxy/inflight"
	"shardway/proxy/reqbody"
	"shardway/proxy/route"
)

// detailMayHaveRun is part of each error response to a request that an app may have executed.
const detailMayHaveRun = "the connection broke after the request was sent: it may have run"

// maxTries limits how often a request that may have run is sent, over all nodes. maxReusedTries
// limits how many of these attempts use a connection that has carried other requests. The last
// attempt always uses a new connection, because all connections to a dead node break one after
// another.
const (
	maxTries       = 3
	maxReusedTries = 2
)

// errNotSwitched reports a 101 response to a request without Upgrade.
var errNotSwitched = errors.New("proxy: 101 without being asked")

// attempt is one try to send a request over one connection and to receive the response. The run of
// the request has begun in the slot of the client's connection (inflight.Slot).
//
// The goroutine that ends an attempt must call release once, after the app has finished the request
// or its connection is closed. Then it must return the connection to its pool or discard it.
type attempt struct {
	conn  *connpool.Conn // connection to the app, or to the node that owns the shard
	table *route.Table   // routing table that was used
	route *route.Route   // destination according to the table
	attemptEpoch
	release         func() // ends the admission of a local attempt; a no-op for a remote one
	responsesBefore int    // number of responses that earlier attempts of the request received
	bodyHeldBack    bool   // the body is held back until the owner accepts the request (headerContinue)

	// State of the client's connection.

	slot       *inflight.Slot
	body       *reqbody.Body
	disconnect *connlife.DisconnectWatch
}

// attemptEpoch identifies the state of the cluster in which a request was sent.
type attemptEpoch struct {
	epoch      uint64 // ownership epoch of the shard; zero means unknown
	generation uint64 // generation of the routing table, for a local attempt; zero means unknown
}

// abort ends an attempt by closing its connection. It also stops sending the client's body. It
// returns the cause if the attempt was cancelled.
func (attempt *attempt) abort() cause.Cause {
	cancelCause := attempt.slot.Finish()
	_ = attempt.conn.Close() // before release, so that the app cannot still be working on the request
	attempt.release()
	attempt.body.StopSending()
	attempt.disconnect.Disarm()
	attempt.conn.Pool.Discard(attempt.conn)
	return cancelCause
}

// cancelUnsent ends an attempt before anything was sent, and returns its connection to the pool.
func (attempt *attempt) cancelUnsent() {
	attempt.slot.ReturnToPool(attempt.conn)
	attempt.release()
}

// noop is the release function of an attempt without an admission.
func noop() {}

// isUnprocessed reports whether the request was sent on a multiplexed stream that failed before the peer
// read any byte of it.
func (attempt *attempt) isUnprocessed() bool {
	return attempt.conn.Mux != nil && attempt.conn.Mux.Unprocessed()
}

// connErrorCode returns the problem code for a connection that broke on the given route.
func connErrorCode(kind route.Kind) problem.Code {
	if kind == route.Remote {
		return problem.PeerUnreachable
	}
	return problem.UpstreamBroken
}

// headerAcquire is set by the app in a 421 response. It means that the app has not acquired the
// shard and has not run the request.
const headerAcquire = "Shardway-Acquire"

// errNoLease reports that the lease expired between a request's admission and its first byte.
var errNoLease = errors.New("proxy: no lease")
