package proxy

import (
	"context"
	"errors"
	"net"

	"shardway/internal/problem"
	"shardway/proxy/connpool"
	"shardway/proxy/h1"
	"shardway/proxy/procpool"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/shardmap"
)

// Processes runs one process of the app for each key or shard. Any goroutine may call the methods.
type Processes interface {
	// CheckKey returns an error for the client if a key cannot have a process.
	CheckKey(key []byte) error
	// TargetOf returns the process that serves a key of a shard.
	TargetOf(shard shardmap.Shard, key []byte) procpool.Target
	// Dial connects to a process, starting it and waiting until it is ready if necessary. ended is closed when the
	// process has exited. See package procpool for the errors.
	Dial(ctx context.Context, target procpool.Target) (conn net.Conn, ended <-chan struct{}, err error)
}

// ProcessPools returns the pools of connections to the processes of the app. It returns nil without
// Options.Processes.
func (s *Server) ProcessPools() *procpool.Pools { return s.upstreams.Processes }

// localPool returns the pool of connections to the app instance of dest. With Options.Processes, it returns the
// pool of the process that serves the request. The caller must then call Release of process when the attempt
// has ended. A nil pool means that the request waits or fails with the decision.
func (router *router) localPool(dest *route.Route) (pool *connpool.Pool, process *procpool.Entry, result decision) {
	processes := router.server.options.Processes
	if processes == nil {
		pool = router.server.upstreams.App(dest.Instance)
		if pool == nil { // the instance was removed from the configuration, and the next map moves its shards
			return nil, nil, router.refuseInstance()
		}
		return pool, nil, decision{}
	}
	if router.exchange.Keyless {
		return nil, nil, fail(problem.NoKey, "the request has no key, and each key has its own process of the app (--exec)")
	}
	key, ok := router.processKey()
	if !ok {
		return nil, nil, fail(problem.Misrouted, "the request was forwarded without a valid key")
	}
	if err := processes.CheckKey(key); err != nil {
		return nil, nil, fail(problem.BadRequest, err.Error())
	}
	process = router.server.upstreams.Processes.Acquire(processes.TargetOf(router.exchange.shard, key))
	return process.Pool, process, decision{}
}

// processKey returns the key of the request. A forwarded request has it in a header, which only nodes can set.
func (router *router) processKey() (key []byte, ok bool) {
	if router.ingress == "" {
		return router.exchange.Key, len(router.exchange.Key) > 0
	}
	key, ok = shardkey.AppendDecoded(nil, router.req.Known(h1.FieldShardwayKey))
	if !ok || len(key) == 0 {
		return nil, false
	}
	shard, ok := router.server.options.Cluster.Table().ShardOf(router.exchange.service, key)
	return key, ok && shard == router.exchange.shard
}

// decideAfterProcessError converts an error of Processes.Dial into a decision. ok is false for any other error.
// Errors of Processes.Dial concern only one process, so they must not trip the ingress's circuit breaker for this
// node.
func (wait *requestWait) decideAfterProcessError(err error) (result decision, ok bool) {
	var startError *procpool.StartError
	switch {
	case errors.As(err, &startError):
		wait.server.options.Log.Debug().Err(err).Msg("destination unreachable")
		return fail(problem.ProcessFailed, wait.exchange.addMayHaveRun("the process of the app for this key could not be started, or has failed; the log of the node contains the reason")), true
	case errors.Is(err, procpool.ErrLimit):
		return fail(problem.ProcessLimit, wait.exchange.addMayHaveRun("the maximum number of processes of the app run, and all of them are in use (--exec-max)")), true
	case errors.Is(err, procpool.ErrNotOwned):
		return decision{action: actionWait, reason: route.ReasonMoving, refusal: route.RefusedQueued, backoff: true}, true
	}
	return decision{}, false
}
