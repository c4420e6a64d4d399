package proxy

import (
	"net/http"

	"shardway/internal/problem"
	"shardway/proxy/backoff"
	"shardway/proxy/route"
)

// detailShardInflight is the problem detail for a request that exceeds the in-flight limit of its
// shard and cannot wait, or not any longer.
const detailShardInflight = "the maximum number of requests of the shard is in flight (--max-shard-inflight), and the request had no place in the queue or no turn in time (--shard-queue, --queue-wait)"

// waitBehind returns the decision for a request whose shard has a queue of waiting requests. If the
// owner has refused requests because the shard is busy, a request that has not waited fails.
func (exchange *exchange) waitBehind(queue *backoff.ShardQueue) decision {
	result := decision{action: actionWait, reason: route.ReasonUnreachable, refusal: route.RefusedBusy, condition: queue}
	if !queue.OwnerSheds() {
		return result
	}
	if !exchange.hasWaited {
		return exchange.failShardInflight()
	}
	result.code, result.detail = problem.ShardBusy, detailShardInflight
	return result
}

// failShardInflight returns the final decision for a request that exceeds the in-flight limit of
// its shard.
func (exchange *exchange) failShardInflight() decision {
	return exchange.failInflight(problem.ShardBusy, detailShardInflight)
}

// failInflight returns the final decision for a request that exceeds an in-flight limit, with the given
// problem if the request has not run.
func (exchange *exchange) failInflight(code problem.Code, detail string) decision {
	if exchange.mayHaveRun() && exchange.safety != safeMethod {
		return fail(connErrorCode(exchange.lastRoute), detailMayHaveRun)
	}
	return fail(code, detail)
}

// wasShedByOwner reports whether a request must wait again after another node refused it because
// the shard has the maximum number of requests in progress. This applies only to a request that has
// waited before, because it was ahead of the requests that are now in progress.
func (exchange *exchange) wasShedByOwner(attempt *attempt) bool {
	mayWaitAgain := exchange.hasWaited && !exchange.isResumption()
	return mayWaitAgain && attempt.conn.Response.Status() == http.StatusServiceUnavailable && isOwnerProblem(attempt, problem.ShardBusy)
}
