// Package simnet is a network in memory, for tests that run whole clusters in a
// testing/synctest bubble. Only tests use it.
//
// A Net has hosts. A Host listens, dials and sends packets with its own address (10.0.0.1,
// 10.0.0.2 and so on; 127.0.0.1 is the host itself). It can fail in the ways of a real
// host:
//
//	Crash     kill -9: the peers of its streams get EOF, or a reset if it had
//	          unread data; new dials are refused
//	Freeze    SIGSTOP: no network call of the host returns and it sends nothing
//	          until Thaw; data sent to it waits; dials block
//	Vanish    power loss: no responses; dials block; streams are reset after Restart
//	Cut       packets are lost in one direction; streams wait for Heal
//	Partition Cut between groups, in both directions
//	Reset     streams between two hosts get forged resets; dials are refused
//	SetLink   latency, jitter, loss
//
// Streams behave like TCP in everything that programs notice: a bounded buffer per
// direction, deadlines, half close, a reset instead of an end if a side closes with unread
// data, and the errors of the system (ECONNREFUSED, ECONNRESET, EPIPE, ETIMEDOUT) in a
// *net.OpError. Lost segments of a stream arrive late. They are repeated after 200 ms, then
// after twice that time and so on, or at once when a later segment has arrived.
//
// The following is not modelled:
//
//   - other acknowledgements: a link that is cut in one direction carries the other
//     direction for an unlimited time
//   - bandwidth
//   - growing retransmission pauses during a cut: waiting data arrives immediately after
//     Heal
//
// Freeze stops only the network calls of a host. Its goroutines and timers continue. The
// handle of a crashed or vanished Host is dead permanently: the remainder of its program
// gets errors. Restart returns the handle for the next process.
//
// All waiting is on channels and timers without holding a lock, so the time of a bubble can
// advance. A Net must be created in the bubble that uses it. It also works outside of
// bubbles.
package simnet
