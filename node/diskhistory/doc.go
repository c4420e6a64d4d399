// Package diskhistory records what processes have stated about their disks (data directories), so that a
// node can detect a disk that was replaced by an older image or a copy.
//
// Raft requires that a voter never forgets its votes and its log entries. An older image of a disk has
// forgotten the newest of them: its voter could vote for a candidate that lacks committed maps. Two copies
// of one disk could vote twice in a term. Therefore each process states the following values at the start
// of each stream. Heartbeats and the messages of Raft contain later values of some of them.
//
//   - the boot number, which increases with each start from the disk
//   - the nonce, a random number of the process
//   - the Raft term
//   - the last index of the log
//   - the committed epoch that the process has applied
//
// A Table contains the highest stated values for each disk. It is stored, so it survives restarts of the
// node that has received the statements.
//
// A process with a nonce other than the recorded one must have a higher boot number, at least the recorded term,
// and a log that reaches the recorded applied epoch. The statements of the recorded process itself are not checked:
// a running process cannot lose its state, and its messages may arrive out of order.
//
// A Table cannot detect a rollback if no remaining node has received the statements that were lost, see
// docs/operate/backup-recovery.md.
package diskhistory
