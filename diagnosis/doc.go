// Package diagnosis says in sentences what is the matter with a cluster, as one node
// sees it: Of turns what the node knows (Inputs) into findings, the gravest first.
//
// It is pure: no clock, lock, goroutine or socket. Everything that people, scripts and
// clients are told of the cluster's state comes from here, so all of them are told the
// same: /status and `shardway status`, the body of /readyz and of the proxy's 503s, one
// log line for each change, and the gauge shardway_finding. What flickers is steadied
// before it gets in (Steady): Of itself remembers nothing.
//
// Package node collects the inputs, now and then and in one goroutine. The findings of a
// moment never change, so any number of goroutines may read them.
package diagnosis
