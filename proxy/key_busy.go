package proxy

import (
	"errors"
	"math"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/keylimit"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// detailKeyInflight is the problem detail for a request that exceeds the in-flight limit of its key and cannot
// wait, or not any longer.
const detailKeyInflight = "the maximum number of requests of the key is in flight (--max-key-inflight), and the request had no place in the queue or no turn in time (--shard-queue, --queue-wait)"

// limitsKeys reports whether a request may have to wait for other requests of its key, may exceed a limit
// of its key, or may have timeouts that are not those of the node. An event loop does not serve such requests, because it must not block.
func (settings *Settings) limitsKeys() bool {
	return settings.MaxKeyInflight > 0 || settings.routes != nil || !settings.KeyLimit.IsOff() || settings.servicesLimit
}

// enterKey takes a permit among the key's requests at this owner, waiting if necessary. The permit is released when the
// admission ends; see admission.release. The zero decision means that the request may be sent to the app.
func (router *router) enterKey() decision {
	settings := router.server.settings.Load().of(router.exchange.service) // a reload may have enabled the limit after the headers were read
	if !router.needsKeyPermit(settings) {
		return decision{}
	}
	waiter := &keylimit.Waiter{
		ID: router.keyID(), Shard: uint32(router.exchange.shard), Limit: settings.MaxKeyInflight,
		MaxQueued: settings.ShardQueue, HadTurn: router.exchange.hadTurn,
	}
	permit, err := router.enterGate(&router.server.keyGate, waiter)
	if err != nil {
		return router.wait.decideAfterGateError(err, problem.KeyBusy, detailKeyInflight)
	}
	router.admission.keyPermit = permit
	return decision{}
}

// enterShard is like enterKey, for the requests of the shard. It does nothing if the app is a single process,
// because the app's connection pool then limits the shard's requests.
func (router *router) enterShard() decision {
	settings := router.server.settings.Load().of(router.exchange.service) // like enterKey
	if !router.needsShardPermit(settings) {
		return decision{}
	}
	waiter := &keylimit.Waiter{
		ID: keylimit.ID{uint64(router.exchange.shard)}, Shard: uint32(router.exchange.shard), Limit: settings.MaxShardInflight,
		MaxQueued: settings.ShardQueue, HadTurn: router.exchange.hadTurn,
	}
	if router.exchange.hasWaited && router.ingress == "" { // it has already waited for its shard, so it must not be refused
		waiter.MaxQueued = math.MaxInt
	}
	permit, err := router.enterGate(&router.server.shardGate, waiter)
	if err != nil {
		return router.wait.decideAfterGateError(err, problem.ShardBusy, detailShardInflight)
	}
	router.admission.shardPermit = permit
	return decision{}
}

// needsKeyPermit reports whether the request needs a permit among the requests of its key.
func (router *router) needsKeyPermit(settings *Settings) bool {
	return settings.MaxKeyInflight > 0 && !router.exchange.Keyless && !router.wait.isResumedStream()
}

// needsShardPermit reports whether the request needs a permit among the requests of its shard.
func (router *router) needsShardPermit(settings *Settings) bool {
	return router.server.limitsProcesses(settings) && !router.wait.isResumedStream()
}

// limitsProcesses reports whether Server.shardGate limits the requests of shards.
func (s *Server) limitsProcesses(settings *Settings) bool {
	return s.options.Processes != nil && settings.MaxShardInflight > 0
}

// enterGate takes a permit of a gate, waiting if necessary.
func (router *router) enterGate(gate *keylimit.Gate, waiter *keylimit.Waiter) (keylimit.Permit, error) {
	permit, err := gate.Join(waiter)
	if err == nil && !permit.IsHeld() {
		account := &router.exchange.account
		startedAt := account.Now()
		permit, err = router.wait.awaitPermit(gate, waiter)
		account.QueueWait += account.Since(startedAt)
	}
	return permit, err
}

// keyID returns the ID of the key of the request. Keys of different services have different IDs.
func (router *router) keyID() keylimit.ID {
	return router.server.keyHasher.ID(router.keyBytes()).In(router.serviceSettings().serviceScope)
}

// awaitPermit waits for a waiter in the queue of its key or shard to get its permit.
func (wait *requestWait) awaitPermit(gate *keylimit.Gate, waiter *keylimit.Waiter) (keylimit.Permit, error) {
	if hasMoved(waiter.Shard, wait.server.options.Cluster.Table()) {
		gate.Abandon(waiter)
		return keylimit.Permit{}, keylimit.ErrMoved
	}
	if result := wait.enterQueue(); result.action != 0 {
		gate.Abandon(waiter)
		return keylimit.Permit{}, &queueFullError{result}
	}
	wait.disconnect.Arm()
	wait.disconnect.Start()
	defer wait.disconnect.Disarm()
	return gate.Await(waiter, wait.context().Done(), wait.timeLeft(time.Now()))
}

// decideAfterGateError converts the error of enterGate into a decision. code and detail describe a request that has
// exceeded the limit.
func (wait *requestWait) decideAfterGateError(err error, code problem.Code, detail string) decision {
	if result, hasEnded := wait.decideIfNotLimited(err); hasEnded {
		return result
	}
	return wait.exchange.failInflight(code, detail)
}

// decideIfNotLimited returns the decision after an error of enterGate that has another reason than the limit.
func (wait *requestWait) decideIfNotLimited(err error) (result decision, hasEnded bool) {
	switch {
	case errors.Is(err, keylimit.ErrMoved):
		return decision{action: actionRetry}, true
	case errors.Is(err, keylimit.ErrCanceled):
		return done, true
	}
	return wait.decideIfEnded(err)
}

// hasMoved reports whether table does not route the shard to the app of this node.
func hasMoved(shard uint32, table *route.Table) bool {
	return int(shard) >= table.Shards() || table.Route(shardmap.Shard(shard)).Kind != route.Local
}

// recheckKeys makes requests that wait for others of their key or shard look up their route again if table routes
// their shard to another node.
func (s *Server) recheckKeys(table *route.Table) {
	moved := func(shard uint32) bool { return hasMoved(shard, table) }
	s.keyGate.Recheck(moved)
	s.shardGate.Recheck(moved)
	s.limitGate.Recheck(moved)
}

// isResumedStream reports whether the request continues a stream. Such a request was admitted before its
// shard moved, so it has no limit.
func (wait *requestWait) isResumedStream() bool {
	return wait.exchange.eventStream != nil || wait.exchange.senderResumeCount > 0 || wait.exchange.isResumption()
}
