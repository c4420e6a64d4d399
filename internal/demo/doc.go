// Package demo is a cluster to try: three nodes, each in front of a sample app
// that keeps a counter per key, all as processes of the one binary on loopback. The
// counters follow their shards from app to app, by a directory that all share.
//
// Run starts them, waits until every node serves, prints what to try, starts
// again whatever the user kills, and stops and removes everything when its
// context ends. RunApp is the sample app alone, as the command demo-app runs it.
//
// One goroutine owns the processes: the one that called Run. It stays on its
// operating system thread because the kernel ties "signal me when my parent
// dies" to the thread that started a child, not to the process.
package demo
