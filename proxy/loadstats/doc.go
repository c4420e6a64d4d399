// Package loadstats measures the load of a node: how busy each shard is, and which keys clients
// request most often.
//
// A Collector contains atomic counters per shard, to which requests add, and a sample of the
// requested keys. Update computes moving averages over about ten seconds from them. The sweep of the
// proxy calls Update, and Snapshot also does so. Any number of goroutines may use a Collector after
// Start has returned.
package loadstats
