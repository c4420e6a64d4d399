// Package diagnosis describes the problems of a cluster, as one node sees them, with a remedy for
// each. Findings converts the state that the node knows (Inputs) to findings, most severe first.
// Compare does the same for the reports of all nodes (Checkup), for `shardway doctor`.
//
// All surfaces report these findings, so all of them agree: /status and `shardway status`, the
// body of /readyz and of the proxy's 503 responses, one log line for each change, and the gauge
// shardway_finding.
//
// The package is pure: it has no clock, lock, goroutine or I/O, and Findings keeps no state.
// Conditions that change often are debounced before they become inputs (Debouncer).
//
// Package node collects the inputs periodically in one goroutine. Findings are immutable, so any
// number of goroutines may read them.
package diagnosis
