// Package diskhistory remembers what disks have said of themselves, so that one that goes
// back behind its word is found out.
//
// A voter's word is what its disk holds: which terms it took part in, which
// entries it has. An older image of the disk has forgotten the newer part of it,
// and would vote for a candidate that lacks committed maps; two copies of one would
// vote twice. So every process states, at the start of each stream, its boot, its
// nonce, its Raft term, the last index of its log and the committed epoch that it
// has applied; heartbeats and Raft's own messages state more of it later. A Table
// keeps the most of it for each disk, across restarts of the node that heard it.
//
// The rule: a process that is not the one known of a disk must have a higher boot,
// a Raft term that is no lower and a log that reaches the epoch known as applied.
// Of one and the same process nothing is asked: its messages may overtake each
// other, and it cannot go back.
//
// Nothing is known of what was said to nobody who is left: docs/operate/backup-recovery.md.
package diskhistory
