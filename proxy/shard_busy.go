package proxy

import (
	"net/http"

	"shardway/internal/problem"
	"shardway/proxy/backoff"
	"shardway/proxy/route"
)

// detailShardInflight is the detail of the problem for a request that exceeds the in-flight limit
// of its shard.
const detailShardInflight = "as many requests of the shard are under way as there may be (--max-shard-inflight)"

// waitBehind returns the decision for a request whose shard other requests are waiting for. If the
// owner sheds, a request that has not waited fails.
func (exchange *exchange) waitBehind(queue *backoff.ShardQueue) decision {
	if !queue.OwnerSheds() {
		return decision{action: actionWait, reason: route.ReasonUnreachable, refusal: route.RefusedBusy, condition: queue}
	}
	if !exchange.hasWaited {
		return exchange.shardInflightFull()
	}
	return decision{action: actionWait, reason: route.ReasonUnreachable, refusal: route.RefusedBusy, condition: queue, code: problem.ShardBusy, detail: detailShardInflight}
}

// shardInflightFull returns the final decision for a request that exceeds the in-flight limit of
// its shard.
func (exchange *exchange) shardInflightFull() decision {
	if exchange.mayHaveRun() && exchange.safety != safeMethod {
		return fail(connErrorCode(exchange.lastRoute), detailMayHaveRun)
	}
	return fail(problem.ShardBusy, detailShardInflight)
}

// shedByOwner reports whether a request must wait again after another node has refused it because
// the shard has the maximum number of requests in progress. Only a request that has waited before
// does so: it has already waited for the requests that are in progress now.
func (exchange *exchange) shedByOwner(attempt *attempt) bool {
	return exchange.hasWaited && !exchange.isResumption() && attempt.conn.Response.Status() == http.StatusServiceUnavailable && isOwnerProblem(attempt, problem.ShardBusy)
}
