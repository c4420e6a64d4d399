// Package logs turns what Serf, memberlist and Raft log into zerolog lines.
//
// The libraries call an error what heals by itself: a peer that is down gives
// one "failed to heartbeat" every few milliseconds. So their levels are lowered
// (error to warn, the rest to debug), and the same message is written at most
// once a minute, with the number of those left out. Of different ones at
// most 65 are written in that time, because strangers decide what stands in some.
package logs
