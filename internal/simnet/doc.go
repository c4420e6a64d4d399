// Package simnet is a network in memory, for tests that run whole clusters in
// a testing/synctest bubble.
//
// A Net has hosts; a Host listens, dials and sends packets under addresses of
// its own (10.0.0.1, 10.0.0.2 and so on; 127.0.0.1 is itself) and can be made
// to fail in the ways a real one does:
//
//	Crash     kill -9: its streams end at the other side with EOF, or with a
//	          reset if it had not read everything; redials are refused
//	Freeze    SIGSTOP: no call of its own network returns and nothing leaves
//	          it until Thaw; what was sent to it waits there; dials hang
//	Vanish    power loss: silence; dials hang; streams are reset after Restart
//	Cut       packets are lost one way, streams wait for Heal
//	Partition the same between groups, both ways
//	Reset     streams between two hosts get forged resets, dials are refused
//	SetLink   latency, jitter, loss
//
// Streams behave as TCP's do where programs notice: a buffer of bounded size
// per direction, deadlines, half close, a reset instead of an end when a side
// closes with unread bytes, errors that are the system's (ECONNREFUSED,
// ECONNRESET, EPIPE, ETIMEDOUT) in a *net.OpError. Lost segments of a stream
// are late, not gone: repeated after 200 ms, then after twice as long and so on,
// or at once when a later one has arrived. What is not modelled: acknowledgements
// otherwise (a link cut one way carries the other way without limit of time),
// bandwidth, and growing pauses over a cut (what waited arrives at once after
// Heal).
//
// Only network calls stand still in a frozen host; its goroutines and timers
// run on. A crashed or vanished Host handle is dead for good: what is left of
// its program gets errors, and Restart returns the handle for the next one.
//
// All waiting is on channels and timers and no lock is held meanwhile, so a
// bubble's time can advance. A Net must be made inside the bubble that uses it
// and works outside of bubbles too.
package simnet
