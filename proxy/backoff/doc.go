// Package backoff holds requests back while a destination or a shard accepts none.
//
// Breaker is the circuit breaker of one destination. ByShard holds back the requests for the shards
// whose owner has refused requests. Both let single requests through as probes, with growing pauses,
// and implement a Condition that requests wait for in the Queues. Without them, thousands of waiting
// requests would keep the machine busy with attempts that fail.
//
// The types are safe for concurrent use after SetQueues.
package backoff
