// Package logs converts the log messages of Serf, memberlist and Raft to zerolog lines.
//
// The libraries log errors for conditions that resolve on their own: while a peer is down, they log "failed to
// heartbeat" every few milliseconds. The package therefore lowers their levels (error to warn, and the others to debug
// or trace). It writes the same message at most once a minute, with the number of omitted repetitions. In that time it
// writes at most 65 different messages, because some messages contain text that other hosts have sent, and these hosts
// must not be able to fill the log.
package logs
