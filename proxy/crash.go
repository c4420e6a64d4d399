package proxy

import (
	"shardway/proxy/cause"
	"shardway/proxy/poison"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
)

// recordCrash records that the connection of an attempt broke, and reports whether the request must not be retried.
// A request that crashes every process that runs it could otherwise bring down all nodes. The request is therefore
// not retried if its key is implicated in two crashes, a previous one and this one. Several broken connections to
// the same process count as one crash. Connections that this node aborted, for example because the owner was
// unreachable, do not count.
func (retry *retrier) recordCrash(attempt *attempt, cancelCause cause.Cause) (poisonous bool) {
	if cancelCause != cause.None || attempt.route.Kind != route.Remote || retry.exchange.Keyless || retry.exchange.responsesBegun != attempt.responsesBefore {
		return false
	}
	key := poison.Implicated{Shard: retry.exchange.shard, Hash: shardkey.Hash(retry.server.options.HashKey(), retry.exchange.Key)}
	record := retry.server.crashes.Record(poison.Process{Node: attempt.route.Node, Boot: attempt.conn.Boot}, key)
	earlier := retry.exchange.lastCrash
	retry.exchange.lastCrash = record
	if earlier == nil || earlier == record {
		return false
	}
	return retry.server.crashes.Implicates(earlier)
}
